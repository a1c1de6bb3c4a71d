"""C09: a part of a worker that fails is named, hinders no other, and goes on by itself.

There is no cron in this product. A database that is not there yet at the start is in
tests/worker/process/test_configuration.py, a claim loop that hangs in test_health.py beside it.
"""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

import awa_migrations
from awa._runtime.condition import Patience, look
from awa._runtime.service import State
from support.command.command import Commands
from support.fleet.tasks import QUEUE, Task
from support.sizes import sized
from support.waiting import eventually, passed

WITHIN = timedelta(seconds=30)
WITHOUT_SECONDS = sized(0, 30)
"""How long a right is gone after it was missed."""
SERVICES = {
    "heartbeat": "heartbeat_v1",
    "listener": "queue_ids_v1",
    "claimer": "claim_v1",
    "maintenance": "lead_v1",
}
DUTIES = {
    "promote": "promote_v1",
    "rescue": "rescue_v1",
    "deadline": "rescue_overdue_v1",
    "unknown_kinds": "unknown_kinds_v1",
    "rotate": "rotate_v1",
    "evacuate": "evacuate_v1",
    "prune": "prune_v1",
    "retire": "retire_v1",
    "transactions": "oldest_transactions_v1",
}


class Rights:
    """A role with the rights of a worker, each of which can be taken away."""

    def __init__(self, engine, database) -> None:
        self.admin = engine.admin
        self.role = f"worker_{database.name}"
        self.dsn = database.server.dsn(database.name, user=self.role)

    async def take(self, function: str) -> None:
        await self.admin.execute(f"revoke execute on function awa.{function} from {self.role}")

    async def give(self, function: str) -> None:
        await self.admin.execute(f"grant execute on function awa.{function} to {self.role}")


@pytest.fixture
async def rights(engine, database):
    """The role of the test's worker."""
    made = Rights(engine, database)
    await made.admin.execute(f"create role {made.role} login")
    await made.admin.fetchval("select awa.grant_v1($1, 'worker')", made.role)
    yield made
    await made.admin.execute(f"drop owned by {made.role}; drop role {made.role}")


@pytest.fixture
async def worker(rights, fleet):
    """A worker of that role, the leader, with everything at work."""
    client = await fleet.embedded("w", rights.dsn, heartbeat_staleness=timedelta(minutes=10))
    found = client.worker
    await eventually(lambda: found.maintenance.leads and found.listener.works, WITHIN)
    yield found
    await client.shutdown()


def done(worker) -> dict[str, float]:
    """Return how far each part has come."""
    found: dict[str, float] = {duty: worker.metrics.duties[(duty, "done")] for duty in DUTIES}
    return found | {
        service.name: service.progressed_at for service in worker.services if service.longest_pause
    }


def reasons(caplog) -> dict[str, str]:
    """Return what was said of each duty that failed."""
    failed = [record for record in caplog.records if record.getMessage() == "duty failed"]
    return {record.duty: record.reason for record in failed}


async def all_go_on(worker, *, but: str = "") -> None:
    """Wait until each part has got further from here on."""
    before = done(worker)

    def further() -> bool:
        now = done(worker)
        return all(now[name] > before[name] for name in before if name != but)

    await eventually(further, WITHIN, what=f"all parts but {but or 'none'} to go on")


@pytest.mark.slow
@pytest.mark.timeout(sized(300, 1200))
async def test_a_duty_without_its_right_is_named_and_alone_and_goes_on_when_it_is_back(
    worker, rights, caplog
):
    for duty, function in DUTIES.items():
        await rights.take(function)
        failed = worker.metrics.duties[(duty, "failed")]

        def is_seen(duty=duty, failed=failed) -> bool:
            return worker.metrics.duties[(duty, "failed")] > failed and duty in reasons(caplog)

        await eventually(is_seen, WITHIN, what=f"{duty} to be named")
        assert function in reasons(caplog)[duty]
        await passed(WITHOUT_SECONDS)
        await all_go_on(worker, but=duty)  # the one before, which has its right again, too
        await rights.give(function)
    await all_go_on(worker)


async def test_what_claims_have_passed_over_waits_for_the_right_to_settle_it(
    worker, rights, fleet, caplog
):
    await rights.take("settle_holes_v1")
    await fleet.client.insert_many([{}] * 100, kind="nobody_knows", queue=QUEUE)
    await fleet.client.insert(Task("behind"), queue=QUEUE)
    await fleet.started("behind")
    await eventually(lambda: "holes" in reasons(caplog), WITHIN, what="the duty to be named")
    assert "settle_holes_v1" in reasons(caplog)["holes"]
    await passed(WITHOUT_SECONDS)
    await all_go_on(worker)
    left = "select exists (select from awa.lane_holes)"
    assert await rights.admin.fetchval(left)
    await rights.give("settle_holes_v1")
    await eventually(lambda: rights.admin.fetchval(f"select not ({left})"), WITHIN)


@pytest.mark.slow
@pytest.mark.parametrize("name", list(SERVICES))
async def test_a_service_without_its_right_is_named_and_goes_on_when_it_is_back(
    worker, rights, fleet, caplog, name
):
    service = next(one for one in worker.services if one.name == name)
    await rights.take(SERVICES[name])
    if name == "listener":  # asks only when it has to begin anew
        await rights.admin.execute("select pg_terminate_backend($1)", worker.listener._backend[0])
    await eventually(lambda: service.state is State.failing, WITHIN, what=f"{name} to fail")
    said = {getattr(record, "service", "") for record in caplog.records}
    assert name in said
    others = [one for one in worker.services if one is not service]
    assert {one.state for one in others} <= {State.running}
    await passed(WITHOUT_SECONDS)
    await rights.give(SERVICES[name])
    await eventually(lambda: service.state is State.running, WITHIN, what=f"{name} to go on")
    await all_go_on(worker)
    await fleet.client.insert(Task("a"), queue=QUEUE)
    await fleet.quiet()


async def test_ends_that_may_not_be_written_wait_until_they_may(worker, rights, fleet):
    for function in ("finish_v1", "finish_v2"):
        await rights.take(function)
    jobs = await fleet.client.insert_many([Task(f"t{n}") for n in range(5)], queue=QUEUE)
    await eventually(lambda: worker.finisher.resent > 2, WITHIN, what="ends to be sent again")
    for function in ("finish_v1", "finish_v2"):
        await rights.give(function)
    await fleet.quiet()
    assert set(fleet.keys_started().values()) == {1}
    assert sum(fleet.completions().values()) == len(jobs)


@pytest.mark.slow
async def test_a_command_that_meets_a_full_server_waits_and_works_when_there_is_room(
    make_server, connect, tmp_path
):
    server = make_server(max_connections="6", superuser_reserved_connections="0", fsync="off")
    database = server.create_database()
    await awa_migrations.migrate(database.dsn)
    held = [await connect(database.dsn) for _ in range(6)]
    commands = Commands(database.dsn, tmp_path)
    try:
        command = commands.start()
        (line,) = await command.said("cannot work yet, trying again")
        assert "max_connections" in line["reason"]
        await passed(sized(0, 60))
        assert not command.has_ended
        await asyncio.gather(*(session.close() for session in held))
        await command.works()
    finally:
        commands.close()


async def test_a_leader_that_may_not_do_a_duty_says_so_and_lets_one_lead_that_may(
    worker, rights, fleet, caplog
):
    await rights.take("promote_v1")
    await eventually(lambda: "promote" in worker.maintenance.failing, WITHIN)
    condition = await look(worker, worker._database, at_database=True)
    assert (condition.services["duty promote"], condition.ready) == ("failing", False)
    assert "promote_v1" in condition.reason
    other = await fleet.embedded("v", heartbeat_staleness=timedelta(minutes=10))
    due = datetime.now(UTC) + timedelta(milliseconds=100)
    await fleet.client.insert(Task("due"), queue=QUEUE, run_at=due)
    await fleet.started("due")
    assert other.worker.maintenance.leads
    assert not worker.maintenance.leads
    assert "a duty cannot be done here, others may lead" in caplog.messages
    await eventually(lambda: not worker.maintenance.failing, WITHIN, what="it to be ready again")
    await fleet.quiet()


async def test_a_leader_whose_every_other_is_as_unable_goes_on_with_its_other_duties(
    worker, rights, caplog
):
    await rights.take("promote_v1")
    gives_up = "a duty cannot be done here, others may lead"
    await eventually(lambda: gives_up in caplog.messages, WITHIN)
    await eventually(lambda: worker.maintenance.leads, WITHIN, what="it to lead again")
    await all_go_on(worker, but="promote")
    assert set(worker.maintenance.failing) == {"promote"}
    await rights.give("promote_v1")
    await all_go_on(worker)
    assert worker.maintenance.failing == {}


async def test_a_leader_that_cannot_stay_leader_keeps_no_other_from_leading(worker, rights, fleet):
    other = await fleet.embedded("v", heartbeat_staleness=timedelta(minutes=10))
    assert not other.worker.maintenance.leads
    await rights.take("lead_v1")
    await eventually(lambda: other.worker.maintenance.leads, WITHIN, what="the other to lead")
    assert not worker.maintenance.leads
    await eventually(lambda: other.worker.metrics.duties[("promote", "done")] > 0, WITHIN)


async def test_a_claim_loop_that_gets_nowhere_asks_for_a_restart_while_the_database_answers(
    worker, rights
):
    patience = Patience(failing=2)
    await rights.take("claim_v1")
    await eventually(lambda: worker.claimer.state is State.failing, WITHIN)

    async def is_given_up() -> bool:
        return not await is_live(worker, patience)

    await eventually(is_given_up, WITHIN, what="liveness to be false")
    assert worker.claimer.state is State.failing
    await rights.give("claim_v1")
    await eventually(lambda: is_live(worker, patience), WITHIN, what="liveness again")


@pytest.mark.parametrize(
    "held",
    [
        "lock table awa.queue_meta, awa.lanes in access exclusive mode",
        "select pg_advisory_xact_lock(hashtext('awa'), lane_id) from awa.lanes"
        " where queue is not null",
    ],
    ids=["tables", "lanes"],
)
async def test_a_claim_loop_that_hangs_asks_for_a_restart_while_the_database_answers(
    worker, connect, database, held
):
    session = await connect(database.dsn)
    async with session.transaction():
        await session.execute(held)

        async def is_given_up() -> bool:
            return not await is_live(worker, Patience(stuck=1))

        await eventually(is_given_up, WITHIN, what="liveness to be false")


async def test_no_restart_is_asked_for_while_the_database_does_not_answer(
    fleet, database, make_proxy
):
    proxy = make_proxy(database.server)
    client = await fleet.embedded("w", database.dsn_through(proxy))
    worker = client.worker
    await eventually(lambda: worker.listener.works, WITHIN)
    proxy.refuse()
    # Until then it may still read an answer that had come through.
    await eventually(lambda: worker.claimer.state is State.failing, WITHIN, what="it to fail")
    loop = asyncio.get_running_loop()
    progressed, failing_at = worker.claimer.progressed_at, loop.time()
    await eventually(lambda: loop.time() > failing_at + 3)
    assert worker.claimer.progressed_at == progressed
    assert await is_live(worker, Patience(stuck=1, failing=1))
    proxy.forward()
    await eventually(lambda: worker.claimer.progressed_at > progressed, WITHIN)


async def is_live(worker, patience: Patience) -> bool:
    """Whether no restart is asked for; the time that the claim loop may sleep is not counted."""
    worker.claimer.longest_pause = 0.0
    found = await look(worker, worker._database, at_database=False, patience=patience)
    return found.live


async def test_a_new_leader_cares_for_jobs_first_and_tidies_up_later(fleet):
    client = await fleet.embedded("w", cleanup_interval=timedelta(minutes=1))
    duties = client.worker.metrics.duties

    def done() -> list[str]:
        return [duty for duty, outcome in duties if outcome == "done"]

    care, tidying = {"promote", "rescue", "deadline"}, {"rotate", "evacuate", "prune", "retire"}
    await eventually(lambda: care | tidying <= set(done()), what="each to be done once")
    assert set(done()[:3]) == care
