"""Failing over to a standby that follows synchronously, so that nothing acknowledged is lost."""

import asyncio
import shutil
from datetime import timedelta

from support.postgres import Server
from support.soak.disk import Disk
from support.soak.stage import SETTINGS, Stage
from support.waiting import eventually

FOLLOW_LIMIT = timedelta(seconds=60)


async def fail_over(stage: Stage, seconds: float) -> None:
    """Attach a standby, let everything go on for a while, lose the primary, promote the standby."""
    old, generation = stage.server, stage.generation + 1
    new = Server(stage.folder / f"server-{generation}", old.binaries, SETTINGS)
    spaces = {}
    if stage.disk.mounted:
        stage.make_space(generation)
        spaces = {stage.space(stage.generation): stage.space(generation)}
    await asyncio.to_thread(new.copy, old, as_standby=True, tablespaces=spaces)
    await asyncio.to_thread(new.start)
    try:
        await _make_synchronous(stage)
        await asyncio.sleep(seconds)
        await stage.look_at_statistics()
    except BaseException:
        await stage.configure("synchronous_standby_names", None)
        await asyncio.to_thread(stage.remove, new)
        raise
    await asyncio.to_thread(old.kill)
    stage.generation = generation
    stage.lead_to(new)
    async with stage.session("postgres") as session:
        # Until then those who are quick meet a server that takes no writes.
        await asyncio.sleep(0.5)
        assert await session.fetchval("select pg_promote(true, 30)"), "the standby stays one"
    await asyncio.to_thread(stage.remove, old)
    if stage.disk.mounted:
        await asyncio.to_thread(_remove, stage.disk, generation - 1)


async def _make_synchronous(stage: Stage) -> None:
    """Return when every commit, also each one acknowledged before, is on the standby's disk."""
    await stage.configure("synchronous_standby_names", "*")
    async with stage.session("postgres") as session:

        async def is_synchronous() -> bool:
            return bool(
                await session.fetchval(
                    "select count(*) from pg_stat_replication where sync_state = 'sync'"
                )
            )

        await eventually(is_synchronous, FOLLOW_LIMIT)
        await asyncio.sleep(1)  # sessions learn of the setting through another process
        written = await session.fetchval("select pg_current_wal_insert_lsn()::text")

        async def has_all() -> bool:
            return bool(
                await session.fetchval(
                    "select bool_and(flush_lsn >= $1::text::pg_lsn) from pg_stat_replication",
                    written,
                )
            )

        await eventually(has_all, FOLLOW_LIMIT)


def _remove(disk: Disk, generation: int) -> None:
    shutil.rmtree(disk.folder / f"space-{generation}", ignore_errors=True)
