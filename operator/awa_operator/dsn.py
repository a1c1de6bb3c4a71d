"""Connection strings out of Secrets: found, decoded, and refused where they would be misread.

What a connection string means is the driver's business. This module looks only for what the driver
would read as something else than was meant (a password that is not percent-encoded ends the host
name somewhere else), so that nobody's password is sent to a host that it names by accident.

Nothing here ever shows a value: messages name Secrets, keys, option names, and files of TLS.
"""

import base64
import binascii
import hashlib
import hmac
import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from awa_operator.observed import SecretState

_SCHEMES = ("postgresql", "postgres")
_ENCODE = "write @ as %40, # as %23, % as %25, / as %2F, ? as %3F and : as %3A in it"
_READS_FILES = ("passfile", "service", "servicefile")
"""Options that would have the driver read connection data from the operator's own file system."""
_TLS_FILES = ("sslrootcert", "sslcert", "sslkey", "sslcrl")
_LONGEST_PATH = 300
_LONGEST_BYTES = 16 * 1024
_SHOWN_KEYS = 10
# Fingerprints are compared within one process only, so nobody can try passwords against one.
_FINGERPRINT_KEY = secrets.token_bytes(32)


@dataclass(frozen=True, slots=True)
class DsnProblem:
    """Why there is no connection string. `message` holds nothing secret."""

    state: SecretState
    message: str


@dataclass(frozen=True, slots=True)
class Dsn:
    """A connection string. Its text is for the driver alone, and is never shown."""

    value: str = field(repr=False)

    @property
    def fingerprint(self) -> str:
        """Tells apart what a Secret held at different times, in this process and nowhere else."""
        return hmac.new(_FINGERPRINT_KEY, self.value.encode(), hashlib.sha256).hexdigest()[:16]

    def __str__(self) -> str:
        return "<connection string>"


def read_dsn(secret: str, key: str, data: Mapping[str, str] | None) -> Dsn | DsnProblem:
    """Return the connection string under `key` of a Secret, or why there is none.

    `data` is the Secret's `data` as the API server gives it (base64), None for no Secret. White
    space around the text is not part of it, as for workers.
    """
    if data is None:
        return DsnProblem(SecretState.NOT_FOUND, f"Secret {secret} does not exist")
    if key not in data:
        keys = ", ".join(sorted(data)[:_SHOWN_KEYS]) or "none"
        problem = f"Secret {secret} has no key {key}; its keys: {keys}"
        return DsnProblem(SecretState.KEY_MISSING, problem)
    where = f"key {key} of Secret {secret}"
    try:
        raw = base64.b64decode(data[key], validate=True)
        text = raw.decode().strip()
    except (binascii.Error, ValueError):
        return _invalid(where, "is not text in UTF-8")
    if len(raw) > _LONGEST_BYTES:
        return _invalid(where, f"is longer than {_LONGEST_BYTES} bytes")
    return parse_dsn(text, where)


def parse_dsn(text: str, where: str = "the connection string") -> Dsn | DsnProblem:
    """Check a connection string as far as that goes without the driver.

    `where` opens the message of a problem.
    """
    if not text:
        return _invalid(where, "is empty")
    if "\0" in text:
        return _invalid(where, "contains a NUL character")
    if not text.startswith(tuple(f"{scheme}://" for scheme in _SCHEMES)):
        return _invalid(where, "does not start with postgresql://")
    try:
        parts = urlsplit(text)
        problem = _misread(text, parts) or _unusable(parts)
    except ValueError:
        problem = f"cannot be read; if the password has special characters, {_ENCODE}"
    return Dsn(text) if problem is None else _invalid(where, problem)


def unreadable_file(dsn: Dsn) -> str | None:
    """Return in words which file of TLS the connection string names and this process cannot read.

    A path that is too long, or has a password in it, is left out.
    """
    parts = urlsplit(dsn.value)
    options = dict(parse_qsl(parts.query))
    given = (unquote(parts.password or ""), options.get("password"), options.get("sslpassword"))
    passwords = [one for one in given if one]
    for option in _TLS_FILES:
        path = options.get(option)
        if not path or (os.path.isfile(path) and os.access(path, os.R_OK)):
            continue
        is_shown = len(path) <= _LONGEST_PATH and not any(one in path for one in passwords)
        return f"{path}, its {option}" if is_shown else f"its {option}"
    return None


def _misread(text: str, parts: SplitResult) -> str | None:
    """Return what the driver would take for something else than was meant."""
    if "#" in text:
        return f"contains a #, which ends the address; if it is part of the password, {_ENCODE}"
    if parts.netloc.count("@") > 1:
        return f"contains @ more than once; if one is part of the password, {_ENCODE}"
    if "@" not in parts.netloc and "@" in f"{parts.path}?{parts.query}":
        return f"has its @ behind a / or ?; if those are part of the password, {_ENCODE}"
    if any(sign in text for sign in "\t\r\n"):
        return "contains a line break or tab"
    return None


def _unusable(parts: SplitResult) -> str | None:
    """Return what the driver would fill in from the operator's own surroundings."""
    options = dict(parse_qsl(parts.query, strict_parsing=True)) if parts.query else {}
    for name in _READS_FILES:
        if name in options:
            return f"uses the option {name}, which reads a file that only your own pods have"
    user, _, hosts = parts.netloc.rpartition("@")
    if not hosts and not options.get("host"):
        return "names no host"
    if not user.partition(":")[0] and not options.get("user"):
        return "names no user"
    return None


def _invalid(where: str, problem: str) -> DsnProblem:
    return DsnProblem(SecretState.INVALID_DSN, f"{where} {problem}")
