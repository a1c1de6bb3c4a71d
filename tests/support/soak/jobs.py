"""The jobs of the soak: what each is told to do, and what must become of it."""

import random
from dataclasses import dataclass

QUEUES = ("alpha", "beta")
RARE_SHARE = 0.2
"""Of what is enqueued, so much is of a kind that only one worker knows."""

# mode: share, the state that the job must end in
MODES: dict[str, tuple[float, str]] = {
    "ok": (800, "completed"),
    "slow": (40, "completed"),
    "thread": (40, "completed"),
    "fail_once": (40, "completed"),
    "snooze": (20, "completed"),
    "retry_after": (20, "completed"),
    "crash": (0.5, "completed"),
    "block": (0.5, "completed"),
    "hang": (2, "completed"),
    "fail": (20, "failed"),
    "terminal": (20, "failed"),
    "cancel": (20, "cancelled"),
}
ALONE = {"crash", "block", "hang"}
"""What would break everything if a whole batch did it."""


@dataclass(frozen=True)
class Soak:
    """Args of a job."""

    key: str
    mode: str


@dataclass(frozen=True)
class Plain(Soak):
    """Args of a job whose handler is a plain function, which runs in a thread."""


@dataclass(frozen=True)
class Rare(Soak):
    """Args of a job that most workers do not know: they hand it back, or pass it over."""


def make_job(key: str, mode: str, *, is_rare: bool) -> Soak:
    """Return the args of a job that does what its mode says."""
    if mode == "thread":
        return Plain(key, mode)
    return Rare(key, mode) if is_rare else Soak(key, mode)


def draw_mode(chance: random.Random, *, alone: bool) -> str:
    """Draw what a job does, or all jobs of a batch do."""
    modes = [mode for mode in MODES if alone or mode not in ALONE]
    return chance.choices(modes, [MODES[mode][0] for mode in modes])[0]


def expected_state(mode: str) -> str:
    """Return the state that a job of a mode must end in when nobody interferes."""
    return MODES[mode][1]


def max_attempts(mode: str) -> int:
    """Return how often a job may be tried: few where it fails each time."""
    return 2 if mode == "fail" else 25
