"""The knobs of one queue in one worker process."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import timedelta
from typing import Annotated, Any

from awa.errors import ValidationError
from awa.knobs import Knob, check_knobs, check_type
from awa.limits import check_name

_SECOND = timedelta(seconds=1)
_NOTHING = timedelta(0)


@dataclass(frozen=True, slots=True)
class RateLimit:
    """At most `rate` job starts a second in each process; up to `burst` at once after a pause.

    A burst of 0 stands for one second's worth. Raises `ValidationError`.
    """

    rate: float
    burst: int = 0

    def __post_init__(self) -> None:
        check_type("rate_limit.rate", self.rate, float)
        check_type("rate_limit.burst", self.burst, int)
        if not 0 < self.rate <= 1_000_000:
            raise ValidationError("rate_limit.rate is jobs a second; it takes more than 0")
        if not 0 <= self.burst <= 1_000_000:
            raise ValidationError("rate_limit.burst is a number of jobs from 0 up")

    @property
    def capacity(self) -> int:
        """How many jobs may start at once after a pause; at least 1."""
        return self.burst or max(1, -int(-self.rate // 1))


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueSettings:
    """How a worker process serves one queue. Raises `ValidationError` naming the knob."""

    name: Annotated[str, Knob("The queue that is served.")]
    max_workers: Annotated[
        int | None,
        Knob(
            "How many of its jobs run at once; 10 when neither this nor a worker-wide "
            "`global_max_workers` is set, which suits handlers that wait for something.",
            least=1,
            most=10_000,
        ),
    ] = None
    min_workers: Annotated[
        int | None,
        Knob(
            "With `global_max_workers`: places that only this queue may use; 0 when not set.",
            least=0,
            most=10_000,
        ),
    ] = None
    weight: Annotated[
        int,
        Knob(
            "With `global_max_workers`: the queue's share of the places that nobody has reserved.",
            least=1,
            most=1_000,
        ),
    ] = 1
    rate_limit: Annotated[RateLimit | None, Knob("Limit of job starts; none when not set.")] = None
    priority_aging_interval: Annotated[
        timedelta,
        Knob(
            "After each such wait a job counts as one priority higher, so that a flood of urgent "
            "jobs delays others by minutes, not for ever. 0 disables it.",
            least=_NOTHING,
            most=timedelta(days=365),
        ),
    ] = timedelta(seconds=60)
    deadline: Annotated[
        timedelta,
        Knob(
            "An attempt that runs longer is given up and tried again: longer than most jobs need, "
            "short enough to notice one that hangs. 0 disables it.",
            least=_NOTHING,
            most=timedelta(days=365),
        ),
    ] = timedelta(minutes=5)
    claim_batch_size: Annotated[
        int,
        Knob(
            "The most jobs of one claim: enough that the round trip costs little of each.",
            least=1,
            most=10_000,
        ),
    ] = 512
    completed_retention: Annotated[
        timedelta | None,
        Knob(
            "How long this queue's cancelled jobs stay readable, and its completed ones if it is "
            "longer than the worker's: these are kept in a ring that all queues share, as long as "
            "any of them asks for.",
            least=_SECOND,
        ),
    ] = None
    failed_retention: Annotated[
        timedelta | None,
        Knob("As `failed_retention` of the worker, for this queue.", least=_SECOND),
    ] = None

    def __post_init__(self) -> None:
        check_name("queue name", self.name)
        where = f"queue {self.name!r}: "
        check_knobs(self, where)
        if self.max_workers is not None and self.min_workers is not None:
            raise ValidationError(
                f"{where}max_workers and min_workers exclude each other; min_workers goes with "
                "global_max_workers"
            )

    @classmethod
    def parse(cls, queue: "QueueSettings | tuple[str, int] | Mapping[str, Any]") -> "QueueSettings":
        """Make settings from the forms that `start` takes: `(name, max_workers)` or a mapping.

        A mapping has the names of the knobs; durations may also be given in milliseconds under
        `priority_aging_interval_ms` and `deadline_duration_ms`, a rate limit as `(rate, burst)`.
        """
        if isinstance(queue, QueueSettings):
            return queue
        if isinstance(queue, tuple):
            if len(queue) != 2:
                raise ValidationError("a queue tuple is (name, max_workers)")
            return cls(name=queue[0], max_workers=queue[1])
        if not isinstance(queue, Mapping):
            raise ValidationError(
                f"a queue is (name, max_workers) or a mapping, not a {type(queue).__name__}"
            )
        return cls(**_queue_knobs(queue))


def parse_queues(queues: Iterable[Any]) -> tuple[QueueSettings, ...]:
    """Return the settings of several queues, each in a form that `QueueSettings.parse` takes."""
    return tuple(QueueSettings.parse(queue) for queue in queues)


def _queue_knobs(queue: Mapping[str, Any]) -> dict[str, Any]:
    given = dict(queue)
    for name, knob_name in _MILLISECONDS.items():
        if name in given:
            given[knob_name] = _milliseconds(name, given.pop(name))
    if isinstance(given.get("rate_limit"), tuple | list):
        given["rate_limit"] = _rate_limit(given["rate_limit"])
    known = {declared.name for declared in fields(QueueSettings)}
    unknown = sorted(str(name) for name in given if name not in known)
    if unknown:
        raise ValidationError(f"a queue has no option {unknown[0]!r}")
    if "name" not in given:
        raise ValidationError("a queue mapping needs a name")
    return given


def _milliseconds(name: str, value: Any) -> timedelta:
    check_type(name, value, float)
    return timedelta(milliseconds=value)


def _rate_limit(pair: Sequence[Any]) -> RateLimit:
    if len(pair) != 2:
        raise ValidationError("rate_limit is (jobs a second, burst)")
    return RateLimit(pair[0], pair[1])


_MILLISECONDS = {
    "priority_aging_interval_ms": "priority_aging_interval",
    "deadline_duration_ms": "deadline",
}
