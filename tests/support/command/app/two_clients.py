"""A module with two clients, one of them blocking, for handlers of the same kind."""

from typing import Any

from awa import AsyncClient, Client, Job

one = AsyncClient("postgresql://nowhere/one")
two = Client()


@one.task(dict, kind="quick")
async def quick(_: Job[Any]) -> None:
    """End at once."""


@two.task(dict, kind="quick")
def quick_too(_: Job[Any]) -> None:
    """End at once."""
