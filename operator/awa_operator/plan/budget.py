"""Whether the database takes the connections of all workers that there may be."""

from awa.manifest import ConditionType, Queue
from awa_operator.conditions import find_condition
from awa_operator.observed import Observed
from awa_operator.plan import group

POOL = 10
"""Pooled connections of a worker process, unless AWA_MAX_CONNECTIONS says otherwise."""
OWN = 3
"""Connections of a worker process beside its pool: listening, heartbeats, leadership."""
SUPERVISOR = 1
BEGIN = "All workers of this database at their most take"
RESERVE = 5
"""For the operator, a migration, and a person who looks what is wrong."""


def budget_warning(observed: Observed) -> str | None:
    """Return a sentence when workers at their most need more connections than there are."""
    limit = observed.database.max_connections if observed.database is not None else None
    if limit is None:
        return _said_before(observed)
    needed = sum(most_connections(queue) for queue in group.members(observed)) + RESERVE
    if needed <= limit:
        return None
    return (
        f"{BEGIN} {needed} connections, {RESERVE} kept "
        f"free; the server allows {limit}: lower maxReplicas or AWA_MAX_CONNECTIONS, or raise "
        "max_connections"
    )


def _said_before(observed: Observed) -> str | None:
    """Return what was said before a restart or an outage, until the next probe."""
    before = find_condition(observed.status, ConditionType.SCALING_ACTIVE)
    if before is None or BEGIN not in before.message:
        return None
    return before.message[before.message.index(BEGIN) :]


def most_connections(queue: Queue) -> int:
    """Return the connections that a Queue's workers may take, those of a rollout included."""
    processes = _number(queue, "AWA_PROCESSES", 1)
    pool = _number(queue, "AWA_MAX_CONNECTIONS", POOL)
    return most_workers(queue) * (processes * (pool + OWN) + SUPERVISOR)


def most_workers(queue: Queue) -> int:
    """Return how many workers there may be at once, surge included."""
    scaling, surge = queue.spec.scaling, queue.spec.rollout.max_surge
    if queue.spec.suspend:
        return 0
    most = scaling.max_replicas if scaling.mode == "Native" else queue.first_replicas
    extra = -(-most * int(surge[:-1]) // 100) if isinstance(surge, str) else int(surge)
    return most + extra if most else 0


def _number(queue: Queue, name: str, default: int) -> int:
    values = (one.value for one in queue.spec.worker.env if one.name == name)
    value = next(values, None)
    return int(value) if value is not None and value.isdecimal() else default
