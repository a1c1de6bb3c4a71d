"""A Queue on a cluster with everything around it."""

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from cluster.demo.stage import OPERATOR_NAMESPACE, Stage
from cluster.errors import CommandFailed
from support.kube_soak.tally import Lost, Tally
from support.waiting import eventually

QUEUE = "mail"
IMAGES = 3
MEMORY_MEBIBYTES = 256
LIMIT = timedelta(seconds=240)
OPERATOR = "app.kubernetes.io/name=awa"
WORKERS = "app.kubernetes.io/component=worker"


@dataclass
class Scene:
    """Where a soak takes place.

    `worker` and `migration` are fields of the spec that differ from the usual ones. `mebibytes`
    is what the next job shall take, and `large` are the jobs that do. `lost` are pods that were
    taken from their jobs. `operator_restarts` counts those of pods that are gone.
    """

    stage: Stage
    chance: random.Random
    images: tuple[str, ...]
    tally: Tally
    version: int = 0
    most: int = 3
    worker: dict[str, Any] = field(default_factory=dict)
    migration: dict[str, Any] = field(default_factory=dict)
    mebibytes: int = 0
    large: list[int] = field(default_factory=list)
    lost: list[Lost] = field(default_factory=list)
    operator_restarts: int = 0

    async def apply(self) -> None:
        """Apply the Queue as it is wanted now."""
        env = [{"name": "TALLY", "value": self.tally.address}]
        worker = {
            "image": self.images[self.version], "command": ["awa", "worker", "handlers"],
            "concurrency": 4, "drainTimeoutSeconds": 10, "env": env,
            "resources": {"limits": {"memory": f"{MEMORY_MEBIBYTES}Mi"}}, **self.worker,
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

    async def until_observed(self) -> None:
        """Wait until the operator has seen what is asked for now."""

        async def is_observed() -> bool:
            found = await self.patiently(lambda: self.stage.namespace.get("queues.awa.dev", QUEUE))
            seen = (found.get("status") or {}).get("observedGeneration")
            return bool(seen == found["metadata"]["generation"])

        await eventually(is_observed, LIMIT, what="the operator has seen the spec")

    async def a_while(self, least: float, most: float) -> None:
        """Let a fault last."""
        await asyncio.sleep(self.chance.uniform(least, most))


def restarts_of(pod: dict[str, Any]) -> int:
    """Return how often the containers of a pod have started again."""
    return sum(one["restartCount"] for one in pod["status"].get("containerStatuses", ()))
