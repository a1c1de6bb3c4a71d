"""A user's program type-checks in strict mode against what is installed, and mistakes are found."""

import asyncio
import sys
from pathlib import Path

import awa

GOOD = """
from dataclasses import dataclass
from datetime import UTC, datetime

from awa import AsyncClient, Client, InsertOptions, Job, RetryAfter, UniqueOptions
from awa.bridge import insert_job, insert_job_sync
from awa.testing import handler_job, work_all, work_one


@dataclass
class Mail:
    to: str


client = AsyncClient("postgresql://localhost/app", max_connections=4)


@client.task(Mail, queue="mails")
async def send(job: Job[Mail]) -> RetryAfter | None:
    job.set_progress(50, job.args.to.upper())
    return RetryAfter(3) if job.attempt < 2 else None


async def main() -> int:
    job = await client.insert(Mail("a"), queue="mails", run_at=datetime.now(UTC), tags=["t"])
    await client.insert_many([Mail("a")], opts=[{"priority": 1}], unique_opts=UniqueOptions())
    count: int = await client.enqueue_many_copy(Mail(str(n)) for n in range(3))
    async with client.transaction() as transaction:
        await transaction.insert(Mail("b"), max_attempts=3)
    await client.start([("mails", 2)])
    clean: bool = await client.shutdown()
    state: str = str((await client.get_job(job.id)).state)
    output: Mail | None = job.output_as(Mail)
    await insert_job(object(), Mail("c"), queue="mails")
    results = [await work_one(client), *await work_all(client)]
    await send(handler_job(Mail("d")))
    return count + len(results) + int(clean) + len(state) + (output is None)


def blocking() -> None:
    with Client() as jobs, jobs.transaction() as transaction:
        transaction.insert(Mail("a"), metadata={"x": 1})
        insert_job_sync(object(), Mail("c"))
        InsertOptions(priority=1)
"""

BAD = """
from awa import AsyncClient, Job


async def main(client: AsyncClient) -> None:
    await client.insert({}, kind="k", prioritty=1)
    await client.insert({}, kind="k", priority="high")
    await client.insert_many([{}], kind="k", opts=[{"queu": "x"}])
    await client.get_job("7")


def handler(job: Job[int]) -> None:
    job.args.upper()
"""
MISTAKES = [6, 7, 8, 9, 13]


async def _mypy(tmp_path: Path, source: str) -> tuple[int, str]:
    program = tmp_path / "program.py"
    program.write_text(source)
    # From outside the workspace, so that what is installed counts and not this project's settings.
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "mypy", "--strict", "--no-incremental", "--config-file=",
        str(program),
        cwd=tmp_path, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    out, _ = await process.communicate()
    return process.returncode or 0, out.decode()


async def test_a_program_type_checks_in_strict_mode(tmp_path: Path) -> None:
    code, said = await _mypy(tmp_path, GOOD)
    assert (code, said) == (0, "Success: no issues found in 1 source file\n")


async def test_mistakes_are_found_where_they_are(tmp_path: Path) -> None:
    code, said = await _mypy(tmp_path, BAD)
    errors = [line for line in said.splitlines() if ": error: " in line]
    assert code == 1
    assert sorted({int(line.split(":")[1]) for line in errors}) == MISTAKES


def test_the_package_says_that_it_is_typed() -> None:
    assert (Path(awa.__file__).parent / "py.typed").exists()
