"""Levels while something is wrong: the API server, the line to it, databases, a namespace."""

import asyncio
import socket
import statistics
import time
from contextlib import ExitStack
from dataclasses import replace

from bench.kube.figures import Figure, percentiles
from bench.kube.flow import changes
from bench.kube.stage import Stage, new_site, seconds, stop
from cluster.rest import ApiServer
from support.operating import Operator

AWAY_SECONDS = 60
CUTS = 10
DEAF = 50
TURNS = 5


async def restart_of_the_api_server(stage: Stage, operator: Operator) -> list[Figure]:
    """Take the API server away for a minute; look at the time until a change is answered."""
    with stage.site.cluster.part("kube-apiserver").stopped():
        await asyncio.sleep(AWAY_SECONDS)
    kube = await stage.patching()
    api = ApiServer.of(stage.site.cluster.kubeconfig)
    await stage.until(api.is_ready, 60, "the API server is back")
    began = time.monotonic()
    await stage.change(kube, "q0", int(began))
    await stage.until_answered("q0", seconds(120))
    took = time.monotonic() - began
    await kube.close()
    return [
        Figure("answer after the API server was away for 60 s", took, "s", 30, 5),
        Figure("restarts of the operator by that", float(not operator.is_alive), "", 0, 0),
    ]


async def disconnects(stage: Stage) -> list[Figure]:
    """Cut the line to the API server; look at the time until a change is answered."""
    await stop(stage.site)
    kube, took = await stage.patching(), []
    with stage.site.wire_proxy() as proxy:
        server = f"https://{proxy.address}"
        await stage.site.start(server, LOG_LEVEL="info").until_leads()
        for number in range(CUTS):
            proxy.cut()
            began = time.monotonic()
            await stage.change(kube, "q0", int(began) + number)
            await stage.until_answered("q0", seconds(120))
            took.append(time.monotonic() - began)
        await stop(stage.site)
    await kube.close()
    return percentiles("answer after a cut line", took, (75, 2))


async def deaf_databases(stage: Stage, count: int, rate: int) -> list[Figure]:
    """Add databases that accept and never answer, in turns; look at what the others notice."""
    names, p99s = [f"d{number}" for number in range(DEAF)], []
    with ExitStack() as lines:
        for name in names:
            line = lines.enter_context(socket.create_server(("127.0.0.1", 0)))
            port = line.getsockname()[1]
            dsn = f"postgresql://app:none@127.0.0.1:{port}/app?sslmode=disable"
            await asyncio.to_thread(stage.secret, name, dsn)
        for _ in range(TURNS):
            alone = await changes(stage, count, rate)
            for name in names:
                database = {"connectionSecretRef": {"name": name}}
                await asyncio.to_thread(stage.create, [name], database=database)
            await stage.until(lambda: _deaf(stage) >= DEAF, 60, "each is found deaf")
            beside = await changes(stage, count, rate)
            p99s.append((alone[1].value, beside[1].value))
            await asyncio.to_thread(
                stage.site.namespace.kubectl, "delete", "queues.awa.dev", *names, "--wait=false"
            )
            await stage.until(lambda: _deaf(stage) == 0, 60, "they are gone")
    ratios = sorted(beside / alone for alone, beside in p99s)
    name = f"p99 of a change beside {DEAF} deaf databases to that without"
    return [
        Figure(f"{name}, least of {TURNS}", ratios[0], "x"),
        Figure(f"{name}, median", statistics.median(ratios), "x", None, 1.1),
        Figure(f"{name}, most", ratios[-1], "x"),
    ]


def _deaf(stage: Stage) -> int:
    return stage.with_condition("DatabaseReachable", "False", "d")


async def namespace_deletion(stage: Stage) -> list[Figure]:
    """Delete a namespace with Queues while no operator runs."""
    other = new_site(stage.site.cluster, "bench-gone", stage.site.folder)
    there = replace(stage, site=other)
    await asyncio.to_thread(there.secret, "db", stage.dsn)
    operator = await other.start(LOG_LEVEL="info").until_leads()
    await asyncio.to_thread(there.create, [f"q{number}" for number in range(10)])
    await there.until(lambda: len(other.list("deployments")) == 10, 60, "all are there")
    operator.kill()
    began = time.monotonic()
    await asyncio.to_thread(
        other.cluster.kubectl, "delete", "namespace", "bench-gone", "--wait=true"
    )
    took = time.monotonic() - began
    return [Figure("a namespace of 10 Queues goes without an operator", took, "s", 60, 10)]
