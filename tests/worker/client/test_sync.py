"""The blocking client: the calls of the asynchronous one, without an event loop of the caller's."""

import inspect
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import psycopg
import pytest

from awa import (
    AsyncClient,
    Client,
    Job,
    JobNotFound,
    SyncTransaction,
    Transaction,
    UniqueConflict,
    sync,
)
from support.clients import Mail, Resize
from support.postgres import Database
from support.waiting import eventually_sync

LATER = datetime.now(UTC) + timedelta(hours=12)
WORKER_CALLS = {"start", "shutdown", "worker", "database"}


@pytest.fixture(params=[1, 4])
def client(database: Database, request: pytest.FixtureRequest) -> Iterator[Client]:
    with Client(database.dsn, request.param) as client:
        yield client


@pytest.mark.parametrize(
    ("blocking", "other"), [(Client, AsyncClient), (SyncTransaction, Transaction)]
)
def test_it_has_every_call_of_the_asynchronous_one_with_the_same_parameters(
    blocking: type, other: type
) -> None:
    def calls(cls: type) -> dict[str, list[tuple[str, object, object]]]:
        return {
            name: [
                (p.name, p.default, p.kind) for p in inspect.signature(found).parameters.values()
            ]
            for name, found in inspect.getmembers(cls, inspect.isfunction)
            if not name.startswith("_") and name not in WORKER_CALLS
        }

    assert calls(blocking) == calls(other)


def test_every_call_works(client: Client) -> None:
    assert client.require_schema() == client.migrate()
    job = client.insert(Mail("a"), queue="mails", tags=["t"])
    client.insert_many([Mail("b"), Resize("c")], opts=[{"queue": "x"}, None])
    assert len(client.insert_many_copy([Mail("d"), Mail("d")], unique_opts={})) == 1
    assert client.enqueue_many_copy([Mail("e"), Mail("f")], opts=[None, {"run_at": LATER}]) == 2

    assert client.get_job(job.id).tags == ["t"]
    assert len(client.list_jobs(kind="mail")) == 5
    assert str(client.cancel(job.id).state) == "cancelled"
    assert client.retry(job.id).attempt == 0
    client.pause_queue("mails", "somebody")
    assert client.queue_counts("mails")[0].paused
    client.resume_queue("mails")
    assert not client.queue_counts("mails")[0].paused
    with pytest.raises(JobNotFound):
        client.get_job(1023)


def test_a_transaction_commits_or_rolls_back(client: Client, database: Database) -> None:
    with client.transaction() as transaction:
        transaction.execute("create table public.orders (id int)")
        transaction.insert(Mail("a"), queue="q1")
        transaction.insert_many([Mail("b")], queue="q2", unique_opts={})
        assert transaction.fetch("select count(*) as n from public.orders") == [{"n": 0}]

    def fail() -> None:
        with client.transaction() as transaction:
            transaction.insert(Mail("c"))
            transaction.insert(Mail("b"), unique_opts={})

    with pytest.raises(UniqueConflict):
        fail()
    assert sorted(job.args["to"] for job in client.list_jobs()) == ["a", "b"]


def test_threads_share_a_client(client: Client) -> None:
    with ThreadPoolExecutor(8) as threads:
        made = list(threads.map(lambda n: client.insert(Mail("a", n)).id, range(80)))

    assert len(set(made)) == 80


def test_closing_ends_thread_and_sessions_and_may_be_repeated(database: Database) -> None:
    client = Client(database.dsn)
    client.close()
    client.insert(Mail("a"))
    assert _threads() >= 1
    client.close()
    client.close()
    with psycopg.connect(database.dsn, autocommit=True) as session:
        eventually_sync(lambda: _sessions(session) == 0)
    client.insert(Mail("b"))
    client.close()


def test_a_client_that_is_dropped_is_not_kept(database: Database) -> None:
    before = len(sync._clients)
    client = Client(database.dsn)
    assert len(sync._clients) == before + 1
    del client
    assert len(sync._clients) == before


def test_handlers_are_registered_for_the_command(client: Client) -> None:
    @client.task(Mail, queue="mails")
    def send(job: Job[Mail]) -> None:
        pass

    assert client.registry.kinds == ("mail",)
    assert client.registry.queues == {"mails"}


def _threads() -> int:
    return sum(thread.name == "awa client" for thread in threading.enumerate())


def _sessions(session: psycopg.Connection) -> int:
    row = session.execute(
        "select count(*) from pg_stat_activity where application_name like 'awa%'"
        " and datname = current_database()"
    ).fetchone()
    assert row is not None
    return int(row[0])
