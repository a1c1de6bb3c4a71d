"""Which database a command means, and a client for it.

In this order: `--database-url`; the embedded server of `--dir`; AWA_DATABASE_URL; the embedded
server of `.awa`, where there is one. An embedded server that nobody runs is started for the command
and stopped after it, so that one can look at a queue whose `awa up` has ended.
"""

import asyncio
import fcntl
import functools
import inspect
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, Concatenate

import typer

from awa._local.place import POINTER
from awa._local.postgres import DEFAULT_FOLDER, EmbeddedPostgres
from awa.cli.exits import CommandError, ExitCode, told
from awa.client import AsyncClient
from awa.errors import ValidationError

DatabaseUrl = Annotated[
    str | None,
    typer.Option(
        "--database-url",
        metavar="URL",
        help="Address of the database, as postgresql://user@host/database. "
        "Default: AWA_DATABASE_URL, else the embedded server of .awa.",
    ),
]
Folder = Annotated[
    Path | None,
    typer.Option(
        "--dir", metavar="FOLDER", help="Use the embedded server of this folder. Default: .awa."
    ),
]
Schema = Annotated[
    str | None,
    typer.Option(
        "--schema", metavar="NAME", help="Schema of the engine. Default: AWA_SCHEMA, else awa."
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]

BORROWERS = "borrowers.lock"
"""Locked, shared, by every command that uses the embedded server of a folder."""
PATIENCE_WITH_BORROWERS = timedelta(seconds=10)
_LOOK_INTERVAL_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class Where:
    """What a command was told about its database. The address may hold a password."""

    database_url: str | None
    folder: Path | None
    schema: str | None

    def embedded(self) -> Path | None:
        """Return the folder whose embedded server is meant, None when it is another database.

        Raises CommandError when there is nothing to go to.
        """
        if self.database_url is not None:
            if self.folder is not None:
                raise CommandError(
                    "give --database-url or --dir, not both: they name two databases",
                    ExitCode.USAGE,
                )
            return None
        if self.folder is None and os.environ.get("AWA_DATABASE_URL", "").strip():
            return None
        folder = self.folder or DEFAULT_FOLDER
        if not has_server(folder):
            raise CommandError(_nothing_there(self.folder), ExitCode.CONFIGURATION)
        return folder


@dataclass(frozen=True, slots=True)
class Call:
    """What a command works with."""

    client: AsyncClient
    as_json: bool


def has_server(folder: Path) -> bool:
    """Whether an embedded server was ever started in a folder."""
    return (folder / "postgres").is_dir() or (folder / POINTER).is_file()


@asynccontextmanager
async def open_client(where: Where) -> AsyncIterator[AsyncClient]:
    """Lend a client whose database answers and has a schema that fits."""
    async with (
        _address(where) as database_url,
        AsyncClient(database_url, max_connections=2, schema=where.schema) as client,
    ):
        try:
            await client.require_schema()
        except ValidationError as error:
            raise CommandError(str(error), ExitCode.CONFIGURATION) from None
        yield client


def at_database[**P](
    command: Callable[Concatenate[Call, P], Awaitable[None]],
) -> Callable[..., None]:
    """Make a command of a coroutine function, with the options that name its database."""

    @functools.wraps(command)
    def run(*args: Any, **kwargs: Any) -> None:
        where = Where(*(kwargs.pop(name) for name in ("database_url", "folder", "schema")))
        as_json = kwargs.pop("as_json")

        async def call() -> None:
            async with open_client(where) as client:
                await command(Call(client, as_json), *args, **kwargs)

        with told():
            asyncio.run(call())

    own = list(inspect.signature(command).parameters.values())[1:]
    run.__signature__ = inspect.Signature([*own, *_OPTIONS])  # type: ignore[attr-defined]
    run.__annotations__ = {each.name: each.annotation for each in (*own, *_OPTIONS)}
    return run


def _option(name: str, annotation: Any, default: object) -> inspect.Parameter:
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation
    )


_OPTIONS = (
    _option("as_json", Json, False),
    _option("folder", Folder, None),
    _option("database_url", DatabaseUrl, None),
    _option("schema", Schema, None),
)


@asynccontextmanager
async def _address(where: Where) -> AsyncIterator[str | None]:
    """Lend the address; None leaves it to the environment."""
    folder = where.embedded()
    if folder is None:
        yield where.database_url
        return
    with (folder / BORROWERS).open("a") as borrowers:
        fcntl.flock(borrowers, fcntl.LOCK_SH)
        async with EmbeddedPostgres(folder) as server:
            try:
                yield server.dsn
            finally:
                if server.is_owner:
                    await _until_alone(borrowers.fileno())


async def _until_alone(borrowers: int) -> None:
    """Return when no other command uses the server that is about to stop, or at a limit."""
    try:
        async with asyncio.timeout(PATIENCE_WITH_BORROWERS.total_seconds()):
            while True:
                try:
                    fcntl.flock(borrowers, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    await asyncio.sleep(_LOOK_INTERVAL_SECONDS)
                else:
                    return
    except TimeoutError:
        pass  # the other one is told that its connection has ended


def _nothing_there(folder: Path | None) -> str:
    if folder is not None:
        return (
            f"there is no database in {folder}; name the folder that `awa up` or `awa demo` used, "
            "or give --database-url"
        )
    return (
        "no database: give --database-url, set AWA_DATABASE_URL, or go to the folder in which "
        "`awa up` or `awa demo` has run (its database is in .awa)"
    )
