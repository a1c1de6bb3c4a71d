"""What a queue asks of the planner: bounds, targets, windows and rates."""

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum


class PolicyType(StrEnum):
    """How a rate policy counts: whole replicas, or per cent of the count at the period's start."""

    PODS = "Pods"
    PERCENT = "Percent"


class SelectPolicy(StrEnum):
    """Which of several policies counts: the one that allows most, or least, or none at all."""

    MAX = "Max"
    MIN = "Min"
    DISABLED = "Disabled"


@dataclass(frozen=True, slots=True)
class RatePolicy:
    """The replica count may change by at most `value` (replicas or per cent) in `period`."""

    type: PolicyType
    value: int
    period: timedelta


@dataclass(frozen=True, slots=True)
class RateRules:
    """How fast the count may move in one direction.

    `window` is how long a need must last before it is followed: the smallest need of the window
    counts upwards, the largest downwards. The field names and their meaning are those of the
    `behavior` of a HorizontalPodAutoscaler.
    """

    window: timedelta
    policies: tuple[RatePolicy, ...]
    select: SelectPolicy = SelectPolicy.MAX

    @property
    def longest_period(self) -> timedelta:
        """The longest period that any policy looks back on."""
        return max((policy.period for policy in self.policies), default=timedelta())


UP = RateRules(
    window=timedelta(0),
    policies=(
        RatePolicy(PolicyType.PODS, 4, timedelta(seconds=15)),
        RatePolicy(PolicyType.PERCENT, 100, timedelta(seconds=15)),
    ),
)
DOWN = RateRules(
    window=timedelta(seconds=300),
    policies=(
        RatePolicy(PolicyType.PODS, 1, timedelta(seconds=60)),
        RatePolicy(PolicyType.PERCENT, 25, timedelta(seconds=60)),
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalingSpec:
    """The wishes of one queue, checked where they were read (`awa.manifest`) and believed here.

    `concurrency` is the number of jobs that one replica runs at a time. `target_lag` None means
    that the age of waiting jobs has no vote; `fallback_replicas` None means that an unreadable
    queue only holds.
    """

    concurrency: int
    target_jobs_per_replica: int
    target_lag: timedelta | None = None
    min_replicas: int = 1
    max_replicas: int = 10
    activation_threshold: int = 0
    poll_interval: timedelta = timedelta(seconds=10)
    cooldown: timedelta = timedelta(seconds=300)
    tolerance_percent: int = 10
    up: RateRules = UP
    down: RateRules = DOWN
    fallback_replicas: int | None = None
    failure_threshold: int = 6

    @property
    def longest_window(self) -> timedelta:
        """How far back needs are remembered."""
        return max(self.up.window, self.down.window)

    @property
    def longest_period(self) -> timedelta:
        """How far back changes of the replica count are remembered."""
        return max(self.up.longest_period, self.down.longest_period)

    def clamp(self, replicas: int) -> int:
        """Return the allowed count nearest to `replicas`."""
        return max(self.min_replicas, min(replicas, self.max_replicas))
