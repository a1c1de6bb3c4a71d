"""`python -m cluster.demo`: from nothing to outputs on a real Kubernetes, and back to nothing."""

import argparse
import asyncio
import signal
import sys
import time
from datetime import datetime, timedelta

import awa
from cluster.demo.errand import QUEUE, Seen, Story, Verdict, enqueue, follow, judge
from cluster.demo.screen import Screen
from cluster.demo.stage import Stage, manifest, set_up
from cluster.errors import ClusterError
from cluster.source import newest

JOBS = 3000
READY_LIMIT = timedelta(minutes=3)


def main() -> int:
    """Run the demo; 0 when every job ended as it must and no worker was left."""
    parser = argparse.ArgumentParser(prog="make demo-kube", description=__doc__)
    parser.add_argument("--jobs", type=int, default=JOBS, help=f"how many jobs ({JOBS})")
    parser.add_argument(
        "--kubernetes", default=newest(), metavar="MINOR", help=f"Kubernetes minor ({newest()})"
    )
    options = parser.parse_args()
    screen = Screen()
    # To be stopped is to be interrupted: everything is removed on the way out.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with set_up(screen, options.kubernetes) as stage:
            wrong = _perform(screen, stage, options.jobs)
    except ClusterError as error:
        screen.console.print(f"demo-kube: {error}", style="red", markup=False)
        return 1
    except KeyboardInterrupt:
        screen.console.print("Interrupted.")
        return 130
    return int(bool(wrong))


def _perform(screen: Screen, stage: Stage, count: int) -> list[str]:
    namespace = stage.namespace
    with screen.step("pictures of the example's image listed"):
        pictures = stage.pictures()
    with screen.step("queue.yaml applied, schema migrated by a Job, Queue Ready"):
        namespace.apply(stage.database.secret(f"{QUEUE}-db"))
        namespace.kubectl("apply", "-f", manifest())
        namespace.wait(f"queue/{QUEUE}", "condition=Ready", READY_LIMIT)
    migrations = namespace.get("jobs", "-l", "app.kubernetes.io/component=migration")["items"]
    story, verdict = asyncio.run(_work(screen, stage, pictures, count))
    _report(screen, stage, story, verdict, migrations)
    return verdict.wrong


async def _work(
    screen: Screen, stage: Stage, pictures: list[dict[str, object]], count: int
) -> tuple[Story, Verdict]:
    async with awa.AsyncClient(stage.database.dsn) as client:
        with screen.step(f"{count} jobs enqueued"):
            jobs = await enqueue(client, pictures, count)
        started, last = time.monotonic(), (-1, -1)

        def tell(seen: Seen) -> None:
            nonlocal last
            screen.now(
                f"{seen.ended}/{count} ended, {seen.running} running, {seen.waiting} waiting;"
                f" workers {seen.ready} ready of {seen.wanted}"
            )
            if (seen.wanted, seen.ready) != last:
                last = (seen.wanted, seen.ready)
                screen.say(f"{seen.at:6.1f} s: {seen.wanted} workers wanted, {seen.ready} ready")

        with screen.watching():
            story = await follow(client, stage.namespace, count, tell)
        screen.done("all jobs ended, workers back at zero", time.monotonic() - started)
        with screen.step("every job's output compared with its picture"):
            verdict = await judge(client, jobs)
    return story, verdict


def _report(
    screen: Screen,
    stage: Stage,
    story: Story,
    verdict: Verdict,
    migrations: list[dict[str, object]],
) -> None:
    rows = [(what, f"{seconds:.1f} s") for what, seconds in screen.steps]
    screen.table("Steps", rows)
    total = verdict.completed + verdict.failed
    drained = story.drained_at - (story.ready_at or 0.0)
    screen.table(
        "What came of it",
        [
            ("Kubernetes", stage.namespace.cluster.facts.source),
            ("migration Jobs", ", ".join(_took(job) for job in migrations) or "none"),
            ("first worker wanted", _seconds(story.woke_at)),
            ("first worker ready", _seconds(story.ready_at)),
            ("most workers", str(story.most_workers)),
            ("all jobs ended", _seconds(story.drained_at)),
            ("jobs a second, since a worker was ready", f"{total / max(drained, 0.1):.0f}"),
            ("workers at zero", _seconds(story.zero_at)),
            ("jobs completed, with output", str(verdict.completed)),
            ("jobs failed, of damaged pictures", str(verdict.failed)),
            ("jobs that did not end as they must", str(len(verdict.wrong))),
        ],
    )
    for line in verdict.wrong[:10]:
        screen.console.print(f"     {line}", markup=False)


def _took(job: dict[str, object]) -> str:
    """Say how long a Job took, by its own times, which are whole seconds."""
    status = job["status"]
    assert isinstance(status, dict)
    if "completionTime" not in status:
        return "not done"
    started, ended = (datetime.fromisoformat(status[k]) for k in ("startTime", "completionTime"))
    return f"{(ended - started).total_seconds():.0f} s"


def _seconds(value: float | None) -> str:
    return "never" if value is None else f"{value:.1f} s"


if __name__ == "__main__":
    sys.exit(main())
