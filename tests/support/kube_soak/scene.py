"""A Queue on a cluster with everything around it, and what may happen to it."""

import asyncio
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import Any

from cluster.demo.stage import OPERATOR_NAMESPACE, Stage
from cluster.errors import CommandFailed
from cluster.faults import processes_of
from support.waiting import eventually

QUEUE = "mail"
IMAGES = 3
LIMIT = timedelta(seconds=240)
OPERATOR = "app.kubernetes.io/name=awa"
WORKERS = "app.kubernetes.io/component=worker"


@dataclass
class Scene:
    """Where a soak takes place. `operator_restarts` counts those of pods that are gone."""

    stage: Stage
    chance: random.Random
    images: tuple[str, ...]
    tally: str
    version: int = 0
    most: int = 3
    migration: dict[str, Any] = field(default_factory=dict)
    operator_restarts: int = 0

    async def apply(self) -> None:
        """Apply the Queue as it is wanted now."""
        env = [{"name": "TALLY", "value": self.tally}]
        worker = {
            "image": self.images[self.version], "command": ["awa", "worker", "handlers"],
            "concurrency": 4, "drainTimeoutSeconds": 10, "env": env,
        }  # fmt: skip
        scaling = {
            "mode": "Native", "minReplicas": 1, "maxReplicas": self.most,
            "targetJobsPerReplica": 10, "pollIntervalSeconds": 2,
        }  # fmt: skip
        spec = {
            "database": {"connectionSecretRef": {"name": "db"}},
            "worker": worker, "scaling": scaling, "rollout": {"minReadySeconds": 0},
            "migration": {"command": ["awa", "migrate"], **self.migration},
        }  # fmt: skip
        manifest = {
            "apiVersion": "awa.dev/v1alpha1", "kind": "Queue",
            "metadata": {"name": QUEUE}, "spec": spec,
        }  # fmt: skip
        await self.patiently(lambda: self.stage.namespace.apply(manifest))

    async def patiently(self, act: Callable[[], Any]) -> Any:
        """Do something at the API server, again while that is away."""

        async def attempt() -> tuple[Any] | None:
            try:
                return (await asyncio.to_thread(act),)
            except CommandFailed:
                return None

        (value,) = await eventually(attempt, LIMIT, what="the API server answers")
        return value

    async def pods(self) -> list[str]:
        """Return the names of worker pods that are not on their way out."""
        found = await self.patiently(lambda: self.stage.namespace.get("pods", "-l", WORKERS))
        return [
            one["metadata"]["name"]
            for one in found["items"]
            if "deletionTimestamp" not in one["metadata"]
        ]

    async def operators(self) -> list[dict[str, Any]]:
        """Return the operator's pods."""
        cluster = self.stage.namespace.cluster
        where = ("pods", "-n", OPERATOR_NAMESPACE, "-l", OPERATOR)
        found = await self.patiently(lambda: cluster.get(*where))
        items: list[dict[str, Any]] = found["items"]
        return items

    async def condition(self, kind: str) -> dict[str, Any]:
        """Return a condition of the Queue that speaks of its present spec, else nothing."""
        found = await self.patiently(lambda: self.stage.namespace.get("queues.awa.dev", QUEUE))
        generation = found["metadata"]["generation"]
        for one in (found.get("status") or {}).get("conditions") or ():
            if one["type"] == kind and one.get("observedGeneration") == generation:
                said: dict[str, Any] = one
                return said
        return {}

    async def until_ready(self) -> None:
        """Wait until the Queue is ready with what is asked for now.

        A migration that the spec leaves while it runs counts as superseded, and runs again when
        the spec comes back to it.
        """

        async def is_ready() -> bool:
            return (await self.condition("Ready")).get("status") == "True"

        await eventually(is_ready, LIMIT, what="the Queue is ready")

    async def a_while(self, least: float, most: float) -> None:
        """Let a fault last."""
        await asyncio.sleep(self.chance.uniform(least, most))


# --- what happens ---------------------------------------------------------------------------------


async def worker_deleted(scene: Scene) -> None:
    """A pod of a worker is deleted, as a drain of its node does."""
    await _delete_worker(scene)


async def worker_lost(scene: Scene) -> None:
    """A pod of a worker is deleted without grace."""
    await _delete_worker(scene, "--force", "--grace-period=0")


async def _delete_worker(scene: Scene, *words: str) -> None:
    for name in _one_of(scene, await scene.pods()):
        command = ("delete", f"pod/{name}", "--ignore-not-found", "--wait=false", *words)
        await scene.patiently(partial(scene.stage.namespace.kubectl, *command))


async def worker_killed(scene: Scene) -> None:
    """All processes of a worker's container are killed."""
    for name in _one_of(scene, await scene.pods()):
        for process in await asyncio.to_thread(processes_of, name):
            process.kill()


async def operator_lost(scene: Scene) -> None:
    """A pod of the operator is deleted without grace."""
    for pod in await scene.operators():
        scene.operator_restarts += restarts_of(pod)
        where = (f"pod/{pod['metadata']['name']}", "-n", OPERATOR_NAMESPACE)
        words = ("--ignore-not-found", "--wait=false", "--force", "--grace-period=0")
        kubectl = scene.stage.namespace.cluster.kubectl
        await scene.patiently(partial(kubectl, "delete", *where, *words))


async def api_server_killed(scene: Scene) -> None:
    """The API server is killed, and away for a while."""
    part = scene.stage.namespace.cluster.part("kube-apiserver")
    await asyncio.to_thread(part.kill)
    await scene.a_while(2, 30)
    await asyncio.to_thread(part.start)


async def api_server_frozen(scene: Scene) -> None:
    """The API server does not answer for a while."""
    part = scene.stage.namespace.cluster.part("kube-apiserver")
    await asyncio.to_thread(part.freeze)
    await scene.a_while(2, 30)
    await asyncio.to_thread(part.thaw)


async def kubelet_killed(scene: Scene) -> None:
    """The node's kubelet is killed, and away for a while."""
    part = scene.stage.namespace.cluster.part("kubelet")
    await asyncio.to_thread(part.kill)
    await scene.a_while(2, 30)
    await asyncio.to_thread(part.start)


async def database_killed(scene: Scene) -> None:
    """PostgreSQL is killed, and away for a while."""
    server = scene.stage.database.database.server
    await asyncio.to_thread(server.kill)
    await scene.a_while(0, 20)
    await asyncio.to_thread(server.start)


async def another_image(scene: Scene) -> None:
    """Workers get another image: a new one at first, one that is known to be good later."""
    await scene.until_ready()
    scene.version = scene.chance.choice([n for n in range(IMAGES) if n != scene.version])
    await scene.apply()


async def another_most(scene: Scene) -> None:
    """There may be more workers, or fewer."""
    scene.most = scene.chance.choice([n for n in (1, 2, 3, 4) if n != scene.most])
    await scene.apply()


async def migration_fails(scene: Scene) -> None:
    """A migration fails for good, then its command is put right."""
    await scene.until_ready()
    scene.migration = {
        "command": ["sh", "-c", "exit 3"], "permanentExitCodes": [3],
        "env": [{"name": "TRY", "value": str(scene.chance.random())}],
    }  # fmt: skip
    await scene.apply()

    async def has_failed() -> bool:
        return (await scene.condition("Stalled")).get("status") == "True"

    await eventually(has_failed, LIMIT, what="the migration is given up")
    scene.migration = {}
    await scene.apply()


FAULTS: dict[str, Callable[[Scene], Awaitable[None]]] = {
    "worker deleted": worker_deleted,
    "worker lost": worker_lost,
    "worker killed": worker_killed,
    "operator lost": operator_lost,
    "API server killed": api_server_killed,
    "API server frozen": api_server_frozen,
    "kubelet killed": kubelet_killed,
    "database killed": database_killed,
    "another image": another_image,
    "another most": another_most,
    "migration fails": migration_fails,
}


def restarts_of(pod: dict[str, Any]) -> int:
    """Return how often the containers of a pod have started again."""
    return sum(one["restartCount"] for one in pod["status"].get("containerStatuses", ()))


def _one_of(scene: Scene, names: list[str]) -> list[str]:
    return [scene.chance.choice(sorted(names))] if names else []


@dataclass
class Fault:
    """Something that happened. Wall times; `again` is when a job began for the first time after."""

    kind: str
    began: float
    over: float = 0.0
    again: float | None = None


@asynccontextmanager
async def noted(faults: list[Fault], kind: str) -> AsyncIterator[Fault]:
    """Note a fault from its begin to its end."""
    fault = Fault(kind, time.time())
    faults.append(fault)
    try:
        yield fault
    finally:
        fault.over = time.time()
