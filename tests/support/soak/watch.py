"""Watching a soak from outside: memory of the processes, and how long nobody began a job."""

import asyncio
import bisect
import statistics
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import psutil

from support.soak.stage import Stage

MEMORY_EVERY_SECONDS = 5.0
LEAST_SAMPLES = 3
"""So many have to be in a tenth of the time."""
LOOK_EVERY_SECONDS = 1.0
WINDOW_SECONDS = 30.0
"""For so long after a fault a pause is put down to it, or until the next one."""
MEBIBYTE = 1024**2


@dataclass(frozen=True)
class Happened:
    """One fault: seconds of the machine's steady clock."""

    name: str
    begun: float
    ended: float
    took_effect: bool = True


@dataclass
class Life:
    """One process: seconds of the machine's steady clock at which it was first and last seen."""

    pid: int
    name: str
    begun: float
    ended: float


@dataclass
class Lives:
    """The life of each process that runs jobs."""

    found: dict[int, Life] = field(default_factory=dict)

    async def watch(self, stage: Stage) -> None:
        """Look for ever."""
        while True:
            self.look(stage)
            await asyncio.sleep(LOOK_EVERY_SECONDS)

    def look(self, stage: Stage) -> None:
        """See who lives now and has come so far as to note its time of day."""
        now = time.monotonic()
        for number, worker in enumerate(stage.workers):
            for pid in worker.pids:
                if not (stage.folder / f"clock.{pid}.journal").exists():
                    continue
                life = self.found.setdefault(pid, Life(pid, f"worker {number}", now, now))
                life.ended = now


@dataclass
class Memory:
    """Samples in MiB, by what they are of."""

    samples: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))

    async def watch(self, stage: Stage) -> None:
        """Take samples for ever."""
        while True:
            await asyncio.sleep(MEMORY_EVERY_SECONDS)
            await asyncio.to_thread(self._sample, stage)

    def figures(self) -> dict[str, dict[str, float]]:
        """Return the first, the last and the largest sample of each."""
        return {
            name: {"start": found[0], "end": found[-1], "most": max(found)}
            for name, found in self.samples.items()
        }

    def growth(self) -> float | None:
        """Return how many MiB the steady worker has grown by since it was warm.

        That is from the second tenth of the time to the last; None where that is too short.
        """
        found = self.samples["steady worker"]
        tenth = len(found) // 10
        if tenth < LEAST_SAMPLES:
            return None
        return statistics.median(found[-tenth:]) - statistics.median(found[tenth : 2 * tenth])

    def _sample(self, stage: Stage) -> None:
        others = []
        for worker in stage.workers:
            found = [size for pid in worker.pids for size in _resident(pid)]
            if worker.is_steady and found:
                self.samples["steady worker"].append(round(max(found), 1))
            else:
                others += found
        if others:
            self.samples["largest other worker"].append(round(max(others), 1))
        try:
            server = sum(_proportional(stage.server.pid))
        except FileNotFoundError:
            return
        if server:
            self.samples["server"].append(round(server, 1))


def _resident(pid: int) -> Iterator[float]:
    try:
        yield psutil.Process(pid).memory_info().rss / MEBIBYTE
    except psutil.Error:
        return


def _proportional(pid: int) -> Iterator[float]:
    """Yield each process's share of memory: pages that several have count once."""
    try:
        parent = psutil.Process(pid)
        family = [parent, *parent.children(recursive=True)]
    except psutil.Error:
        return
    for process in family:
        try:
            yield process.memory_full_info().pss / MEBIBYTE
        except psutil.Error:
            continue


@dataclass(frozen=True)
class Pause:
    """What followed a fault: the longest time in which no job began, and when the next one did."""

    fault: Happened
    seconds: float
    back_after: float | None


def pauses(faults: list[Happened], begins: list[float], until: float) -> list[Pause]:
    """Return what followed each fault; `begins` are the sorted times at which jobs began."""
    found = []
    for number, fault in enumerate(faults):
        following = faults[number + 1].begun if number + 1 < len(faults) else until
        end = max(fault.ended, min(following, fault.ended + WINDOW_SECONDS))
        first, last = bisect.bisect_left(begins, fault.begun), bisect.bisect_right(begins, end)
        before = begins[first - 1] if first else fault.begun
        after = begins[last] if last < len(begins) else end
        times = [before, *begins[first:last], after]
        longest = max(b - a for a, b in pairwise(times))
        next_one = bisect.bisect_left(begins, fault.ended)
        back = begins[next_one] - fault.ended if next_one < len(begins) else None
        found.append(Pause(fault, round(longest, 2), None if back is None else round(back, 2)))
    return found


def summary(found: list[Pause]) -> dict[str, dict[str, Any]]:
    """Return figures by kind of fault."""
    kinds: dict[str, list[Pause]] = defaultdict(list)
    for pause in found:
        kinds[pause.fault.name].append(pause)
    return {
        name: {
            "times": len(of_kind),
            "took_effect": sum(pause.fault.took_effect for pause in of_kind),
            "longest_gap_seconds": max(pause.seconds for pause in of_kind),
            "median_gap_seconds": round(statistics.median(p.seconds for p in of_kind), 2),
        }
        for name, of_kind in sorted(kinds.items())
    }
