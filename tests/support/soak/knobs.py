"""The knobs of the soak's workers: everything that takes minutes elsewhere takes moments."""

from datetime import timedelta

import awa
from support.soak.jobs import QUEUES

LONGEST_RETENTION_SECONDS = 60.0
PLACES = 100


def retention(seconds: float) -> float:
    """Return for how many seconds completed jobs are kept in a soak of some length."""
    return min(LONGEST_RETENTION_SECONDS, max(6.0, seconds / 3))


def knobs(seconds: float) -> dict[str, float]:
    """Return durations in seconds."""
    return {
        "heartbeat_interval": 0.5, "heartbeat_staleness": 1.5,
        "rescue_interval": 0.3, "deadline_interval": 0.3, "cleanup_interval": 0.3,
        "promote_interval": 0.1, "leader_lease": 1.0, "leader_check_interval": 0.3,
        "rotate_interval": retention(seconds) / 12, "completed_retention": retention(seconds),
        "evacuate_after": 2.0, "drain_timeout": 5.0,
    }  # fmt: skip


def settings(seconds: float) -> awa.WorkerSettings:
    """Return the settings of a worker inside of another program."""
    return awa.WorkerSettings(
        queues=tuple(
            awa.QueueSettings(
                name=name, max_workers=PLACES, deadline=timedelta(seconds=3),
                priority_aging_interval=timedelta(seconds=1),
            )
            for name in QUEUES
        ),
        **{name: timedelta(seconds=value) for name, value in knobs(seconds).items()},  # type: ignore[arg-type]
    )  # fmt: skip


def environment(seconds: float) -> dict[str, str]:
    """Return the same for the command, as far as variables can say it: deadlines are as usual."""
    return {
        **{f"AWA_{name.upper()}_SECONDS": str(value) for name, value in knobs(seconds).items()},
        "AWA_QUEUES": ",".join(f"{name}:{PLACES}" for name in QUEUES),
        "AWA_WORKER_NAME": "soak",
        "AWA_HEALTH_ADDRESS": "127.0.0.1:0",
    }
