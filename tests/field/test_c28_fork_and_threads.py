"""C28: a client in a forked process starts afresh; threads get the care that a web request gets.

Eight children that insert beside their parent (line 1) are in
tests/worker/client/test_lifecycle.py.
"""

import asyncio
import json
import os
import socket
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import urllib3

import awa
from awa.testing import work_one
from support.command.command import APP, Commands
from support.postgres import Connect, Database, MakeDatabase
from support.soak.journal import read_journals
from support.waiting import eventually

THREADS = 8
LONG = timedelta(seconds=60)
JOBS = 50
PROCESSES = 4


@pytest.fixture
def commands(tmp_path: Path, database: Database) -> Iterator[Commands]:
    made = Commands(database.dsn, tmp_path)
    yield made
    made.close()


@pytest.fixture
async def client(database: Database) -> Any:
    async with awa.AsyncClient(database.dsn, 2) as opened:
        yield opened


async def completed(client: awa.AsyncClient, count: int) -> None:
    async def found() -> bool:
        return (await client.queue_counts("default"))[0].completed == count

    await eventually(found, LONG, what=f"{count} completed jobs")


@pytest.mark.slow
async def test_clients_used_at_import_work_in_every_process_of_a_worker(commands, client):
    command = commands.start(
        "opened_before:client", "--processes", str(PROCESSES), "--queue", "default:2"
    )
    await command.works(PROCESSES)
    kinds = ("shared", "blocking")
    for kind in kinds:
        await client.insert_many([{"key": f"{kind}{n}"} for n in range(100)], kind=kind)
    await completed(client, 200)
    jobs = [job for kind in kinds for job in await client.list_jobs("completed", kind)]
    assert [job.errors for job in jobs] == [[]] * 200
    made = await client.list_jobs("available", "made", limit=1000)
    assert Counter(job.args["key"] for job in made) == {job.args["key"]: 1 for job in jobs}
    assert set(command.children()) >= {(await client.get_job(job.id)).output for job in jobs}


@pytest.mark.slow
async def test_a_client_used_at_import_works_in_every_process_of_a_preloading_web_server(
    client: awa.AsyncClient, database: Database, tmp_path: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        server = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "gunicorn", "--preload", "--workers", str(PROCESSES),
            "--threads", "2", "--no-control-socket", "--bind", f"fd://{listening.fileno()}",
            "web:app",
            cwd=APP, env={**os.environ, "AWA_DATABASE_URL": database.dsn, "HOME": str(tmp_path)},
            pass_fds=[listening.fileno()],
        )  # fmt: skip
        asked: list[str] = []
        answers: list[tuple[int, int]] = []

        async def all_have_answered() -> bool:
            paths = [f"/{len(asked) + number}" for number in range(100)]
            asked.extend(paths)
            answers.extend(await ask_for(port, paths))
            return len({process for _, process in answers}) == PROCESSES

        try:
            await eventually(all_have_answered, LONG, what="each process to have enqueued")
        finally:
            server.terminate()
            code = await asyncio.wait_for(server.wait(), LONG.total_seconds())
    assert code == 0
    assert Counter(status for status, _ in answers) == {200: len(asked)}
    made = await client.list_jobs(kind="web", limit=10_000)
    assert Counter(job.args["key"] for job in made) == Counter(["/import", *asked])


async def ask_for(port: int, paths: Iterable[str]) -> list[tuple[int, int]]:
    """Return the status and the process of each answer; many are asked for at once."""
    with urllib3.PoolManager(maxsize=16, block=True) as pool:

        def ask(path: str) -> tuple[int, int]:
            # A connection that is kept would lead to the same process again.
            answer = pool.request(
                "GET",
                f"http://127.0.0.1:{port}{path}",
                headers={"Connection": "close"},
                retries=False,
            )
            return answer.status, int(answer.data)

        with ThreadPoolExecutor(16) as threads:
            loop = asyncio.get_running_loop()
            return await asyncio.gather(
                *(loop.run_in_executor(threads, ask, path) for path in paths)
            )


@pytest.mark.parametrize("form", ["async", "blocking"])
async def test_a_child_forked_in_a_transaction_leaves_it_to_the_parent(
    database: Database, client: awa.AsyncClient, form: str
) -> None:
    program = await asyncio.create_subprocess_exec(
        sys.executable, "-c", FORKED[form], database.dsn, stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONWARNINGS": "ignore", "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    out, _ = await asyncio.wait_for(program.communicate(), 60)
    assert program.returncode == 0
    refusal = "ValidationError: this transaction was opened in another process; "
    assert json.loads(out) == [f"{refusal}open one in this process"] * 4
    made = await client.list_jobs()
    assert Counter(job.kind for job in made) == {"before": 1, "after": 1, "child": 2}


FORKED = {
    "blocking": """
import json, os, sys
from awa import Client

client = Client(sys.argv[1])
read, write = os.pipe()
def refused(call):
    try:
        call()
    except Exception as error:
        os.write(write, f"{type(error).__name__}: {error}\\n".encode())

def child(transaction, first):
    if first:
        client.insert({}, kind="child")
    refused(lambda: transaction.insert({}, kind="lost"))
    refused(lambda: transaction.execute("rollback"))
    if not first:
        client.insert({}, kind="child")
    sys.exit(7)

def block():
    with client.transaction() as transaction:
        transaction.insert({}, kind="before")
        for first in (True, False):
            pid = os.fork()
            if pid == 0:
                child(transaction, first)
            assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
        transaction.insert({}, kind="after")

block()
print(json.dumps(os.read(read, 10000).decode().splitlines()))
""",
    "async": """
import asyncio, json, os, sys
from awa import AsyncClient

client = AsyncClient(sys.argv[1])
read, write = os.pipe()

def step(coroutine):
    # Run what does not wait, as far as it goes, without the loop that is the parent's.
    try:
        coroutine.send(None)
    except StopIteration:
        pass
    except Exception as error:
        os.write(write, f"{type(error).__name__}: {error}\\n".encode())
    else:
        os.write(write, b"it waits for the parent's connection\\n")

async def block():
    async with client.transaction() as transaction:
        await transaction.insert({}, kind="before")
        for _ in range(2):
            pid = os.fork()
            if pid == 0:
                step(transaction.insert({}, kind="lost"))
                step(transaction.execute("rollback"))
                os._exit(7)
            assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
        await transaction.insert({}, kind="after")
    for _ in range(2):
        await client.insert({}, kind="child")
    await client.close()

asyncio.run(block())
print(json.dumps(os.read(read, 10000).decode().splitlines()))
""",
}


def runs(folder: Path) -> list[list[str]]:
    return [line for line in read_journals(folder, "runs") if line[0] == "ran"]


@pytest.mark.slow
@pytest.mark.parametrize("max_age", [0, 600])
async def test_connections_of_django_do_not_pile_up_and_come_back_after_they_broke(
    commands: Commands, client: awa.AsyncClient, connect: Connect, database: Database, max_age: int
) -> None:
    admin = await connect(database.dsn)
    command = commands.start(
        "with_django", "--queue", f"default:{THREADS}", TEST_CONN_MAX_AGE=str(max_age)
    )
    await command.works()

    async def sessions() -> int:
        count: int = await admin.fetchval(
            "select count(*) from pg_stat_activity where application_name = 'django'"
            " and datname = current_database()"
        )
        return count

    for round_number in (1, 2):
        await client.insert_many([{"key": str(n)} for n in range(JOBS)], kind="query")
        await completed(client, JOBS * round_number)
        if max_age == 0:
            await eventually(lambda: none_left(sessions), what="no session between jobs")
        else:
            await admin.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity"
                " where application_name = 'django' and datname = current_database()"
            )
    seen = runs(commands.folder)
    threads = {line[3] for line in seen}
    assert len(seen) == 2 * JOBS
    assert 1 < len(threads) <= THREADS
    assert max(int(line[2]) for line in seen) <= len(threads)
    assert max(int(line[4]) for line in seen) <= 2, "the log of queries is that of one job"
    errors = [job.errors for job in await client.list_jobs("completed", limit=200) if job.errors]
    assert sum(map(len, errors)) <= (0 if max_age == 0 else len(threads))


async def none_left(sessions: Any) -> bool:
    return await sessions() == 0


async def test_a_test_database_can_be_dropped_when_the_test_kit_has_ended(
    make_database: MakeDatabase, migrated_template: str, connect: Connect, database: Database
) -> None:
    admin = await connect(database.dsn)
    for kind in ("async", "blocking"):
        other = make_database(migrated_template)
        async with awa.AsyncClient(other.dsn, 4) as client:
            client.registry.add(_nothing_async, kind="async")
            client.registry.add(_nothing, kind="blocking")
            await client.insert({}, kind=kind)
            assert (await work_one(client)).is_completed
            await client.insert({}, kind=kind)
            await client.start([("default", 2)])
            await completed(client, 2)
        blocking = awa.Client(other.dsn)
        await asyncio.to_thread(blocking.insert, {}, kind=kind)
        await asyncio.to_thread(blocking.close)
        # A session that says goodbye is there for another moment: PostgreSQL waits for it.
        await admin.execute(f'drop database "{other.name}"')


async def _nothing_async(job: awa.Job[Any]) -> None:
    pass


def _nothing(job: awa.Job[Any]) -> None:
    pass
