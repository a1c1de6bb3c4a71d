"""`python -m bench.kube`: the operator's own levels on a real API server.

It runs as a local process with the chart's rights, so that its memory and processor time are seen.
No pods are started. Times between requests are those of the API server's audit log. One JSON line
for each figure, then a table with the levels that were aimed at: good, and best.
"""

import argparse
import asyncio
import json
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from bench.cluster import find_binaries

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

if TYPE_CHECKING:
    from support.operating import Operator, Site

JOB = {"mode": "Job", "command": ["migrate"], "image": "awa.test/none:1"}


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure, and the most that it may be to be good, and best."""

    name: str
    value: float
    unit: str
    good: float | None = None
    best: float | None = None

    @property
    def verdict(self) -> str:
        """Which level it reaches."""
        if self.good is None:
            return ""
        if self.best is not None and self.value <= self.best:
            return "best"
        return "good" if self.value <= self.good else "missed"


def main() -> int:
    """Measure and print; 0 whatever the levels say."""
    line = argparse.ArgumentParser(prog="python -m bench.kube", description=__doc__)
    line.add_argument("--queues", default="1,100,1000", help="how many Queues (1,100,1000)")
    line.add_argument("--seconds", type=float, default=60, help="length of a steady look (60)")
    line.add_argument("--rate", type=int, default=50, help="changes a second (50)")
    line.add_argument("--postgres", help="folder of the PostgreSQL binaries")
    line.add_argument("--out", type=Path, help="append the JSON lines to this file too")
    args = line.parse_args()
    figures = []
    with stage(find_binaries(args.postgres)) as (site, dsn):
        for figure in asyncio.run(_measure(site, dsn, args)):
            text = json.dumps({**asdict(figure), "verdict": figure.verdict})
            print(text, flush=True)
            if args.out is not None:
                with args.out.open("a") as out:
                    out.write(text + "\n")
            figures.append(figure)
    print("\n".join(table(figures)))
    return 0


@contextmanager
def stage(binaries: Path) -> "Iterator[tuple[Site, str]]":
    """Start a cluster and a migrated database; end both. Returns where operators are started."""
    from cluster.handle import Cluster, Namespace  # noqa: PLC0415 - found only now
    from cluster.source import Owner, newest, prepare  # noqa: PLC0415
    from support.operating import ROOT, Site, grant  # noqa: PLC0415
    from support.postgres import FAST_SETTINGS, Server  # noqa: PLC0415
    from support.run import Run  # noqa: PLC0415

    prepare(newest())
    run = Run.begin()
    owner = Owner(run.folder, run.folder / "alive", newest())
    server = Server(run.folder / "postgres", binaries, FAST_SETTINGS)
    try:
        cluster = Cluster(owner.begin(), run.folder / "kube-home")
        server.create()
        server.start()
        cluster.kubectl("apply", "--server-side", "-f", ROOT / "crds" / "queue.yaml")
        crd = "customresourcedefinition/queues.awa.dev"
        cluster.kubectl("wait", crd, "--for=condition=Established", "--timeout=60s")
        cluster.kubectl("create", "namespace", "bench")
        namespace = Namespace(cluster, "bench")
        grant(namespace)
        folder = run.folder / "operators"
        folder.mkdir()
        site = Site(namespace, folder, [])
        yield site, server.dsn()
        for operator in site.running:
            if operator.is_alive:
                operator.kill()
    finally:
        server.stop()
        left = owner.end()
        run.end()
        if left:
            print(f"the cluster has left behind: {left}", file=sys.stderr)


async def _measure(site: "Site", dsn: str, args: argparse.Namespace) -> list[Figure]:
    import awa_migrations  # noqa: PLC0415 - takes long

    await awa_migrations.migrate(dsn)
    await asyncio.to_thread(_secret, site, "db", dsn)
    figures: list[Figure] = []
    operator = await site.start(LOG_LEVEL="info").until_leads()
    there = 0
    for count in (int(one) for one in args.queues.split(",")):
        figures += await _grow(site, there, count)
        there = count
        figures += await _steady(operator, count, args.seconds)
    figures += await _changes(site, there, args.rate)
    figures += await _jobs(site, dsn)
    figures += await _failover(site, operator)
    return figures


async def _grow(site: "Site", there: int, count: int) -> list[Figure]:
    """Create Queues until there are `count`, and wait until each is ready."""
    began = time.monotonic()
    names = [f"q{number}" for number in range(there, count)]
    for start in range(0, len(names), 250):
        await asyncio.to_thread(_create, site, names[start : start + 250])
    await site.until(lambda: _ready(site) >= count, limit=_limit(300), what="each is ready")
    return [Figure(f"{count} Queues ready", time.monotonic() - began, "s", 60 if there else None)]


async def _steady(operator: "Operator", count: int, seconds: float) -> list[Figure]:
    """Look at memory, requests and processor time while nothing happens."""
    await asyncio.sleep(10)
    process = psutil.Process(operator.popen.pid)
    requests = "awa_operator_api_requests_total"
    before, cpu = operator.metric(requests), process.cpu_times()
    await asyncio.sleep(seconds)
    spent = process.cpu_times()
    used = (spent.user + spent.system) - (cpu.user + cpu.system)
    memory = {1: (110, 85), 100: (125, 90), 1000: (250, 130)}.get(count, (None, None))
    made = (operator.metric(requests) - before) * 60 / seconds
    return [
        Figure(f"RSS at {count}", process.memory_info().rss / 2**20, "MiB", *memory),
        Figure(f"requests in a minute at {count}", made, "", 10 + 0.1 * count, 8),
        Figure(f"processor at {count}", used / seconds * 100, "% of a core", 5, 1),
    ]


async def _changes(site: "Site", count: int, rate: int) -> list[Figure]:
    """Change specs at a rate; look at the time from each change to the status that answers it."""
    from awa_operator.kube import Kube, find_access  # noqa: PLC0415
    from awa_operator.resources import QUEUES  # noqa: PLC0415

    kube = Kube(await find_access(site.cluster.kubeconfig, lambda *_: None))
    since = _now()
    for second in range(10):
        began = time.monotonic()
        for number in range(rate):
            name = f"q{(second * rate + number) % count}"
            patch = {"spec": {"scaling": {"cooldownSeconds": 301 + second}}}
            await kube.merge(QUEUES, site.namespace.name, name, patch, manager="bench")
            await asyncio.sleep(max((number + 1) / rate - (time.monotonic() - began), 0))
    await kube.close()
    await asyncio.sleep(5)
    events = await asyncio.to_thread(_audited, site, since)
    changed = [one for one in events if _is(one, "patch", "queues") and "bench" in _uri(one)]
    answers = [one for one in events if _is(one, "patch", "queues", "status")]
    gaps = list(_gaps(changed, answers))
    return _percentiles("change to status", gaps, (1.0, 0.25))


async def _jobs(site: "Site", dsn: str) -> list[Figure]:
    """Create Queues on databases of their own; look at the time until their Jobs are created."""
    from support.operating import queue_manifest  # noqa: PLC0415

    since, names = _now(), [f"m{number}" for number in range(20)]
    for name in names:
        await asyncio.to_thread(_secret, site, name, dsn)
    for name in names:
        database = {"connectionSecretRef": {"name": name}}
        manifest = queue_manifest(name, migration=JOB, database=database, replicas=0)
        await asyncio.to_thread(site.namespace.apply, manifest)
    await site.until(lambda: len(site.list("jobs")) >= len(names), limit=_limit(60))
    await asyncio.sleep(2)
    events = await asyncio.to_thread(_audited, site, since)
    made = [one for one in events if _is(one, "create", "queues") or _is(one, "patch", "queues")]
    made = [one for one in made if _name(one) in names]
    owners = {job["metadata"]["name"]: _owner(job) for job in site.list("jobs")}
    jobs = [one for one in events if _is(one, "create", "jobs")]
    gaps = [
        _at(job) - _at(queue)
        for queue in made
        for job in jobs
        if owners.get(_name(job)) == _name(queue)
    ]
    return _percentiles("Queue to Job", gaps, (2.0, 0.5))


async def _failover(site: "Site", leader: "Operator") -> list[Figure]:
    """Kill the leader, and end the next one; look at the time until another acts."""
    figures = []
    standby = await site.start(LOG_LEVEL="info").until_ready()
    for how, good, best in (("kill -9", 30.0, 17.0), ("SIGTERM", 5.0, 2.0)):
        began = time.monotonic()
        if how == "kill -9":
            leader.kill()
        else:
            await asyncio.to_thread(leader.stop)
        await site.until(partial(_leads, standby), limit=_limit(40), what="the next leads")
        figures.append(Figure(f"failover after {how}", time.monotonic() - began, "s", good, best))
        leader = standby
        standby = await site.start(LOG_LEVEL="info").until_ready()
    return figures


def _leads(operator: "Operator") -> bool:
    return operator.ready().get("leader") is True


# --- what is asked of the cluster -----------------------------------------------------------------


def _create(site: "Site", names: Sequence[str]) -> None:
    from support.operating import queue_manifest  # noqa: PLC0415

    items = [queue_manifest(name, replicas=0) for name in names]
    listed = json.dumps({"apiVersion": "v1", "kind": "List", "items": items})
    site.namespace.kubectl("create", "-f", "-", stdin=listed, limit=_limit(200))


def _secret(site: "Site", name: str, dsn: str) -> None:
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}}
    site.namespace.apply({**secret, "stringData": {"url": dsn}})


def _ready(site: "Site") -> int:
    path = "jsonpath={.items[*].status.conditions[?(@.type=='Ready')].status}"
    return site.namespace.kubectl("get", "queues.awa.dev", "-o", path).split().count("True")


def _audited(site: "Site", since: datetime) -> list[dict[str, Any]]:
    """Return what was asked of the API server since a moment, in its order."""
    found = [one for one in site.cluster.audit() if one["stage"] == "ResponseComplete"]
    return sorted((one for one in found if _at(one) >= since.timestamp()), key=_at)


def _is(event: dict[str, Any], verb: str, resource: str, subresource: str = "") -> bool:
    about = event.get("objectRef") or {}
    return (
        event["verb"] == verb
        and about.get("resource") == resource
        and about.get("subresource", "") == subresource
        and event.get("responseStatus", {}).get("code", 0) < 400
        and "dryRun" not in _uri(event)
    )


def _uri(event: dict[str, Any]) -> str:
    return str(event.get("requestURI", ""))


def _name(event: dict[str, Any]) -> str:
    return str((event.get("objectRef") or {}).get("name", ""))


def _at(event: dict[str, Any]) -> float:
    return datetime.fromisoformat(event["requestReceivedTimestamp"]).timestamp()


def _owner(job: dict[str, Any]) -> str:
    return str(job["metadata"]["ownerReferences"][0]["name"])


def _gaps(before: Sequence[dict[str, Any]], after: Sequence[dict[str, Any]]) -> Iterator[float]:
    """Yield the time from each event to the next one of the other kind about the same object."""
    by_name: dict[str, list[float]] = {}
    for event in after:
        by_name.setdefault(_name(event), []).append(_at(event))
    for event in before:
        later = [at for at in by_name.get(_name(event), ()) if at >= _at(event)]
        if later:
            yield later[0] - _at(event)


def _percentiles(name: str, gaps: Sequence[float], levels: tuple[float, float]) -> list[Figure]:
    if len(gaps) < 2:
        return [Figure(f"{name}, seen", len(gaps), "")]
    cuts = statistics.quantiles(gaps, n=100, method="inclusive")
    return [
        Figure(f"{name}, p50", cuts[49], "s", levels[0]),
        Figure(f"{name}, p99", cuts[98], "s", *levels),
        Figure(f"{name}, seen", len(gaps), ""),
    ]


def _limit(seconds: float) -> timedelta:
    return timedelta(seconds=seconds)


def _now() -> datetime:
    return datetime.now(UTC)


def table(figures: Sequence[Figure]) -> Iterator[str]:
    """Yield the lines of a table."""
    rows = [("figure", "value", "good", "best", "level")]
    for one in figures:
        good, best = ("" if level is None else f"{level:g}" for level in (one.good, one.best))
        rows.append((one.name, f"{one.value:.3g} {one.unit}".strip(), good, best, one.verdict))
    widths = [max(len(row[column]) for row in rows) for column in range(5)]
    for row in rows:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


if __name__ == "__main__":
    sys.exit(main())
