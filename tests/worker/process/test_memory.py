"""How a worker process gets its memory."""

import pytest

from awa import AsyncClient
from support.command.app.memory import LARGE
from support.command.command import Commands
from support.waiting import eventually


@pytest.mark.parametrize(
    ("variables", "is_mapped"), [({}, True), ({"MALLOC_MMAP_THRESHOLD_": "33554432"}, False)]
)
async def test_large_blocks_go_back_to_the_system_however_large_earlier_ones_were(
    commands: Commands, client: AsyncClient, variables: dict[str, str], is_mapped: bool
) -> None:
    """Unless the user decides otherwise."""
    job = await client.insert({}, kind="blocks")
    commands.start("memory", **variables)

    async def told() -> bool:
        return (await client.get_job(job.id)).output is not None

    await eventually(told, what="the handler to have looked")
    found = (await client.get_job(job.id)).output
    assert (found >= LARGE) is is_mapped
