"""Every way into the queue, to be tried with the same job."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from datetime import datetime
from decimal import Decimal
from typing import Any, cast

import asyncpg
import psycopg
from blake3 import blake3
from sqlalchemy import create_engine
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine

from awa import AsyncClient, Client, UniqueOptions
from awa.bridge import insert_job, insert_job_sync
from awa.options import JobOptions
from support.django_database import django_wrapper
from support.postgres import Database

type Insert = Callable[..., Awaitable[int | None]]
"""Takes args, `kind` and options; commits, and returns the job, None for a duplicate."""

BYSTANDER: dict[str, Any] = {"by": "stander"}
"""The args of the other job of calls that take many."""


class InsertPaths:
    """The ways by name, on connections that stay open until the block ends."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._stack = AsyncExitStack()
        self.client = AsyncClient(database.dsn, 4)
        self.blocking = Client(database.dsn, 2)
        self.session: asyncpg.Connection

    async def __aenter__(self) -> "InsertPaths":
        enter = self._stack.enter_async_context
        await enter(self.client)
        self._stack.push_async_callback(asyncio.to_thread, self.blocking.close)
        self.session = await asyncpg.connect(self._database.dsn)
        self._stack.push_async_callback(self.session.close)
        self._psycopg = await enter(await psycopg.AsyncConnection.connect(self._database.dsn))
        self._psycopg_blocking = psycopg.connect(self._database.dsn)
        self._stack.callback(self._psycopg_blocking.close)
        self._django = django_wrapper(self._database)
        self._django.inc_thread_sharing()
        self._stack.push_async_callback(asyncio.to_thread, self._django.close)
        self._engine = create_engine(self._address("psycopg"))
        self._stack.callback(self._engine.dispose)
        self._async_engine = create_async_engine(self._address("asyncpg"))
        self._stack.push_async_callback(self._async_engine.dispose)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    def _address(self, driver: str) -> str:
        return self._database.dsn.replace("postgresql://", f"postgresql+{driver}://", 1)

    @property
    def all(self) -> dict[str, Insert]:
        """Return every way by its name."""
        return {
            "insert": self._insert,
            "insert_many": self._many,
            "insert_many_copy": self._many_copy,
            "enqueue_many_copy": self._copy,
            "transaction": self._transaction,
            "blocking insert": self._blocking,
            "blocking insert_many": self._blocking_many,
            "blocking insert_many_copy": self._blocking_many_copy,
            "blocking enqueue_many_copy": self._blocking_copy,
            "blocking transaction": self._blocking_transaction,
            "asyncpg": self._by_asyncpg,
            "psycopg async": self._by_psycopg,
            "psycopg": self._by_psycopg_blocking,
            "sqlalchemy async": self._by_sqlalchemy,
            "sqlalchemy async session": self._by_sqlalchemy_session,
            "sqlalchemy": self._by_sqlalchemy_blocking,
            "django": self._by_django,
        }

    # --- the client -----------------------------------------------------------------------------

    async def _insert(self, args: Any, **options: Any) -> int | None:
        return (await self.client.insert(args, **options)).id

    async def _many(self, args: Any, *, kind: str, **options: Any) -> int | None:
        jobs = await self.client.insert_many([BYSTANDER, args], kind=kind, opts=_second(options))
        return jobs[1].id

    async def _many_copy(self, args: Any, *, kind: str, **options: Any) -> int | None:
        jobs = await self.client.insert_many_copy(
            [BYSTANDER, args], kind=kind, opts=_second(options)
        )
        return jobs[1].id if len(jobs) == 2 else None

    async def _copy(self, args: Any, *, kind: str, **options: Any) -> int | None:
        await self.client.enqueue_many_copy([BYSTANDER, args], kind=kind, opts=_second(options))
        return await self._newest(kind)

    async def _transaction(self, args: Any, **options: Any) -> int | None:
        async with self.client.transaction() as transaction:
            await transaction.insert(BYSTANDER, kind=options["kind"])
            return (await transaction.insert(args, **options)).id

    # --- the blocking client --------------------------------------------------------------------

    async def _blocking(self, args: Any, **options: Any) -> int | None:
        return (await asyncio.to_thread(self.blocking.insert, args, **options)).id

    async def _blocking_many(self, args: Any, *, kind: str, **options: Any) -> int | None:
        jobs = await asyncio.to_thread(
            self.blocking.insert_many, [BYSTANDER, args], kind=kind, opts=_second(options)
        )  # fmt: skip
        return jobs[1].id

    async def _blocking_many_copy(self, args: Any, *, kind: str, **options: Any) -> int | None:
        jobs = await asyncio.to_thread(
            self.blocking.insert_many_copy, [BYSTANDER, args], kind=kind, opts=_second(options)
        )  # fmt: skip
        return jobs[1].id if len(jobs) == 2 else None

    async def _blocking_copy(self, args: Any, *, kind: str, **options: Any) -> int | None:
        await asyncio.to_thread(
            self.blocking.enqueue_many_copy, [BYSTANDER, args], kind=kind, opts=_second(options)
        )  # fmt: skip
        return await self._newest(kind)

    async def _blocking_transaction(self, args: Any, **options: Any) -> int | None:
        def work() -> int:
            with self.blocking.transaction() as transaction:
                transaction.insert(BYSTANDER, kind=options["kind"])
                return transaction.insert(args, **options).id

        return await asyncio.to_thread(work)

    # --- bridges --------------------------------------------------------------------------------

    async def _by_asyncpg(self, args: Any, **options: Any) -> int | None:
        async with self.session.transaction():
            return (await insert_job(self.session, args, **options)).id

    async def _by_psycopg(self, args: Any, **options: Any) -> int | None:
        async with self._psycopg.transaction():
            return (await insert_job(self._psycopg, args, **options)).id

    async def _by_psycopg_blocking(self, args: Any, **options: Any) -> int | None:
        def work() -> int:
            with self._psycopg_blocking.transaction():
                return insert_job_sync(self._psycopg_blocking, args, **options).id

        return await asyncio.to_thread(work)

    async def _by_sqlalchemy(self, args: Any, **options: Any) -> int | None:
        async with self._async_engine.begin() as connection:
            return (await insert_job(connection, args, **options)).id

    async def _by_sqlalchemy_session(self, args: Any, **options: Any) -> int | None:
        async with AsyncSession(self._async_engine) as session, session.begin():
            return (await insert_job(session, args, **options)).id

    async def _by_sqlalchemy_blocking(self, args: Any, **options: Any) -> int | None:
        def work() -> int:
            with self._engine.begin() as connection:
                return insert_job_sync(connection, args, **options).id

        return await asyncio.to_thread(work)

    async def _by_django(self, args: Any, **options: Any) -> int | None:
        return (await asyncio.to_thread(insert_job_sync, self._django, args, **options)).id

    # --- SQL ------------------------------------------------------------------------------------

    async def by_sql(
        self,
        args: Any,
        *,
        kind: str,
        queue: str = "default",
        run_at: datetime | None = None,
        metadata: Any = None,
        unique_opts: Any = None,
    ) -> int | None:
        """Enqueue plain values as a program without our client does, by the documented rules."""
        key = mask = None
        if unique_opts is not None:
            unique = UniqueOptions.parse(unique_opts)
            key, mask = documented_key(kind, queue, args, unique), unique.mask
        payload = None if metadata is None else _for_jsonb({"metadata": metadata})
        ids = await self.session.fetchval(
            "select awa.enqueue_v1($1, 2::smallint, array[$2], array[$3]::jsonb[], $4, null,"
            " $5::text[]::jsonb[], $6, $7)",
            queue, kind, _for_jsonb(args), run_at and [run_at], payload and [payload],
            key and [key], mask and [mask],
        )  # fmt: skip
        found: int | None = ids[0]
        return found

    async def _newest(self, kind: str) -> int | None:
        """Return the newest job of a kind that is no bystander; COPY does not tell."""
        found: int | None = await self.session.fetchval(
            "select max(job_id) from (select job_id, kind, args from awa.ready_entries union all"
            " select job_id, kind, args from awa.deferred_jobs) j where kind = $1 and args <> $2",
            kind, json.dumps(BYSTANDER),
        )  # fmt: skip
        return found


def _second(options: dict[str, Any]) -> list[JobOptions | None]:
    return [None, cast("JobOptions", options)]


def documented_key(kind: str, queue: str, args: Any, unique: UniqueOptions) -> bytes:
    """Return the unique key as docs/reference/values.md tells those without a client of ours."""
    text = kind.encode()
    if unique.by_queue:
        text += b"\0" + queue.encode()
    if unique.by_args:
        text += b"\0" + documented_json(args).encode()
    if unique.by_period is not None:
        text += b"\0" + unique.by_period.to_bytes(8, "little", signed=True)
    return blake3(text).digest()[:16]


def documented_json(value: Any) -> str:
    """Return canonical JSON, worked out from the documentation alone."""
    return _json(value, _shortest)


def _for_jsonb(value: Any) -> str:
    """Return JSON whose floats jsonb keeps as they are: those of 17 digits written out."""
    return _json(value, lambda x: f"{x:.1f}" if 1e16 <= abs(x) < 2**64 else repr(x))


def _json(value: Any, float_text: Callable[[float], str]) -> str:
    if isinstance(value, dict):
        members = (f"{_text(key)}:{_json(value[key], float_text)}" for key in sorted(value))
        return "{" + ",".join(members) + "}"
    if isinstance(value, list):
        return "[" + ",".join(_json(item, float_text) for item in value) + "]"
    return float_text(value) if isinstance(value, float) else _text(value)


def _shortest(value: float) -> str:
    if value == 0 or 0.00001 <= abs(value) < 1e16:
        digits = format(Decimal(repr(value)), "f")
        return digits if "." in digits else f"{digits}.0"
    mantissa, _, exponent = repr(value).partition("e")
    return f"{mantissa}e{int(exponent)}"


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
