"""The queue of this repository as a contender."""

import sys

from bench.contender import Contender


def ours() -> Contender:
    """Return our own driver with the settings that it is measured with."""
    return Contender(
        name="awa",
        command=(sys.executable, "-m", "bench.driver"),
        options={"max_connections": 10, "queue": {"max_workers": 1024}},
        batch=10_000,
    )
