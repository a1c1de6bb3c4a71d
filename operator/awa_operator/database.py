"""One session with one database: what it says of itself, of its queues and of its workers.

The only module that knows the driver. Every statement runs in a transaction of its own, under
limits of the server's, and relies on nothing that an earlier one left behind; so it works through
poolers of every mode. Only waking needs a session of its own, and proves that it has one.

What goes wrong becomes a `DatabaseFault` in our own words: what the driver and the server say may
quote the connection string.
"""

import asyncio
import contextlib
import functools
import re
import secrets
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from importlib.resources import files
from typing import Final, Self

import asyncpg

from awa.scaling import Signals
from awa_operator.database_faults import DatabaseFault, connect_fault, ends_session, statement_fault
from awa_operator.databases import LiveWorker
from awa_operator.dsn import Dsn
from awa_operator.observed import DatabaseProblem as Problem

CONNECT_LIMIT = timedelta(seconds=3)
"""How long opening a session, its first probe included, may take."""
ANSWER_LIMIT = timedelta(seconds=3)
"""How long to wait for the answer to a statement that the server ends after two seconds."""
PROOF_LIMIT = timedelta(seconds=2)
OLDEST_SERVER = 15
APPLICATION_NAME = "awa operator"

_SIGNALS, _WORKERS = "signals_v1", "workers_v1"
_FUNCTIONS = (_SIGNALS, _WORKERS)
_SCHEMA: Final = re.compile(r"[a-z_][a-z0-9_]{0,47}")
_BEGIN_READING, _BEGIN_WRITING = "begin read only", "begin read write"

type Connection = asyncpg.Connection[asyncpg.Record]

_DRIVER_ERRORS = (
    asyncpg.PostgresError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    OSError,
    EOFError,
    ValueError,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What a probe finds. `schema_version` is 0 when there is no schema.

    `max_connections` is what is left for ordinary roles. `lacks` says which rights or functions are
    missing for signals, in words; empty when none is.
    """

    schema_version: int
    last_contract_version: int | None
    max_connections: int
    has_signals: bool
    has_workers: bool
    lacks: str = ""


@dataclass(frozen=True, slots=True)
class _Sleep:
    """What makes producers notify this session of a queue, and hears it."""

    queue_id: int
    channel: str
    told: Callable[..., None]


class Session:
    """An open session. Statements take turns; any fault of the connection closes it."""

    def __init__(self, connection: Connection, queries: Mapping[str, str], schema: str) -> None:
        self._connection = connection
        self._queries = queries
        self._schema = schema
        self._turn = asyncio.Lock()
        self._asleep: dict[str, _Sleep] = {}
        self._hears: bool | None = None
        self.on_wake: Callable[[str], None] = lambda _: None
        """Called with the name of a queue that has got a job while `sleep_on` was in force."""
        self.on_end: Callable[[], None] = lambda: None
        """Called when the session has ended, by whomever."""

    @classmethod
    async def open(cls, dsn: Dsn, schema: str) -> Self:
        """Connect. Raises `DatabaseFault`, or TimeoutError when the caller's limit passes."""
        queries = load_queries(schema)
        try:
            connection = await asyncpg.connect(
                dsn.value,
                timeout=CONNECT_LIMIT.total_seconds(),
                command_timeout=ANSWER_LIMIT.total_seconds(),
                statement_cache_size=0,
                server_settings={"application_name": APPLICATION_NAME},
            )
        except _DRIVER_ERRORS as error:
            fault = connect_fault(error, dsn)
        else:
            session = cls(connection, queries, schema)
            connection.add_termination_listener(lambda _: session.on_end())
            return session
        # Raised out here, so that nothing that quotes the connection string is chained to it.
        raise fault

    @property
    def is_open(self) -> bool:
        """Whether the session can be used."""
        return not self._connection.is_closed()

    @property
    def asleep(self) -> frozenset[str]:
        """Queues whose next job this session is told of."""
        return frozenset(self._asleep)

    def close(self) -> None:
        """End the session at once."""
        self._connection.terminate()

    async def probe(self) -> Facts:
        """Look at server and schema. Raises `DatabaseFault`, also when it takes no writes."""
        major = self._connection.get_server_version().major
        if major < OLDEST_SERVER:
            text = f"the server is PostgreSQL {major}; Awa needs {OLDEST_SERVER} or later"
            raise DatabaseFault(Problem.UNREACHABLE, text)
        (row,) = await self._fetch("probe", self._schema, list(_FUNCTIONS))
        _require_writable(row)
        version, contract = 0, None
        if row["has_schema"]:
            if not row["may_read"]:
                raise DatabaseFault(Problem.PERMISSION_MISSING, self._grant_it("may not look at"))
            (found,) = await self._fetch("versions")
            version, contract = found["version"], found["contract"]
        limits = [row["server_connections"], row["database_connections"]]
        return Facts(
            schema_version=version,
            last_contract_version=contract,
            max_connections=min(limit for limit in limits if limit >= 0),
            has_signals=_SIGNALS in row["may"],
            has_workers=_WORKERS in row["may"],
            lacks=self._lacking(version, row),
        )

    async def signals(self, queues: Iterable[str], lead: timedelta) -> dict[str, Signals]:
        """Return the signals of queues; deferred jobs count when they are due within `lead`."""
        names = sorted(set(queues))
        rows = await self._fetch("signals", names, lead)
        found = {row["queue"]: _signals(row) for row in rows}
        return {name: found.get(name, Signals()) for name in names}

    async def workers(self, owners: Iterable[str]) -> dict[str, tuple[LiveWorker, ...]]:
        """Return the workers of each owner that the database calls alive."""
        found: dict[str, list[LiveWorker]] = {owner: [] for owner in owners}
        for row in await self._fetch("workers", sorted(found)):
            worker = LiveWorker(
                worker_id=row["worker_id"],
                pod=row["pod_name"],
                started_at=row["started_at"],
                pod_uid=row["pod_uid"],
            )
            found[row["pod_owner"]].append(worker)
        return {owner: tuple(workers) for owner, workers in found.items()}

    async def oldest_running(self, owner: str) -> dict[str, timedelta]:
        """Return for each pod of an owner that runs jobs for how long the oldest has run."""
        rows = await self._fetch("pod_loads", owner)
        return {
            row["pod_name"]: timedelta(seconds=max(row["oldest_running_seconds"], 0.0))
            for row in rows
        }

    async def rescue_lost(self, worker_id: int, reason: str) -> int | None:
        """Say that a worker is gone; return how many jobs that hands on, None if it was known."""
        rows = await self._fetch("rescue_lost", worker_id, reason, begin=_BEGIN_WRITING)
        jobs: int | None = rows[0][0]
        return jobs

    async def sleep_on(self, queues: frozenset[str]) -> bool:
        """Be told of new jobs of these queues and of no others; False where that cannot be had.

        Look for jobs after this has returned, not before: what came earlier is not told. A queue
        that the database does not know yet is left out until it does.
        """
        if queues == self._asleep.keys():
            return True
        if self._hears is None:
            self._hears = await self._proves_itself()
        if not self._hears:
            return not queues
        if gone := [name for name in self._asleep if name not in queues]:
            await self._fetch("wake", [self._asleep[name].queue_id for name in gone])
            for name in gone:
                await self._listen(self._asleep.pop(name), on=False)
        if new := sorted(queues - self._asleep.keys()):
            rows = await self._fetch("queue_ids", new)
            sleeps = {row["queue"]: self._sleep(row["queue"], row["queue_id"]) for row in rows}
            for sleep in sleeps.values():
                await self._listen(sleep, on=True)
            await self._fetch("sleep", [sleep.queue_id for sleep in sleeps.values()])
            self._asleep |= sleeps
        return True

    def _sleep(self, name: str, queue_id: int) -> "_Sleep":
        return _Sleep(queue_id, f"{self._schema}:{queue_id}", lambda *_: self.on_wake(name))

    async def _listen(self, sleep: "_Sleep", *, on: bool) -> None:
        async with self._answering():
            if on:
                await self._connection.add_listener(sleep.channel, sleep.told)
            else:
                await self._connection.remove_listener(sleep.channel, sleep.told)

    async def _proves_itself(self) -> bool:
        """Whether a notification arrives here for as long as the session lasts.

        Behind a pooler it may, and the next one may not: the session on the server is another one
        for each transaction, and a lock taken there would stay behind. It shows in who answers.
        """
        greeted_by = self._connection.get_server_pid()
        async with self._answering():
            answered = await self._connection.execute(
                f"select where pg_backend_pid() = {greeted_by}"
            )
        if answered != "SELECT 1":
            return False
        arrived = asyncio.Event()
        channel = f"{self._schema}:probe:{secrets.token_hex(8)}"
        proof = _Sleep(0, channel, lambda *_: arrived.set())
        await self._listen(proof, on=True)
        async with self._answering():
            await self._connection.execute(f'notify "{channel}"')
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(PROOF_LIMIT.total_seconds()):
                await arrived.wait()
        await self._listen(proof, on=False)
        return arrived.is_set()

    async def _fetch(
        self, query: str, *values: object, begin: str = _BEGIN_READING
    ) -> list[asyncpg.Record]:
        """Run one statement in a transaction of its own."""
        async with self._answering():
            connection = self._connection
            await connection.execute(f"{begin};\n{self._queries['limits']}")
            try:
                rows: list[asyncpg.Record] = await connection.fetch(self._queries[query], *values)
            except asyncpg.PostgresError:
                await connection.execute("rollback")
                raise
            await connection.execute("commit")
            return rows

    @contextlib.asynccontextmanager
    async def _answering(self) -> AsyncIterator[None]:
        """Take a turn of the session, with a limit; turn what goes wrong into a fault."""
        fault: DatabaseFault
        try:
            async with asyncio.timeout(2 * ANSWER_LIMIT.total_seconds()), self._turn:
                try:
                    async with asyncio.timeout(ANSWER_LIMIT.total_seconds()):
                        yield
                    return
                except BaseException as error:
                    # After anything but an answer nobody knows where the conversation stands.
                    if not isinstance(error, asyncpg.PostgresError) or ends_session(error):
                        self.close()
                    raise
        except TimeoutError:
            fault = DatabaseFault(Problem.TIMEOUT, "the database did not answer in time")
        except _DRIVER_ERRORS as error:
            fault = statement_fault(error)
        raise fault

    def _lacking(self, version: int, row: asyncpg.Record) -> str:
        if version == 0:
            return ""
        missing = [name for name in _FUNCTIONS if name not in row["may"]]
        if not missing:
            return ""
        if any(name in row["has"] for name in missing):
            return self._grant_it("may not call functions of")
        return (
            f"the schema is at version {version}, which has no {missing[0]}: "
            "this operator and the schema are too far apart"
        )

    def _grant_it(self, may_not: str) -> str:
        return (
            f"the role {may_not} schema {self._schema}; let its owner run "
            "`awa migrate --grant ROLE --level monitor`"
        )


@functools.cache
def load_queries(schema: str) -> dict[str, str]:
    """Return the named queries, ready for a schema. Raises ValueError for what no schema is called.

    The name of the schema is the only thing that is ever put into their text.
    """
    if not _SCHEMA.fullmatch(schema):
        raise ValueError(f"no schema of Awa is called {schema[:80]!r}")
    text = files("awa_operator").joinpath("sql/operator.sql").read_text(encoding="utf-8")
    found = {}
    for block in text.split("-- name: ")[1:]:
        name, _, rest = block.partition("\n")
        body = "\n".join(line for line in rest.splitlines() if not line.startswith("--"))
        body = body.replace("{schema}", f'"{schema}"').replace("{schema_name}", schema)
        found[name.strip()] = body.strip().removesuffix(";")
    return found


def _require_writable(row: asyncpg.Record) -> None:
    if row["in_recovery"]:
        text = (
            "the server is a standby; name the primary, or list all hosts and add "
            "target_session_attrs=primary"
        )
        raise DatabaseFault(Problem.READ_ONLY, text)
    if row["is_read_only"]:
        text = "the server takes no writes: default_transaction_read_only is on"
        raise DatabaseFault(Problem.READ_ONLY, text)


def _signals(row: asyncpg.Record) -> Signals:
    return Signals(
        ready=row["ready"],
        running=row["running"],
        oldest_ready_age=timedelta(seconds=max(row["oldest_ready_seconds"], 0.0)),
        due_soon=row["due_soon"],
        orphaned=row["orphaned"],
        set_aside=row["set_aside"],
    )
