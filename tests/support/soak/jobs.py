"""The jobs of the soak: what each is told to do, and what must become of it."""

import random
from dataclasses import dataclass

QUEUES = ("alpha", "beta")

# mode: share, the state that the job must end in
MODES = {
    "ok": (800, "completed"),
    "slow": (40, "completed"),
    "fail_once": (40, "completed"),
    "snooze": (20, "completed"),
    "retry_after": (20, "completed"),
    "crash": (4, "completed"),
    "hang": (4, "completed"),
    "fail": (20, "failed"),
    "terminal": (20, "failed"),
    "cancel": (20, "cancelled"),
}


@dataclass(frozen=True)
class Soak:
    """Args of a job."""

    key: str
    mode: str


def draw_mode(chance: random.Random) -> str:
    """Draw what a job does."""
    return chance.choices(list(MODES), [share for share, _ in MODES.values()])[0]


def expected_state(mode: str) -> str:
    """Return the state that a job of a mode must end in."""
    return MODES[mode][1]


def max_attempts(mode: str) -> int:
    """Return how often a job may be tried: few where it fails each time."""
    return 2 if mode == "fail" else 25
