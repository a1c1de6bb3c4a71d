"""What the code blocks of the documents are run with."""

import pytest

from support.postgres import Database


@pytest.fixture
def address(database: Database, monkeypatch: pytest.MonkeyPatch) -> str:
    """The address of a migrated database, also in AWA_DATABASE_URL."""
    monkeypatch.setenv("AWA_DATABASE_URL", database.dsn)
    # Blocks of a page run in one event loop, where Django would refuse to block.
    monkeypatch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "1")
    return database.dsn
