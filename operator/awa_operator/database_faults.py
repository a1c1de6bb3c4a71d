"""What the server, the driver and the network report, in our words.

Told apart by SQLSTATE, and by type where there is none. Nothing of the original text is passed on:
it may quote the connection string, the role or the address.
"""

import ssl

from awa_operator.dsn import Dsn, unreadable_file
from awa_operator.errors import OperatorError
from awa_operator.observed import DatabaseProblem as Problem


class DatabaseFault(OperatorError):
    """The database could not be asked. `problem` is the reason; the message holds no secret."""

    def __init__(self, problem: Problem, message: str) -> None:
        super().__init__(message)
        self.problem = problem
        self.message = message


def connect_fault(error: Exception, dsn: Dsn) -> DatabaseFault:
    """Return what came instead of a connection, in our words."""
    state = getattr(error, "sqlstate", None)
    if isinstance(error, TimeoutError):
        return DatabaseFault(Problem.TIMEOUT, "the server did not answer within 3 seconds")
    if (text := _tls_words(error, dsn)) is not None:
        return DatabaseFault(Problem.TLS_FAILED, text)
    if isinstance(error, OSError):
        return DatabaseFault(Problem.CONNECTION_REFUSED, _os_words(error))
    if state is None:
        text = "the driver cannot use the connection string: an option or its value is wrong"
        return DatabaseFault(Problem.UNREACHABLE, text)
    return _state_fault(state)


def statement_fault(error: Exception) -> DatabaseFault:
    """Return what came instead of an answer, in our words."""
    state = getattr(error, "sqlstate", None)
    if state is None:
        return DatabaseFault(Problem.CONNECTION_REFUSED, "the connection was lost")
    return _state_fault(state)


def _tls_words(error: Exception, dsn: Dsn) -> str | None:
    """Return what is wrong about TLS, None if something else is."""
    is_tls = isinstance(error, ssl.SSLError) or "rejected SSL" in str(error)
    if is_tls or isinstance(error, FileNotFoundError | PermissionError | IsADirectoryError):
        file = unreadable_file(dsn)
        if file is not None:
            return (
                f"the connection string names a file that the operator cannot read: {file}; mount "
                "it in the operator too (volumes and volumeMounts of its chart), or let "
                "monitorSecretRef name another"
            )
    if is_tls:
        return "TLS with the server failed; check sslmode, sslrootcert and the server's certificate"
    if "root certificate file" in str(error):
        return "sslmode asks for a trusted certificate and the connection string has no sslrootcert"
    return None


def _state_fault(state: str) -> DatabaseFault:
    problem, text = _BY_STATE.get(state) or _BY_CLASS.get(state[:2]) or _ELSE
    return DatabaseFault(problem, f"{text} (SQLSTATE {state})")


_RESTARTING = (Problem.CONNECTION_REFUSED, "the server is starting, stopping or ended the session")
_CREDENTIALS = (
    Problem.AUTHENTICATION_FAILED,
    "the server refused the role, its password, or connections from here (pg_hba.conf)",
)
_ELSE = (Problem.UNREACHABLE, "the server refused")
_BY_STATE = {
    "3D000": (Problem.NO_SUCH_DATABASE, "the database does not exist; create it"),
    "42501": (
        Problem.PERMISSION_MISSING,
        "the role lacks a right; run `awa migrate --grant ROLE --level monitor`",
    ),
    "53300": (
        Problem.TOO_MANY_CONNECTIONS,
        "the server, the database or the role has no connection left",
    ),
    "25006": (Problem.READ_ONLY, "the database takes no writes"),
    "57014": (Problem.TIMEOUT, "a statement took longer than 2 seconds"),
    "55P03": (Problem.TIMEOUT, "a lock was not to be had within a second"),
}
_BY_CLASS = {
    "28": _CREDENTIALS,
    "08": _RESTARTING,
    "53": (Problem.UNREACHABLE, "the server is out of memory, disk or other resources"),
    "57": _RESTARTING,
    "58": (Problem.UNREACHABLE, "the server has a problem of its own; see its log"),
}


def ends_session(error: Exception) -> bool:
    """Whether the server ends the session with this error."""
    state = str(getattr(error, "sqlstate", None) or "")
    return state[:2] in ("08", "57", "58") and state != "57014"


def _os_words(error: OSError) -> str:
    if isinstance(error, ConnectionRefusedError):
        return "the server's port refuses connections: is it running, and is the port right?"
    if (error.errno or 0) < 0:  # of getaddrinfo
        return "the server's host name is not known"
    if isinstance(error, ConnectionError):
        return "the connection was cut while it was opened"
    return "the server cannot be reached from the operator"
