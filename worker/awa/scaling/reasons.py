"""Why a decision is what it is: the words of status, events and metrics."""

from enum import StrEnum


class Reason(StrEnum):
    """Why the planner wants another replica count than the current one, or the same."""

    BACKLOG = "Backlog"
    """Waiting and running jobs need more replicas (depth)."""
    LAG = "Lag"
    """The oldest claimable job is older than the target."""
    LAG_NEAR_TARGET = "LagNearTarget"
    """Fewer would do by depth, but the lag is above half its target: hold."""
    WORK_IN_HAND = "WorkInHand"
    """Running jobs alone need this many replicas."""
    ACTIVATION = "Activation"
    """At zero, and work above the activation threshold is there or due."""
    LESS_WORK = "LessWork"
    """Fewer replicas are enough."""
    IDLE = "Idle"
    """Nothing waits, is due or runs."""
    STEADY = "Steady"
    """The current count is what is needed."""
    METRICS_UNAVAILABLE = "MetricsUnavailable"
    """The queue could not be read: hold."""
    FALLBACK = "Fallback"
    """The queue could not be read for long: rise to the fallback."""


class Limit(StrEnum):
    """What keeps the decided count from being the wanted one."""

    MIN_REPLICAS = "MinReplicas"
    MAX_REPLICAS = "MaxReplicas"
    TOLERANCE = "Tolerance"
    UP_WINDOW = "ScaleUpWindow"
    UP_RATE = "ScaleUpRate"
    DOWN_WINDOW = "ScaleDownWindow"
    DOWN_RATE = "ScaleDownRate"
    COOLDOWN = "Cooldown"
    """The last replica stays until the queue was idle for the whole cooldown."""
    PENDING_REPLICAS = "PendingReplicas"
    """Growth by lag waits for the replicas added last."""
    ACTIVATION_THRESHOLD = "ActivationThreshold"
    """At zero, with work that is not above the threshold."""
