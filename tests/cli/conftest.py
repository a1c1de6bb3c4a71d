"""The commands, run in this process against a database of the test's own."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import pytest
from typer.testing import CliRunner

from awa import AsyncClient
from awa.cli.app import app
from support.postgres import Database


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    code: int
    output: str
    errors: str

    @property
    def document(self) -> Any:
        """The one JSON document of the output; nothing was said beside it."""
        assert (self.code, self.errors) == (0, "")
        return json.loads(self.output)


type Awa = Callable[..., Awaitable[Ended]]


async def run_awa(*words: str, given: str | None = None, **environ: str) -> Ended:
    """Run `awa` in a thread: it has an event loop of its own."""

    def run() -> Ended:
        environment: dict[str, str | None] = {"COLUMNS": "100", **environ}
        done = CliRunner().invoke(app, words, input=given, env=environment, prog_name="awa")
        if done.exception is not None and not isinstance(done.exception, SystemExit):
            raise done.exception
        return Ended(done.exit_code, done.stdout, done.stderr)

    return await asyncio.to_thread(run)


@pytest.fixture
def awa(database: Database) -> Awa:
    """Run a command on the test's database: `await awa("job", "list", "--json")`."""

    async def run(*words: str, given: str | None = None) -> Ended:
        return await run_awa(*words, given=given, AWA_DATABASE_URL=database.dsn)

    return run


@pytest.fixture
def bare_awa(tmp_path, monkeypatch) -> Awa:
    """Run a command in an empty folder, with the environment that is given."""
    monkeypatch.chdir(tmp_path)
    return run_awa


@pytest.fixture
async def client(database: Database) -> AsyncIterator[AsyncClient]:
    """A client of the test's database, with a handler for each way to end."""
    async with AsyncClient(database.dsn) as made:
        register(made)
        yield made


def register(client: AsyncClient) -> None:
    @client.task(dict, kind="good")
    async def good(job):
        job.set_output({"seen": job.args.get("n")})

    @client.task(dict, kind="bad")
    async def bad(job):
        raise ValueError(job.args.get("why", "because"))
