"""One soak on a cluster: jobs flow, faults come one after the other, the verdict follows."""

import asyncio
import math
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import awa
from awa_operator import labels
from cluster.demo.stage import OPERATOR_NAMESPACE, Stage
from support.kube_soak.faults import FAULTS, OF_API_SERVER, Fault, another_most, noted
from support.kube_soak.scene import IMAGES, OPERATOR, QUEUE, Scene, restarts_of
from support.kube_soak.tally import HANDLERS, Tally, waits
from support.kube_soak.verdict import Ended, Noted, Verdict, judge
from support.waiting import eventually

IN_HAND = 40
AGAIN_LIMIT = timedelta(minutes=4)
END_LIMIT = timedelta(minutes=6)
JOBS = "app.kubernetes.io/component=migration"

type Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Plan:
    """How long a soak takes, how long it rests between faults, and the seed of its chance."""

    seed: int
    seconds: float
    rest_seconds: float = 10.0
    folder: Path | None = None
    """Where to leave what the cluster has at the end."""
    only: tuple[str, ...] = ()
    """Kinds of faults to keep to; all if empty."""


@dataclass
class Report:
    """What a soak has shown."""

    verdict: Verdict
    faults: list[Fault]
    jobs: int
    runs: int
    migrations: int
    rescued: int
    longest_gaps: dict[str, float] = field(default_factory=dict)
    waits: list[float] = field(default_factory=list)
    """For how long each job waited that a lost pod had in hand."""
    observed: tuple[float, ...] = ()
    """How long it took until a changed spec was seen after each fault of the API server."""


async def soak(stage: Stage, plan: Plan, say: Say) -> Report:
    """Run one; the stage is of nobody else."""
    chance = random.Random(plan.seed)  # noqa: S311 - chance, not secrets
    tally = await Tally().open(stage.namespace.cluster.host_address)
    scene = Scene(stage, chance, _images(stage), tally)
    stage.namespace.apply(stage.database.secret("db"))
    await scene.apply()
    await scene.until_ready()
    say("the Queue is ready, jobs flow")
    try:
        async with awa.AsyncClient(stage.database.dsn) as client:
            flow = Flow(client, scene)
            flowing = asyncio.create_task(flow.run())
            faults, stuck = await _suffer(scene, plan, say)
            flow.is_over = True
            await flowing
            unready = await _settle(scene, flow)
            facts = await _note(scene, client, flow, faults, stuck, unready)
            if plan.folder is not None:
                await _keep(scene, plan.folder)
    finally:
        tally.close()
    return _report(facts, faults)


class Flow:
    """Jobs that come in all the time, so that some are always in hand."""

    def __init__(self, client: awa.AsyncClient, scene: Scene) -> None:
        self._client = client
        self._scene = scene
        self._chance = random.Random(scene.chance.random())  # noqa: S311
        self.sure: list[int] = []
        self.is_over = False

    async def run(self) -> None:
        """Enqueue until it is over. An insert without an answer may have been made all the same."""
        while not self.is_over:
            if len(self.sure) - len(self._scene.tally.ended.intersection(self.sure)) >= IN_HAND:
                await asyncio.sleep(0.05)
                continue
            args = {"seconds": self._chance.choice((0.01, 0.05, 0.2, 2.0))}
            if mebibytes := self._scene.mebibytes:
                args["mebibytes"] = mebibytes
            try:
                job = await self._client.insert(args, kind="note", queue=QUEUE)
            except (awa.AwaError, OSError):
                await asyncio.sleep(0.2)
                continue
            self.sure.append(job.id)
            if mebibytes:
                self._scene.large.append(job.id)
                self._scene.mebibytes = 0


async def _suffer(scene: Scene, plan: Plan, say: Say) -> tuple[list[Fault], list[str]]:
    """Let faults happen, each after jobs have begun again since the one before."""
    tally = scene.tally
    loop = asyncio.get_running_loop()
    until, faults, stuck = loop.time() + plan.seconds, list[Fault](), list[str]()
    kinds: list[str] = []
    while loop.time() < until:
        if not kinds:
            kinds = list(plan.only or FAULTS)
            scene.chance.shuffle(kinds)
        kind = kinds.pop()
        async with noted(faults, kind) as fault:
            await FAULTS[kind](scene)
        if kind in OF_API_SERVER:
            await another_most(scene)
            fault.observed_after = await _seconds_until(scene.until_observed())
        before = len(tally.ended)

        def goes_on(before: int = before) -> bool:
            return len(tally.ended) > before + 5 and not any(map(tally.in_hand, scene.lost[-1:]))

        try:
            await eventually(goes_on, AGAIN_LIMIT, what="jobs end again")
        except AssertionError:
            stuck.append(f"{kind}: in {AGAIN_LIMIT} {len(tally.ended) - before} jobs ended")
        began = (run.at for run in tally.runs if run.word == "began" and run.at > fault.over)
        fault.again = next(began, None)
        say(f"{kind}: {fault.over - fault.began:.1f} s, {len(tally.ended)} jobs so far")
        await scene.a_while(0, 2 * plan.rest_seconds)
    return faults, stuck


async def _seconds_until(waiting: Awaitable[None]) -> float:
    """Wait for something and return how long it took; infinity if it did not come."""
    begun = time.monotonic()
    try:
        await waiting
    except AssertionError:
        return math.inf
    return time.monotonic() - begun


async def _settle(scene: Scene, flow: Flow) -> str:
    """Wait until everything has ended; return why the Queue is not ready, if it is not."""

    def all_ended() -> bool:
        return scene.tally.ended.issuperset(flow.sure)

    try:
        await eventually(all_ended, END_LIMIT, what="every job has ended")
        await scene.until_ready()
    except AssertionError as error:
        return f"{error}; Ready: {await scene.condition('Ready')}"
    return ""


async def _note(
    scene: Scene,
    client: awa.AsyncClient,
    flow: Flow,
    faults: list[Fault],
    stuck: list[str],
    unready: str,
) -> Noted:
    async def is_at_rest() -> bool:
        (counts,) = await client.queue_counts(QUEUE)
        return counts.running == counts.available == counts.retryable == 0

    await eventually(is_at_rest, END_LIMIT, what="nothing runs or waits")
    (counts,) = await client.queue_counts(QUEUE)
    known = sorted({*flow.sure, *(run.job for run in scene.tally.runs)})
    jobs = {number: await _ended(client, number) for number in known}
    made = (await scene.patiently(lambda: scene.stage.namespace.get("jobs", "-l", JOBS)))["items"]
    there = sum(restarts_of(pod) for pod in await scene.operators())
    return Noted(
        sure=tuple(flow.sure),
        runs=tuple(scene.tally.runs),
        jobs={number: job for number, job in jobs.items() if job is not None},
        counts={state: getattr(counts, state) for state in ("completed", "failed", "cancelled")},
        migrations=_successes(made),
        overlaps=_overlaps(made),
        operator_restarts=scene.operator_restarts + there,
        stuck=tuple(stuck),
        unready=unready,
        lost=tuple(scene.lost),
        observed=tuple(one.observed_after for one in faults if one.observed_after is not None),
    )


async def _ended(client: awa.AsyncClient, number: int) -> Ended | None:
    try:
        job = await client.get_job(number)
    except awa.JobNotFound:
        return None
    at = job.finalized_at.timestamp() if job.finalized_at else float("inf")
    return Ended(number, str(job.state), job.attempt, job.output, at)


async def _keep(scene: Scene, folder: Path) -> None:
    """Leave objects and the operator's log for whoever looks for a reason."""
    namespace = scene.stage.namespace
    kinds = "queues.awa.dev,jobs,deployments,replicasets,pods,events"
    objects = await scene.patiently(lambda: namespace.kubectl("get", kinds, "-o", "yaml"))
    (folder / "objects.yaml").write_text(objects)
    where = ("logs", "-n", OPERATOR_NAMESPACE, "-l", OPERATOR, "--tail=-1")
    said = await scene.patiently(lambda: namespace.cluster.kubectl(*where))
    (folder / "operator.log").write_text(said)


def _successes(jobs: list[dict[str, Any]]) -> dict[str, int]:
    """Return how many Jobs of each target have succeeded."""
    done = (one for one in jobs if one["status"].get("succeeded"))
    return dict(Counter(one["metadata"]["labels"][labels.TARGET] for one in done))


def _overlaps(jobs: list[dict[str, Any]]) -> int:
    """Return how often a Job began while another one ran."""
    spans = sorted(span for span in map(_span, jobs) if span is not None)
    return sum(later[0] < earlier[1] for earlier, later in pairwise(spans))


def _span(job: dict[str, Any]) -> tuple[datetime, datetime] | None:
    status = job["status"]
    ends = [
        one["lastTransitionTime"]
        for one in status.get("conditions", ())
        if one["type"] in {"Complete", "Failed"} and one["status"] == "True"
    ]
    if "startTime" not in status or not ends:
        return None
    return datetime.fromisoformat(status["startTime"]), datetime.fromisoformat(ends[0])


def _report(facts: Noted, faults: list[Fault]) -> Report:
    gaps: dict[str, float] = {}
    for fault in faults:
        if fault.again is not None:
            gap = fault.again - fault.over
            gaps[fault.kind] = max(gap, gaps.get(fault.kind, 0.0))
    return Report(
        verdict=judge(facts),
        faults=faults,
        jobs=len(facts.jobs),
        runs=sum(run.word == "began" for run in facts.runs),
        migrations=sum(facts.migrations.values()),
        rescued=sum(job.attempt > 1 for job in facts.jobs.values()),
        longest_gaps=gaps,
        waits=[one for lost in facts.lost for one in waits(facts.runs, lost)],
        observed=facts.observed,
    )


def _images(stage: Stage) -> tuple[str, ...]:
    """Make the images of the workers and give them to the cluster."""
    names = []
    for version in range(1, IMAGES + 1):
        name = f"registry.example/soak:{version}"
        files = {"handlers.py": HANDLERS.replace("VERSION", str(version))}
        stage.namespace.cluster.load(stage.images.derive(name, files).archive)
        names.append(name)
    return tuple(names)
