"""Running a soak: start everything, break everything, wait until it is quiet, judge."""

import asyncio
import bisect
import json
import math
import random
import time
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from support.soak.course import Course, judge_course
from support.soak.faults import LASTING, NETWORK_ERRORS, Fault, possible_faults
from support.soak.handlers import KNOWS_RARE, STEADY
from support.soak.knobs import retention
from support.soak.observe import Observer, read_observed
from support.soak.report import as_text, figures, verdicts
from support.soak.stage import COMMAND, Member, Stage
from support.soak.stories import read_begins, read_stories
from support.soak.verdict import gather, judge
from support.soak.watch import Happened, Lives, Memory, pauses, summary
from support.waiting import eventually

QUIET_LIMIT_SECONDS = 120.0
"""For so long nothing may end at the end, once nobody produces and nothing is broken any more."""
EFFECT_LIMIT_SECONDS = 600.0
"""For so long after the planned end those kinds of faults are tried that took no effect yet."""
FAULT_LIMIT_SECONDS = 300.0
START_LIMIT = timedelta(seconds=600)


@dataclass(frozen=True)
class Plan:
    """What to run. It ends after `seconds`, or after so many jobs.

    A kind of fault that has taken no effect by then is tried until it does, for some minutes.
    `rate` is jobs a second over all producers, `fault_every` the seconds between faults on average.
    """

    seed: int
    seconds: float
    jobs: int = 10**9
    workers: int = 3
    producers: int = 2
    fault_every: float = 2.0
    rate: float = 500.0
    only: tuple[str, ...] = ()


class Soak:
    """One soak on one server of its own."""

    def __init__(self, plan: Plan, folder: Path, binaries: Path) -> None:
        self.plan = plan
        self.folder = folder
        self.stage = Stage(folder, binaries, retention(plan.seconds))
        self.faults: list[Happened] = []
        self.left_out: dict[str, str] = {}
        self.memory = Memory()
        self.lives = Lives()
        self.observer = Observer(folder, self.stage.retention_seconds)
        self._chance = random.Random(plan.seed)  # noqa: S311 - chance, not secrets
        self._deck: list[Fault] = []
        self._lasting: list[asyncio.Task[None]] = []
        self._begun = time.monotonic()

    async def run(self) -> dict[str, Any]:
        """Run it and return the verdict: `broken` is empty when every promise was kept."""
        try:
            await self.stage.set_up()
            await self._start()
            watching = [
                asyncio.create_task(watcher.watch(self.stage))
                for watcher in (self.memory, self.lives, self.observer)
            ]
            await self._break_things()
            produced_until = time.monotonic()
            await asyncio.gather(*self._lasting)
            await self._wind_down()
            for task in watching:
                task.cancel()
            return await self._verdict(produced_until)
        finally:
            await self.stage.tear_down()

    async def _start(self) -> None:
        stage, plan = self.stage, self.plan
        for number in range(plan.workers):
            environment = {} if number else {STEADY: "1"}
            if number == min(1, plan.workers - 1):
                environment[KNOWS_RARE] = "1"
            is_command = 0 < number == plan.workers - 1
            # The second worker and all producers but the first pass through a pooler.
            proxy = stage.proxy_to_pool() if number == 1 and not is_command else stage.proxy()
            module = COMMAND if is_command else "work"
            stage.workers.append(Member(module, (plan.seconds,), proxy, environment))
        for number in range(plan.producers):
            arguments = (
                f"p{plan.seed}.{number}", plan.rate / plan.producers, plan.jobs // plan.producers,
            )  # fmt: skip
            proxy = stage.proxy_to_pool() if number else stage.proxy()
            stage.producers.append(Member("produce", arguments, proxy, may_end=True))
        stage.manager = Member("manage", (plan.seed,), stage.proxy())
        for member in stage.members:
            await stage.start(member)
        stage.keep_up()
        await eventually(self._all_work, START_LIMIT)
        self._begun = time.monotonic()

    async def _all_work(self) -> bool:
        async with self.stage.session() as session:
            workers = await session.fetchval("select count(*) from awa.runtime_instances")
            ended = await session.fetchval("select sum(completed) from awa.queue_counts_v1()")
        return bool(workers >= self.plan.workers and ended)

    async def _break_things(self) -> None:
        self.stage.until = end = self._begun + self.plan.seconds
        while any(producer.is_running for producer in self.stage.producers):
            late = time.monotonic() - end
            if late > 0:
                await asyncio.gather(*self._lasting)
            if late > 0 and (not self._missing() or late > EFFECT_LIMIT_SECONDS):
                tried = {fault.name for fault in self.faults}
                untried = {fault.__name__ for fault in self._missing()} - tried
                self.left_out |= dict.fromkeys(untried, "there was no time for it")
                return
            await asyncio.sleep(self._chance.random() * 2 * self.plan.fault_every)
            fault = self._draw() if late < 0 else self._chance.choice(self._missing())
            chance = random.Random(self._chance.random())  # noqa: S311 - chance, not secrets
            if fault in LASTING and late < 0:
                self._lasting.append(asyncio.create_task(self._suffer(fault, chance)))
            else:
                await self._suffer(fault, chance)

    async def _suffer(self, fault: Fault, chance: random.Random) -> None:
        """Let a fault happen, and note it."""
        begun, took_effect = time.monotonic(), False
        try:
            async with asyncio.timeout(FAULT_LIMIT_SECONDS):
                took_effect = await fault(self.stage, chance)
        except NETWORK_ERRORS as error:
            self.stage.counts[f"{fault.__name__}: {type(error).__name__}"] += 1
        happened = Happened(fault.__name__, begun, time.monotonic(), took_effect=took_effect)
        bisect.insort(self.faults, happened, key=lambda fault: fault.begun)

    def _missing(self) -> list[Fault]:
        """Return each kind that has taken no effect yet."""
        done = {fault.name for fault in self.faults if fault.took_effect}
        possible, _ = possible_faults(self.stage, self.plan.only)
        return [fault for fault in dict.fromkeys(possible) if fault.__name__ not in done]

    def _draw(self) -> Fault:
        """Draw from a shuffled deck, so that every kind comes before one comes again."""
        if not self._deck:
            self._deck, self.left_out = possible_faults(self.stage, self.plan.only)
            self._chance.shuffle(self._deck)
        return self._deck.pop()

    async def _wind_down(self) -> None:
        stage = self.stage
        await stage.let_be([*stage.producers, *filter(None, [stage.manager])])
        await self._until_quiet()
        await stage.let_be(stage.workers)
        await stage.look_at_statistics()

    async def _until_quiet(self) -> None:
        least = math.inf
        limit = time.monotonic() + QUIET_LIMIT_SECONDS
        while time.monotonic() < limit:
            with suppress(*NETWORK_ERRORS):
                async with self.stage.session() as session:
                    left = await session.fetchval(
                        "select sum(scheduled + available + running + retryable)"
                        " from awa.queue_counts_v1()"
                    )
                if not left:
                    return
                if left < least:
                    least, limit = left, time.monotonic() + QUIET_LIMIT_SECONDS
            await asyncio.sleep(0.3)

    async def _verdict(self, produced_until: float) -> dict[str, Any]:
        stories = await asyncio.to_thread(read_stories, self.folder)
        observed = await asyncio.to_thread(lambda: list(read_observed(self.folder)))
        evidence = await gather(self.stage.dsn, stories, observed)
        begins = sorted(run.began_at for story in stories.values() for run in story.runs)
        followed = pauses(self.faults, begins, produced_until)
        course = Course(
            followed, produced_until, len(self.stage.members), list(self.lives.found.values()),
            await asyncio.to_thread(read_begins, self.folder), self.stage.worst_updates,
            self.stage.counts, self.left_out, self.memory.growth(),
        )  # fmt: skip
        promises = [*judge(evidence), *judge_course(course)]
        found = verdicts(promises, self.folder, self.faults, self._begun)
        return {
            "broken": [v.text for promise in promises for v in promise.violations],
            "seed": self.plan.seed, "seconds": time.monotonic() - self._begun,
            "figures": figures(evidence), "faults": summary(followed), "left_out": self.left_out,
            "counts": dict(sorted(self.stage.counts.items())), "memory": self.memory.figures(),
            "promises": found, "timeline": self._timeline(),
        }  # fmt: skip

    def _timeline(self) -> list[str]:
        return [
            f"{fault.begun - self._begun:.1f} to {fault.ended - self._begun:.1f} {fault.name}"
            f"{'' if fault.took_effect else ', without effect'}"
            for fault in self.faults
        ]


async def soak(plan: Plan, folder: Path, binaries: Path) -> dict[str, Any]:
    """Run a soak; the folder keeps journals, logs and the verdict."""
    await asyncio.to_thread(folder.chmod, 0o755)
    verdict = await Soak(plan, folder, binaries).run()
    await asyncio.to_thread((folder / "verdict.json").write_text, json.dumps(verdict, indent=1))
    text = "".join(f"{line}\n" for line in as_text(verdict))
    await asyncio.to_thread((folder / "verdict.txt").write_text, text)
    return verdict
