"""The plan of a benchmark: which runs, in which order, and what happens to their samples."""

import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

import asyncpg

from bench.cluster import Cluster
from bench.contender import Contender, DriverError, Facts
from bench.databases import RUN_DATABASE, Databases
from bench.meter import Meter, wait_for_quiet
from bench.record import Sample
from bench.scenario import SCENARIOS, Bench, Case, Sizes
from bench.ticks import OutOfTimeError


@dataclass(frozen=True, slots=True)
class Plan:
    """What to measure, how often, and how much of it.

    Before each run others on the machine get `quiet_wait_seconds` to finish what they do.
    """

    scenarios: tuple[str, ...]
    contenders: tuple[Contender, ...]
    repetitions: int
    sizes: Sizes
    quiet_wait_seconds: float = 0.0

    def steps(self) -> Iterator["Step"]:
        """Yield the runs interleaved: every repetition visits every contender of every case."""
        for scenario in self.scenarios:
            for repetition in range(1, self.repetitions + 1):
                for case in SCENARIOS[scenario]:
                    for contender in self.contenders:
                        yield Step(scenario, case, contender, repetition)


@dataclass(frozen=True, slots=True)
class Step:
    """One run of the plan."""

    scenario: str
    case: Case
    contender: Contender
    repetition: int

    def __str__(self) -> str:
        return f"{self.scenario} #{self.repetition} {self.case.name} {self.contender.name}"


@dataclass(frozen=True, slots=True)
class Failure:
    """A run that gave no sample, and why."""

    step: Step
    reason: str

    def as_json(self) -> dict[str, object]:
        return {"record": "failure", "run": str(self.step), "reason": self.reason}


async def carry_out(plan: Plan, cluster: Cluster) -> AsyncIterator[Sample | Failure]:
    """Do every step of the plan; a run that fails does not end the others."""
    async with AsyncExitStack() as stack:
        control = await asyncpg.connect(cluster.dsn("postgres"))
        stack.push_async_callback(control.close)
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="awa-bench-runs-")))
        databases = Databases(cluster, control, folder)
        facts = {each.name: await databases.describe(each) for each in plan.contenders}
        meter = Meter(control, cluster.pid)
        for step in plan.steps():
            await wait_for_quiet(plan.quiet_wait_seconds)
            try:
                yield await _carry_out(step, plan.sizes, databases, meter, facts)
            except (DriverError, OutOfTimeError, OSError, asyncpg.PostgresError) as problem:
                yield Failure(step, str(problem))


async def _carry_out(
    step: Step, sizes: Sizes, databases: Databases, meter: Meter, facts: Mapping[str, Facts]
) -> Sample:
    future_jobs = sizes.future_jobs if step.case.future else 0
    known = facts[step.contender.name]
    async with databases.fresh(step.contender, future_jobs) as run:
        bench = Bench(meter, run, known, RUN_DATABASE, sizes)
        figures, foreign = await step.case.measure(bench)
    return Sample(
        step.scenario, step.case.name, step.contender.name, known.version,
        step.repetition, round(foreign, 3), figures,
    )  # fmt: skip
