"""The commands, run in this process against a database of the test's own."""

from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from awa import AsyncClient
from support.command.invoke import Ended, run_awa
from support.postgres import Database

type Awa = Callable[..., Awaitable[Ended]]


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
