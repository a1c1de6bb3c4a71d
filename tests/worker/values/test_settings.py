import dataclasses
from datetime import timedelta
from typing import Any

import pytest

from awa.errors import ValidationError
from awa.knobs import parts_of, variable_of
from awa.queue_settings import QueueSettings, RateLimit, parse_queues
from awa.settings import (
    DatabaseSettings,
    WorkerSettings,
    load_database_settings,
    load_worker_settings,
)

SECOND = timedelta(seconds=1)
TEXTS = {"health_address", "metrics_address", "pod_owner", "pod_name", "pod_uid"}


def test_the_defaults_are_the_documented_ones() -> None:
    settings = WorkerSettings()
    assert settings.poll_interval == timedelta(milliseconds=200)
    assert (settings.finish_batch_size, settings.finish_flush_interval) == (
        512,
        timedelta(milliseconds=1),
    )
    assert (settings.heartbeat_interval, settings.heartbeat_staleness) == (30 * SECOND, 90 * SECOND)
    assert settings.rescue_interval == settings.drain_timeout == 30 * SECOND
    assert settings.promote_interval == timedelta(milliseconds=250)
    assert (settings.completed_retention, settings.failed_retention, settings.dlq_retention) == (
        timedelta(hours=24),
        timedelta(hours=72),
        timedelta(days=30),
    )
    (queue,) = settings.queues
    assert (queue.name, settings.places_of(queue)) == ("default", 10)
    assert (queue.deadline, queue.priority_aging_interval) == (300 * SECOND, 60 * SECOND)
    assert queue.claim_batch_size == 512


@pytest.mark.parametrize("settings", [WorkerSettings, QueueSettings, DatabaseSettings])
def test_every_knob_says_why_and_is_named_in_its_errors(settings: type) -> None:
    base = {"name": "q"} if settings is QueueSettings else {}
    if settings is DatabaseSettings:
        base = {"database_url": "postgresql://h/d"}
    for knob_field in dataclasses.fields(settings):
        _, knob = parts_of(knob_field)
        assert len(knob.why) > 10
        with pytest.raises(ValidationError, match=knob_field.name):
            settings(**{**base, knob_field.name: object()})
        for bound, beyond in ((knob.least, -1), (knob.most, 1)):
            if bound is None:
                continue
            step = SECOND if isinstance(bound, timedelta) else 1
            with pytest.raises(ValidationError, match=f"{knob_field.name} is .*; it takes"):
                settings(**{**base, knob_field.name: bound + beyond * step})


def test_staleness_is_at_least_three_heartbeats() -> None:
    WorkerSettings(heartbeat_interval=30 * SECOND, heartbeat_staleness=90 * SECOND)
    with pytest.raises(ValidationError, match="heartbeat_staleness must be at least three times"):
        WorkerSettings(heartbeat_interval=31 * SECOND, heartbeat_staleness=90 * SECOND)


def test_a_leader_renews_at_least_three_times_a_lease() -> None:
    with pytest.raises(ValidationError, match="leader_lease must be at least three times"):
        WorkerSettings(leader_check_interval=11 * SECOND)


def test_the_ring_is_long_enough_for_the_retention() -> None:
    week = timedelta(days=7)
    queue = QueueSettings(name="q", completed_retention=week)
    for settings in (WorkerSettings(completed_retention=week), WorkerSettings(queues=(queue,))):
        assert settings.slot_interval * 14 > week
    assert WorkerSettings(rotate_interval=SECOND).slot_interval == SECOND
    assert settings.slot_max_bytes * 16 == settings.ring_max_bytes


@pytest.mark.parametrize(
    ("queues", "more", "message"),
    [
        ([], {}, "queues is empty"),
        ([("a", 1), ("a", 2)], {}, "queue 'a' is configured twice"),
        ([{"name": "a", "min_workers": 1}], {}, "min_workers needs global_max_workers"),
        ([("a", 1)], {"global_max_workers": 5}, "max_workers and global_max_workers exclude"),
        (
            [{"name": "a", "min_workers": 3}, {"name": "b", "min_workers": 3}],
            {"global_max_workers": 5},
            "the queues reserve 6 places",
        ),
    ],
)
def test_queues_that_do_not_go_together_are_refused(
    queues: list[Any], more: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValidationError, match=message):
        WorkerSettings(queues=parse_queues(queues), **more)


def test_places_are_a_queues_own_or_everybodys() -> None:
    own = WorkerSettings(queues=parse_queues([("a", 3), {"name": "b"}]))
    assert [own.places_of(queue) for queue in own.queues] == [3, 10]
    shared = WorkerSettings(
        queues=parse_queues([{"name": "a", "min_workers": 2}]), global_max_workers=8
    )
    assert shared.places_of(shared.queues[0]) == 8


def test_a_queue_comes_as_a_tuple_a_mapping_or_itself() -> None:
    queue = QueueSettings(
        name="mail",
        max_workers=5,
        rate_limit=RateLimit(2.5, 10),
        priority_aging_interval=timedelta(0),
        deadline=timedelta(minutes=1),
    )
    assert QueueSettings.parse(queue) is queue
    assert QueueSettings.parse(("mail", 5)) == QueueSettings(name="mail", max_workers=5)
    assert (
        QueueSettings.parse(
            {
                "name": "mail",
                "max_workers": 5,
                "rate_limit": (2.5, 10),
                "priority_aging_interval_ms": 0,
                "deadline_duration_ms": 60_000,
            }
        )
        == queue
    )


@pytest.mark.parametrize(
    ("queue", "message"),
    [
        ({"max_workers": 1}, "needs a name"),
        ({"name": "a", "workers": 1}, "no option 'workers'"),
        ({"name": "a", "max_workers": 1, "min_workers": 1}, "exclude each other"),
        ({"name": "a", "weight": 0}, "weight is 0; it takes 1 or more"),
        ({"name": "a", "max_workers": 0}, "max_workers is 0"),
        ({"name": "a", "max_workers": "5"}, "max_workers takes int"),
        ({"name": "a", "max_workers": True}, "not a bool"),
        ({"name": "a", "claim_batch_size": 0}, "claim_batch_size is 0"),
        ({"name": "a", "deadline_duration_ms": -1}, "deadline is -0.001 s"),
        ({"name": "a", "deadline_duration_ms": "1"}, "deadline_duration_ms takes float"),
        ({"name": "a", "rate_limit": (1,)}, "rate_limit is"),
        ({"name": "a", "rate_limit": (0, 1)}, r"rate_limit\.rate"),
        ({"name": "a", "rate_limit": (1, -1)}, r"rate_limit\.burst"),
        ({"name": ""}, "queue name has 0 characters"),
        (("a",), "a queue tuple is"),
        ("a", "a queue is"),
    ],
)
def test_a_queue_that_cannot_be_is_refused_by_name(queue: Any, message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        QueueSettings.parse(queue)


@pytest.mark.parametrize(
    ("limit", "capacity"),
    [(RateLimit(2.5), 3), (RateLimit(3), 3), (RateLimit(0.1), 1), (RateLimit(5, 20), 20)],
)
def test_a_burst_of_nothing_is_a_seconds_worth(limit: RateLimit, capacity: int) -> None:
    assert limit.capacity == capacity


def test_an_empty_environment_gives_the_defaults() -> None:
    assert load_worker_settings({}) == WorkerSettings()
    assert load_worker_settings({"AWA_POLL_INTERVAL_SECONDS": " "}) == WorkerSettings()


def test_the_environment_sets_knobs_with_their_unit() -> None:
    settings = load_worker_settings(
        {
            "AWA_QUEUES": "default:20, mail",
            "AWA_PROCESSES": "4",
            "AWA_POLL_INTERVAL_SECONDS": "0.5",
            "AWA_ROTATE_INTERVAL_SECONDS": "60",
            "AWA_RING_MAX_BYTES": "1073741824",
            "AWA_HEALTH_ADDRESS": "0.0.0.0:8080",
            "PATH": "/bin",
        }
    )
    assert settings == WorkerSettings(
        queues=parse_queues([("default", 20), {"name": "mail"}]),
        processes=4,
        poll_interval=timedelta(milliseconds=500),
        rotate_interval=timedelta(minutes=1),
        ring_max_bytes=1024**3,
        health_address="0.0.0.0:8080",
    )


@pytest.mark.parametrize(
    ("variable", "value", "message"),
    [
        ("AWA_PROCESSES", "many", "AWA_PROCESSES is not a whole number"),
        ("AWA_POLL_INTERVAL_SECONDS", "5s", "AWA_POLL_INTERVAL_SECONDS is not a number of seconds"),
        ("AWA_POLL_INTERVAL_SECONDS", "nan", "is not a number of seconds"),
        ("AWA_POLL_INTERVAL_SECONDS", "1e300", "is not a number of seconds"),
        ("AWA_POLL_INTERVAL_SECONDS", "0", "poll_interval is 0 s"),
        ("AWA_QUEUES", "mail:many", "AWA_QUEUES lists queues as"),
        ("AWA_QUEUES", "a,,b", "queue name has 0 characters"),
    ],
)
def test_a_variable_that_cannot_be_read_is_named(variable: str, value: str, message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        load_worker_settings({variable: value})


def test_every_number_and_duration_has_a_variable_that_is_read() -> None:
    for knob_field in dataclasses.fields(WorkerSettings):
        if knob_field.name not in {"queues", *TEXTS}:
            with pytest.raises(ValidationError, match=f"^{knob_field.name} is -1"):
                load_worker_settings({variable_of(knob_field): "-1"})


@pytest.mark.parametrize(
    "address",
    ["", "hunter2", "mysql://u:hunter2@h/d", "postgresql:/h", "postgresql://u:hunter2@h:abc/d",
     "postgresql://u:hunter2@[::1/d"],
)  # fmt: skip
def test_what_is_no_address_of_postgresql_is_refused_unseen(address: str) -> None:
    with pytest.raises(ValidationError, match="postgresql://user@host/database") as refused:
        DatabaseSettings(database_url=address)
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize(
    "address",
    ["postgresql://", "postgres://h/d", "postgresql:///d?host=/run/postgresql", "postgresql://h/d",
     "postgresql://u:p%40@h1:5432,h2:5433/d", "postgresql://[::1]:5432/d"],
)  # fmt: skip
def test_every_form_of_an_address_is_taken(address: str) -> None:
    assert DatabaseSettings(database_url=address).database_url == address


def test_the_database_needs_an_address_and_never_shows_it() -> None:
    with pytest.raises(ValidationError, match="set AWA_DATABASE_URL="):
        load_database_settings({})
    settings = load_database_settings(
        {"AWA_DATABASE_URL": "postgresql://u:hunter2@h/d", "AWA_SCHEMA": "other"}
    )
    assert settings.database_url.endswith("@h/d")
    assert settings.schema == "other"
    assert "hunter2" not in repr(settings)
    assert settings.max_connections == 10
