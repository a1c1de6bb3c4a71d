"""C27: nothing grows with jobs done, failures, lost connections or time idle.

Recycling after so many jobs (line 3) is not offered.
"""

import asyncio
import json
import os
import sys
from pathlib import Path

import pytest

from support.postgres import Database
from support.sizes import sized

JOBS, RECONNECTS, FAILURES, POLLS = sized(
    (20_000, 10, 2_000, 300), (1_000_000, 1_000, 100_000, 200_000)
)
MOST_GROWTH_BYTES = 20 * 1024 * 1024
TESTS = Path(__file__).parents[1]


@pytest.mark.slow
@pytest.mark.timeout(sized(600, 7200))
async def test_a_worker_holds_after_many_jobs_what_it_held_when_it_was_warm(database: Database):
    program = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "support.steady", database.dsn,
        *map(str, (JOBS, RECONNECTS, FAILURES, POLLS)),
        stdout=asyncio.subprocess.PIPE, env={**os.environ, "PYTHONPATH": str(TESTS)},
    )  # fmt: skip
    out, _ = await program.communicate()
    assert program.returncode == 0
    warm, end = map(json.loads, out.splitlines())
    assert end["rss_bytes"] - warm["rss_bytes"] < MOST_GROWTH_BYTES
    for name in ("tasks", "threads", "descriptors", "timers"):
        # What is between two heartbeats, and the two connections of the client's pool, may differ.
        assert end[name] <= warm[name] + 3, (name, warm, end)
