"""Clients of a test, and what is in the database apart from what a client says of it."""

from collections.abc import Callable
from dataclasses import dataclass

import asyncpg

from awa import AsyncClient

type MakeClient = Callable[..., AsyncClient]


@dataclass
class Mail:
    to: str
    n: int = 0


@dataclass
class Resize:
    path: str


async def job_count(session: asyncpg.Connection) -> int:
    """Return how many jobs wait or are due later, counted in the tables themselves."""
    count: int = await session.fetchval(
        "select (select count(*) from awa.ready_entries) + (select count(*) from awa.deferred_jobs)"
    )
    return count


async def unique_claims(session: asyncpg.Connection) -> int:
    """Return how many unique keys are held."""
    count: int = await session.fetchval("select count(*) from awa.job_unique_claims")
    return count
