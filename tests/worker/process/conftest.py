"""Fixtures that start `awa worker` as a user does."""

from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from awa import AsyncClient
from support.command.command import Commands
from support.postgres import Database

type MakeCommands = Callable[[str], Commands]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if item.path.is_relative_to(here) and "make_commands" in getattr(item, "fixturenames", ()):
            item.add_marker("slow")


@pytest.fixture
def make_commands(tmp_path: Path) -> Iterator[MakeCommands]:
    """Start commands on a database address: `make_commands(dsn)`; they end with the test."""
    made: list[Commands] = []

    def make(database_url: str) -> Commands:
        folder = tmp_path / f"commands{len(made)}"
        folder.mkdir()
        made.append(Commands(database_url, folder))
        return made[-1]

    yield make
    for commands in made:
        commands.close()


@pytest.fixture
def commands(make_commands: MakeCommands, database: Database) -> Commands:
    """Start commands on this test's own database."""
    return make_commands(database.dsn)


@pytest.fixture
async def client(database: Database) -> AsyncIterator[AsyncClient]:
    """A client of this test's own database."""
    async with AsyncClient(database.dsn, 4) as opened:
        yield opened
