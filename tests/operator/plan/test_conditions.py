"""Conditions: all from the first visit, dated by their value, bounded and free of secrets."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from awa.manifest import ConditionType, QueueStatus
from awa_operator.conditions import MAX_MESSAGE, Reason, Statement, dated, safe_message
from awa_operator.observed import LostWorker
from awa_operator.plan.status import invalid_status
from support.planning.queues import START
from support.planning.world import World

SECRET = "hunter2"
LEAKS = [
    f"postgresql://app:{SECRET}@db.example:5432/app?sslmode=require",
    f"cannot connect to postgres://app:{SECRET}@db/app: refused",
    f'connection to "postgresql+asyncpg://app:{SECRET}@db" failed',
    f"POSTGRESQL://app:{SECRET}@db",
    f"password={SECRET} host=db",
    f"host = db password = '{SECRET} and more' user=app",
    f'password="{SECRET}"',
    f"PASSWORD={SECRET}",
    f"sslpassword={SECRET}",
    f"app:{SECRET}@db.example/app",
    f"at (app:{SECRET}@db.example)",
]


@pytest.mark.parametrize("text", LEAKS)
def test_no_secret_gets_through(text):
    assert SECRET not in safe_message(text)


def test_ordinary_words_do():
    for text in (
        "LockTimeout: held by psql (pid 12), idle in transaction since 5 s: retry at 12:30",
        "cannot pull registry.example:5000/app:1.2@sha256:0123abcd: not found",
    ):
        assert safe_message(text) == text


@given(st.text(max_size=5000))
def test_every_text_becomes_a_message(text):
    message = safe_message(text)
    assert len(message) <= MAX_MESSAGE
    assert safe_message(message) == message


@given(st.text("ab:/@='\" ", max_size=60))
def test_a_password_in_the_middle_of_anything_is_hidden(before):
    assert SECRET not in safe_message(f"{before} postgresql://app:{SECRET}@db/app")


def test_all_conditions_are_there_from_the_first_visit(world: World):
    world.reconcile()
    assert [one.type for one in world.status().conditions] == [kind.value for kind in ConditionType]
    assert {one.observed_generation for one in world.status().conditions} == {1}


def test_a_time_moves_only_with_the_value():
    kind, later = ConditionType.READY, START + timedelta(minutes=1)
    first = dated(QueueStatus(), [Statement(kind, False, "A")], 1, START)
    status = QueueStatus(conditions=first)
    other_words = dated(status, [Statement(kind, False, "B", "words")], 2, later)
    assert other_words[0].last_transition_time == START
    assert (other_words[0].reason, other_words[0].observed_generation) == ("B", 2)
    moved = dated(status, [Statement(kind, True, "A")], 2, later)
    assert moved[0].last_transition_time == later
    unknown = dated(status, [Statement(kind, None, "A")], 2, later)
    assert unknown[0].status == "Unknown"


def test_stalled_and_reconciling_are_never_both_true(ready_world: World):
    world = ready_world
    world.edit(worker={"image": "app:2"})
    world.settle()
    world.end_job(65, "")
    world.lose_database()
    world.settle()
    assert world.condition(ConditionType.STALLED).status == "True"
    assert world.condition(ConditionType.RECONCILING).status == "False"


def test_a_spec_that_cannot_be_read_is_said_and_what_was_known_stays(ready_world: World):
    before = ready_world.status()
    later = START + timedelta(hours=1)
    after = invalid_status(before, 9, ["spec.worker.image: is needed"], later)
    said = {one.type: one for one in after.conditions}
    assert said["Stalled"].status == "True"
    assert said["Ready"].reason == Reason.INVALID_SPEC
    assert "spec.worker.image" in said["Ready"].message
    assert said["DatabaseReachable"].status == "True"
    assert (after.image, after.observed_generation) == (before.image, 9)


def test_a_spec_that_could_never_be_read_has_all_conditions():
    after = invalid_status(QueueStatus(), 1, ["no"], START)
    assert len(after.conditions) == len(ConditionType)


def test_an_outage_is_said_and_the_workers_are_left(ready_world: World):
    world = ready_world
    world.lose_database()
    world.settle()
    assert world.condition(ConditionType.DATABASE_REACHABLE).reason == "ConnectionRefused"
    assert world.condition(ConditionType.READY).reason == Reason.WAITING_FOR_DATABASE
    assert world.deployments["email"].available == 2
    world.return_database()
    world.settle()
    reasons = [event.reason for _, event in world.events]
    assert reasons.count("DatabaseUnreachable") == 1
    assert reasons.count("DatabaseRecovered") == 1
    assert world.condition(ConditionType.READY).status == "True"


def test_pods_that_wait_are_said_after_a_minute(world: World):
    world.settle()
    job = next(iter(world.jobs.values()))
    pod = job.pods[0]
    job.pods = (
        type(pod)(
            name=pod.name, is_live=True, waiting_reason="ImagePullBackOff",
            waiting_message="no such image", waiting_since=world.now,
        ),
    )  # fmt: skip
    due = world.plan().requeue_after
    assert due == timedelta(seconds=60)
    world.advance(60)
    world.settle()
    assert world.condition(ConditionType.RECONCILING).reason == "ImagePull"
    assert "no such image" in world.condition(ConditionType.RECONCILING).message
    assert len(world.jobs_made) == 1


def test_an_image_without_a_digest_is_warned_of_once(world: World):
    world.settle()
    world.edit(replicas=3)
    world.settle()
    assert [event.reason for _, event in world.events].count("ImageNotPinned") == 1


def test_the_selector_and_the_counts_are_those_of_the_deployment(ready_world: World):
    status = ready_world.status()
    assert status.selector is not None
    assert "awa.dev/queue=email" in status.selector
    counts = (status.replicas, status.ready_replicas, status.updated_replicas)
    assert counts == (2, 2, 2)
    assert (status.image, status.target_image) == ("app:1", "app:1")


def test_a_lost_worker_is_marked_dead_when_the_database_is_there(ready_world: World):
    world = ready_world
    world.lost_workers["email"] = (LostWorker(7, "email-worker-x", "deleted"),)
    world.lose_database()
    world.settle()
    assert world.dead == []
    world.return_database()
    world.settle()
    assert world.dead == [7]
