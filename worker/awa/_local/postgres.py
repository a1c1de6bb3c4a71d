"""An embedded PostgreSQL: started for one folder, stopped with its owner, found by everybody else.

    async with EmbeddedPostgres(Path(".awa")) as server:
        connection = await asyncpg.connect(server.dsn)

The first process that starts the server of a folder owns it: the server stops when that process
calls `stop` or ends in any way (see `guard`). A process that finds it running uses it and leaves
it alone. The server listens on a Unix socket and on 127.0.0.1, asks for a password, and is
durable: an acknowledged commit survives a crash of the machine.
"""

import asyncio
import os
import shlex
from pathlib import Path
from types import TracebackType
from typing import Self

from awa._local import cluster, orphans
from awa._local.cluster import Address, Cluster, Owner
from awa._local.errors import ServerAlreadyRunning, ServerFailed
from awa._local.guarded import GuardedServer
from awa._local.launch import GRACE_OF_GUARD, LOOK_INTERVAL, launch, until_unused
from awa._local.options import LaunchOptions
from awa._local.place import local_errors, locate
from awa._local.session import check_database

DEFAULT_FOLDER = Path(".awa")


class EmbeddedPostgres:
    """The PostgreSQL server of one folder.

    `start` returns when connections are accepted; `stop` when no process of the server is left
    (or at once, when another process owns it). Both are safe to repeat, and a server that was
    stopped, or ended by itself, can be started again. `async with` does both. Errors are
    `LocalPostgresError`s that say what to do. One object belongs to one event loop.
    """

    def __init__(
        self, folder: Path | str = DEFAULT_FOLDER, options: LaunchOptions | None = None
    ) -> None:
        self.folder = Path(folder)
        self.options = options or LaunchOptions.from_environment(os.environ)
        self._changing = asyncio.Lock()
        self._cluster: Cluster | None = None
        self._owner: Owner | None = None
        self._address: Address | None = None
        self._server: GuardedServer | None = None

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.stop()

    @property
    def is_owner(self) -> bool:
        """Whether this object started the server, and so stops it."""
        return self._server is not None

    @property
    def is_running(self) -> bool:
        """Whether the server that was started or found is still up."""
        if self._server is not None:
            return not self._server.has_ended
        return self._owner is not None and self._found.is_in_use()

    @property
    def owner(self) -> Owner:
        """Who runs the server, for people: a program's name and its process id."""
        return self._known(self._owner)

    @property
    def dsn(self) -> str:
        """Connection string of database `awa` over the Unix socket. It holds the password."""
        return self._known(self._address).socket_dsn

    @property
    def tcp_dsn(self) -> str:
        """Connection string of database `awa` over 127.0.0.1. It holds the password."""
        return self._known(self._address).tcp_dsn

    @property
    def port(self) -> int:
        """The port of 127.0.0.1."""
        return self._known(self._address).port

    @property
    def version(self) -> str:
        """The server's version, as in "17.2"."""
        return self.owner.version

    @property
    def data(self) -> Path:
        """The data folder."""
        return self._found.place.data(self.owner.major)

    @property
    def log(self) -> Path:
        """The file with everything the server said."""
        return self._found.log

    @property
    def note(self) -> str | None:
        """A sentence for people when the data do not lie where they would look."""
        return self._found.place.note

    @property
    def psql_command(self) -> str:
        """A shell command that opens a prompt on the database; it does not show the password."""
        service_file = shlex.quote(str(self._found.service_file))
        psql = shlex.quote(str(Path(self.owner.binaries) / "psql"))
        return f"PGSERVICEFILE={service_file} {psql} service={cluster.DATABASE}"

    async def start(self) -> Self:
        """Start the server, or find it running; return when it accepts connections."""
        async with self._changing:
            if self.is_running:
                return self
            with local_errors(self.folder):
                place = await asyncio.to_thread(locate, self.folder, self.options.store)
                self._cluster, self._server = Cluster(place), None
                lock = await self._lock_or_find(self._cluster)
                if lock is not None:
                    # Closed here and left open in the guard: a child that is forked off this
                    # process must not keep the data locked.
                    with cluster.closing(lock):
                        launched = await launch(self._cluster, lock, self.options)
                    self._server = launched.server
                    self._owner, self._address = launched.owner, launched.address
            return self

    async def stop(self) -> None:
        """Shut the server down if we own it; forget it if we do not."""
        async with self._changing:
            server, self._server = self._server, None
            owner, self._owner = self._owner, None
            self._address = None
            if server is not None and owner is not None:
                limit = self.options.stop_limit + GRACE_OF_GUARD
                await server.stop(limit)
                await until_unused(self._found, owner, limit)
                self._found.service_file.unlink(missing_ok=True)

    async def wait(self) -> None:
        """Return when the server is down: stopped by its owner, crashed, or killed."""
        if self._server is not None:
            await self._server.ended()
            return
        while True:
            if not self.is_running:
                return
            await asyncio.sleep(LOOK_INTERVAL.total_seconds() * 10)

    @property
    def _found(self) -> Cluster:
        return self._known(self._cluster)

    @staticmethod
    def _known[T](value: T | None) -> T:
        if value is None:
            raise RuntimeError("the embedded PostgreSQL is not running; call start() first")
        return value

    async def _lock_or_find(self, found: Cluster) -> int | None:
        """Return the lock for a start, or None after finding a server to use."""
        what = "a server that neither gets ready nor stops"
        try:
            async with asyncio.timeout(self.options.start_limit.total_seconds()):
                while (lock := found.try_lock()) is None:
                    owner = found.read_owner()
                    try:
                        if owner is not None and await self._use(found, owner):
                            return None
                    except ServerFailed as error:
                        what = str(error)  # most likely it is about to stop
                    await asyncio.sleep(LOOK_INTERVAL.total_seconds())
                return lock
        except TimeoutError:
            owner = found.read_owner()
            pid = None if owner is None else owner.pid
            raise ServerAlreadyRunning(found.place.home, pid, what) from None

    async def _use(self, found: Cluster, owner: Owner) -> bool:
        """Use the owner's server if it is ready; help it to end if its guard is gone."""
        if not found.is_guarded():
            orphans.end_orphans(found, owner)
            return False
        postmaster = found.read_postmaster(owner.major)
        if postmaster is None or not postmaster.is_ready:
            return False
        if not self.options.reuse:
            raise ServerAlreadyRunning(found.place.home, owner.pid, owner.program)
        address = Address(postmaster.port, postmaster.socket_folder, found.password())
        await check_database(address, found)
        self._owner, self._address = owner, address
        return True
