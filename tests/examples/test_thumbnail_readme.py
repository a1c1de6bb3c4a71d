"""What the example's README says, done as a reader would."""

import os
import re
import shutil
import signal
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest

import awa
from examples.loading import EXAMPLES
from support.postgres import Database
from support.waiting import eventually


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy of the example, to work in."""
    return Path(shutil.copytree(EXAMPLES / "thumbnails", tmp_path / "thumbnails"))


def run(folder: Path, database: Database, *arguments: str) -> None:
    subprocess.run(
        [sys.executable, *arguments],
        cwd=folder, env=environment(database), check=True, stdout=subprocess.DEVNULL,
    )  # fmt: skip


def start_worker(folder: Path, database: Database) -> "subprocess.Popen[bytes]":
    command = Path(sys.executable).with_name("awa")
    return subprocess.Popen(
        [command, "worker", "handlers", "--health-address", "off"],
        cwd=folder, env=environment(database),
    )  # fmt: skip


def environment(database: Database) -> dict[str, str]:
    return {**os.environ, "AWA_DATABASE_URL": database.dsn}


async def test_the_readmes_steps_end_with_every_image_done_and_its_thumbnail_written(
    folder: Path, database: Database
) -> None:
    readme = (folder / "README.md").read_text()
    (enqueue,) = re.findall(r"```python\n(import asyncio.*?)```", readme, re.DOTALL)
    run(folder, database, "images.py", "pictures", "--count", "30", "--damaged", "6")
    run(folder, database, "-c", enqueue)

    worker = start_worker(folder, database)
    async with awa.AsyncClient(database.dsn) as client:

        async def all_ended() -> bool:
            jobs = await client.list_jobs(queue="thumbnails", limit=100)
            return len(jobs) == 30 and all(
                job.state in (awa.JobState.Completed, awa.JobState.Failed) for job in jobs
            )

        try:
            await eventually(all_ended, timedelta(seconds=60), what="every job ended")
        finally:
            worker.send_signal(signal.SIGTERM)
            assert worker.wait(60) == 0
        listed = await client.list_jobs(queue="thumbnails", limit=100)
        jobs = [await client.get_job(each.id) for each in listed]

    digests = {job.output["digest"] for job in jobs if job.state is awa.JobState.Completed}
    assert len(digests) == 24
    assert {file.stem for file in (folder / "small").iterdir()} == digests
    assert sum(job.state is awa.JobState.Failed for job in jobs) == 6
