"""`spec.scaling`: how many replicas, decided by whom and by what."""

from typing import Annotated, Literal

from pydantic import Field

from awa.manifest.part import Part, Rule
from awa.manifest.values import Int

MAX_REPLICAS = 1000

Seconds = Annotated[Int, Field(ge=0, le=86400)]
Replicas = Annotated[Int, Field(ge=0, le=MAX_REPLICAS)]
Window = Annotated[Int, Field(ge=0, le=3600)]


class Policy(Part):
    """One limit on the rate of change."""

    type: Literal["Pods", "Percent"]
    """Whether `value` counts replicas or per cent of the count at the period's start."""
    value: Annotated[Int, Field(ge=1, le=MAX_REPLICAS)]
    """The most that the count may change in a period."""
    period_seconds: Annotated[Int, Field(ge=1, le=1800)]
    """Length of the period."""


Policies = Annotated[tuple[Policy, ...], Field(max_length=8)]
Select = Literal["Max", "Min", "Disabled"]

_POLICIES = Rule(
    cel="self.selectPolicy == 'Disabled' || size(self.policies) > 0",
    message="needs at least one policy; leave it out for the default, "
    "or set selectPolicy to Disabled to forbid the change",
    field="policies",
    holds=lambda rules: rules.select_policy == "Disabled" or bool(rules.policies),
)


def _policy(kind: str, value: int, period_seconds: int) -> Policy:
    return Policy.model_validate({"type": kind, "value": value, "periodSeconds": period_seconds})


class ScaleUp(Part):
    """How fast the count may rise."""

    stabilization_window_seconds: Window = 0
    """How long a need must last: the smallest need of this time is followed."""
    policies: Policies = (
        _policy("Pods", 4, 15),
        _policy("Percent", 100, 15),
    )
    """Limits on the rate."""
    select_policy: Select = "Max"
    """`Max`: the policy that allows most counts. `Min`: the one that allows least. `Disabled`: the
    count never rises, but for waking from zero."""

    RULES = (_POLICIES,)


class ScaleDown(Part):
    """How fast the count may fall."""

    stabilization_window_seconds: Window = 300
    """How long a need is remembered: the largest need of this time is followed."""
    policies: Policies = (
        _policy("Pods", 1, 60),
        _policy("Percent", 25, 60),
    )
    """Limits on the rate."""
    select_policy: Select = "Max"
    """`Max`: the policy that allows most counts. `Min`: the one that allows least. `Disabled`: the
    count never falls."""

    RULES = (_POLICIES,)


class Behavior(Part):
    """How fast the count may move, as in a HorizontalPodAutoscaler."""

    scale_up: ScaleUp = ScaleUp()
    """The way up."""
    scale_down: ScaleDown = ScaleDown()
    """The way down."""


class Fallback(Part):
    """What to do when the queue cannot be read for long."""

    failure_threshold: Annotated[Int, Field(ge=1, le=1000)] = 6
    """Failed looks in a row before the fallback counts."""
    replicas: Replicas | None = None
    """Rise to this many replicas, never fall to them; without it the count is only held."""


class Scaling(Part):
    """Who decides the replica count, within which bounds, by which targets."""

    mode: Literal["Fixed", "Native", "External"] = "Fixed"
    """`Fixed`: `spec.replicas` counts. `Native`: Awa scales by depth and lag. `External`: another
    scaler writes `spec.replicas` through the scale subresource."""
    min_replicas: Replicas = 1
    """The fewest replicas in mode `Native`; 0 lets an idle queue go to zero."""
    max_replicas: Replicas = 10
    """The most replicas in mode `Native`."""
    target_jobs_per_replica: Annotated[Int, Field(ge=1, le=1000000)] | None = None
    """Ready and running jobs per replica; `worker.concurrency` if not set."""
    target_lag_seconds: Annotated[Int, Field(ge=1, le=86400)] | None = None
    """How old the oldest claimable job may become; its age has no vote if not set."""
    activation_threshold: Annotated[Int, Field(ge=0, le=1000000)] = 0
    """More work than this wakes a queue from zero."""
    poll_interval_seconds: Annotated[Int, Field(ge=1, le=300)] = 10
    """Time between two looks at the queue."""
    cooldown_seconds: Seconds = 300
    """How long a queue must be idle before its last replica goes."""
    tolerance_percent: Annotated[Int, Field(ge=0, le=50)] = 10
    """Differences up to this part of the current count change nothing."""
    behavior: Behavior = Behavior()
    """How fast the count may move."""
    fallback: Fallback = Fallback()
    """What to do when the queue cannot be read for long."""

    RULES = (
        Rule(
            cel="self.minReplicas <= self.maxReplicas",
            message="must be at most maxReplicas",
            field="minReplicas",
            holds=lambda scaling: scaling.min_replicas <= scaling.max_replicas,
        ),
        Rule(
            cel="self.mode != 'Native' || has(self.targetJobsPerReplica) || "
            "has(self.targetLagSeconds)",
            message="Native needs a target: set targetJobsPerReplica, targetLagSeconds or both",
            field="mode",
            holds=lambda scaling: (
                scaling.mode != "Native"
                or scaling.target_jobs_per_replica is not None
                or scaling.target_lag_seconds is not None
            ),
        ),
        Rule(
            cel="!has(self.fallback) || !has(self.fallback.replicas) || "
            "self.fallback.replicas <= self.maxReplicas",
            message="must be at most maxReplicas",
            field="fallback.replicas",
            holds=lambda scaling: (scaling.fallback.replicas or 0) <= scaling.max_replicas,
        ),
    )
