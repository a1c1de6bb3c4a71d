"""The command lines of initdb and of the server."""

from collections.abc import Mapping
from pathlib import Path

from awa._local.binaries import Binaries
from awa._local.cluster import HOST, SUPERUSER

SETTINGS = {
    # An acknowledged commit survives, whatever postgresql.conf says.
    "fsync": "on",
    "full_page_writes": "on",
    "synchronous_commit": "on",
    # Reached from this machine only.
    "listen_addresses": HOST,
    "unix_socket_permissions": "0700",
    # A dozen worker processes with a pool each.
    "max_connections": "200",
    # Statements of a queue are short: compiling them costs more than it gains.
    "jit": "off",
    "timezone": "UTC",
    "cluster_name": "awa",
    # One file, opened by the launcher. No statement, row or parameter gets into it: those hold
    # the arguments and outputs of jobs.
    "log_destination": "stderr",
    "logging_collector": "off",
    "log_checkpoints": "off",
    "log_error_verbosity": "terse",
    "log_min_error_statement": "panic",
    "log_timezone": "UTC",
}


def initdb_command(binaries: Binaries, data: Path, password_file: Path) -> tuple[str, ...]:
    """Return the command that makes an empty database: UTF-8, checksums, passwords for everybody.

    The C collation is the only one that sorts the same on every system and after every upgrade.
    """
    return (
        binaries.program("initdb"), f"--pgdata={data}", f"--username={SUPERUSER}",
        f"--pwfile={password_file}", "--auth=scram-sha-256", "--encoding=UTF8", "--locale=C",
        "--data-checksums", "--no-instructions",
    )  # fmt: skip


def server_command(
    binaries: Binaries, data: Path, socket_folder: Path, port: int, further: Mapping[str, str]
) -> tuple[str, ...]:
    """Return the command that runs the server in the foreground."""
    settings = {
        **SETTINGS,
        "port": str(port),
        "unix_socket_directories": str(socket_folder),
        **further,
    }
    options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
    return (binaries.program("postgres"), "-D", str(data), *options)
