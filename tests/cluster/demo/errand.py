"""The demo's jobs, what became of them, and how the workers followed."""

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import awa
from cluster.errors import ClusterError
from cluster.handle import Namespace

QUEUE = "thumbnails"
KIND = "thumbnail"
PATIENCE = timedelta(minutes=10)
LOOK_SECONDS = 0.5
AT_ONCE = 50
FACTS = ("width", "height", "bytes", "digest", "format")


@dataclass(slots=True)
class Seen:
    """How jobs and workers stood at a moment. Times are seconds since the jobs were enqueued."""

    at: float
    waiting: int
    running: int
    ended: int
    wanted: int
    ready: int


@dataclass(slots=True)
class Story:
    """What was seen of the whole."""

    seen: list[Seen] = field(default_factory=list)
    drained_at: float = 0.0
    zero_at: float = 0.0

    @property
    def most_workers(self) -> int:
        """The most workers that were ready at once."""
        return max((one.ready for one in self.seen), default=0)

    @property
    def woke_at(self) -> float | None:
        """When a worker was wanted first."""
        return next((one.at for one in self.seen if one.wanted > 0), None)

    @property
    def ready_at(self) -> float | None:
        """When a worker was ready first."""
        return next((one.at for one in self.seen if one.ready > 0), None)


async def enqueue(
    client: awa.AsyncClient, pictures: list[dict[str, Any]], count: int
) -> dict[int, dict[str, Any]]:
    """Enqueue jobs, the pictures over and over; return the picture of each job's id."""
    chosen = [pictures[number % len(pictures)] for number in range(count)]
    args = [{"path": picture["path"], "into": None} for picture in chosen]
    jobs = await client.insert_many(args, kind=KIND, queue=QUEUE)
    return {job.id: picture for job, picture in zip(jobs, chosen, strict=True)}


async def follow(
    client: awa.AsyncClient, namespace: Namespace, total: int, tell: Callable[[Seen], None]
) -> Story:
    """Watch until all jobs have ended and no worker is left. Raises ClusterError when it stalls."""
    story, started = Story(), time.monotonic()
    moved_at, last = started, None
    while True:
        seen = await _look(client, namespace, time.monotonic() - started)
        story.seen.append(seen)
        tell(seen)
        state = (seen.ended, seen.wanted, seen.ready)
        if state != last:
            moved_at, last = time.monotonic(), state
        if seen.ended >= total and not story.drained_at:
            story.drained_at = seen.at
        if story.drained_at and seen.wanted == seen.ready == 0:
            story.zero_at = seen.at
            return story
        if time.monotonic() - moved_at > PATIENCE.total_seconds():
            raise ClusterError(f"nothing has moved for {PATIENCE}: {seen}")
        await asyncio.sleep(LOOK_SECONDS)


async def _look(client: awa.AsyncClient, namespace: Namespace, at: float) -> Seen:
    found = await asyncio.to_thread(namespace.get, "deployments", "-l", f"awa.dev/queue={QUEUE}")
    workers = [(one["spec"], one.get("status", {})) for one in found["items"]]
    waiting = running = ended = 0
    for counts in await client.queue_counts(QUEUE):
        waiting = counts.available + counts.retryable
        running = counts.running
        ended = counts.completed + counts.failed + counts.cancelled
    return Seen(
        at, waiting, running, ended,
        wanted=sum(spec.get("replicas", 0) for spec, _ in workers),
        ready=sum(status.get("readyReplicas", 0) for _, status in workers),
    )  # fmt: skip


@dataclass(slots=True)
class Verdict:
    """What became of the jobs. `wrong` has a line for each that did not end as it must."""

    completed: int = 0
    failed: int = 0
    wrong: list[str] = field(default_factory=list)


async def judge(client: awa.AsyncClient, jobs: Mapping[int, dict[str, Any]]) -> Verdict:
    """Compare every job's end and output with what is true of its picture."""
    verdict, gate = Verdict(), asyncio.Semaphore(AT_ONCE)

    async def look(job_id: int, picture: dict[str, Any]) -> None:
        async with gate:
            job = await client.get_job(job_id)
        if picture["damage"] is not None:
            verdict.failed += 1
            if job.state != awa.JobState.Failed:
                verdict.wrong.append(f"job {job_id}: {job.state}, of a damaged picture")
            return
        verdict.completed += 1
        expected = {name: picture[name] for name in FACTS}
        if job.state != awa.JobState.Completed or job.output != expected:
            verdict.wrong.append(f"job {job_id}: {job.state}, output {job.output}")

    async with asyncio.TaskGroup() as group:
        for job_id, picture in jobs.items():
            group.create_task(look(job_id, picture))
    return verdict
