"""A real PgBouncer before a server."""

import os
import pwd
import shutil
import signal
import socket
import subprocess
from pathlib import Path
from typing import Any, Protocol

from support.waiting import eventually_sync


class Address(Protocol):
    """Where a server is, or a proxy before it."""

    host: str
    port: int


class Pool:
    """One PgBouncer with at most `size` server connections for every database.

    It refuses settings at the start of a session, except those in `ignored`, which it forgets.
    A client waits for a server connection for `wait_seconds`.
    """

    def __init__(
        self,
        folder: Path,
        server: Address,
        mode: str,
        size: int,
        ignored: str = "",
        wait_seconds: int = 60,
    ) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        folder.mkdir()
        config = folder / "pgbouncer.ini"
        config.write_text(
            f"""
            [databases]
            * = host={server.host} port={server.port} user=postgres
            nowhere = host={server.host} port={server.port} dbname=nowhere user=postgres
            closed = host={server.host} port=1 user=postgres
            [pgbouncer]
            listen_addr = 127.0.0.1
            listen_port = {self.port}
            unix_socket_dir =
            auth_type = any
            pool_mode = {mode}
            default_pool_size = {size}
            max_client_conn = 50
            ignore_startup_parameters = {ignored}
            server_login_retry = 1
            query_wait_timeout = {wait_seconds}
            """.replace("            ", "")
        )
        self._log = (folder / "log").open("wb")
        self._process = subprocess.Popen(
            [_program(), config], stdin=subprocess.DEVNULL, stdout=self._log, stderr=self._log,
            **_unprivileged(folder),
        )  # fmt: skip
        eventually_sync(self._listens, what=f"PgBouncer listens, see {folder}/log")

    def dsn(self, database: str) -> str:
        """Return the address of a database by way of the pooler."""
        return f"postgresql://postgres@127.0.0.1:{self.port}/{database}?sslmode=disable"

    def stop(self) -> None:
        """End it."""
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(10)
        self._log.close()

    def _listens(self) -> bool:
        assert self._process.poll() is None, "PgBouncer ended"
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0


def _program() -> str:
    # Debian keeps it off an ordinary user's PATH.
    found = shutil.which("pgbouncer", path=f"{os.environ['PATH']}:/usr/sbin")
    assert found, "PgBouncer is not installed: it is the Debian package `pgbouncer`"
    return found


def _unprivileged(folder: Path) -> dict[str, Any]:
    """PgBouncer refuses to run as root."""
    if os.geteuid() != 0:
        return {}
    user = pwd.getpwnam("nobody")
    os.chown(folder, user.pw_uid, user.pw_gid)
    return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
