"""What may happen to a Queue on a cluster: each does its harm and returns when it is over."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from cluster.demo.stage import OPERATOR_NAMESPACE
from cluster.errors import CommandFailed
from cluster.faults import Part, processes_of
from support.kube_soak.scene import IMAGES, LIMIT, MEMORY_MEBIBYTES, Scene, restarts_of
from support.kube_soak.tally import Lost
from support.waiting import eventually

LONG_SHARE = 0.25
LONG_SECONDS = 120.0
"""So long a part is away now and then."""
NO_IMAGE = "registry.example/none:1"
NO_PATH = "/never"


async def worker_deleted(scene: Scene) -> None:
    """A pod of a worker is deleted, as a drain of its node does."""
    await _delete_worker(scene)


async def worker_lost(scene: Scene) -> None:
    """A pod of a worker is deleted without grace."""
    await _delete_worker(scene, "--force", "--grace-period=0")


async def _delete_worker(scene: Scene, *words: str) -> None:
    for name in _one_of(scene, await scene.pods()):
        command = ("delete", f"pod/{name}", "--ignore-not-found", "--wait=false", *words)
        scene.lost.append(Lost(name, time.time()))
        await scene.patiently(partial(scene.stage.namespace.kubectl, *command))


async def worker_killed(scene: Scene) -> None:
    """All processes of a worker's container are killed."""
    for name in _one_of(scene, await scene.pods()):
        processes = await asyncio.to_thread(processes_of, name)
        scene.lost.append(Lost(name, time.time()))
        for process in processes:
            process.kill()


async def worker_evicted(scene: Scene) -> None:
    """A pod of a worker is evicted, when its disruption budget lets it go."""
    namespace = scene.stage.namespace

    async def is_evicted() -> bool:
        for name in _one_of(scene, await scene.pods()):
            body = {
                "apiVersion": "policy/v1", "kind": "Eviction",
                "metadata": {"name": name, "namespace": namespace.name},
            }  # fmt: skip
            path = f"/api/v1/namespaces/{namespace.name}/pods/{name}/eviction"
            words, begun = ("create", "--raw", path, "-f", "-"), time.time()
            with suppress(CommandFailed):
                await asyncio.to_thread(namespace.kubectl, *words, stdin=json.dumps(body))
                scene.lost.append(Lost(name, begun))
                return True
            await asyncio.sleep(1)
        return False

    await eventually(is_evicted, LIMIT, what="a pod may go")


async def worker_out_of_memory(scene: Scene) -> None:
    """The first attempt of a job takes more memory than a worker may have; the second ends."""
    known = len(scene.large)
    scene.mebibytes = 2 * MEMORY_MEBIBYTES

    def was_killed() -> bool:
        return any(
            run.job in scene.large[known:] and run.word == "ended" and run.attempt > 1
            for run in scene.tally.runs
        )

    await eventually(was_killed, LIMIT, what="a worker is killed for its memory")


async def image_missing(scene: Scene) -> None:
    """Workers get an image that nobody has; the old ones go on until that is put right."""
    await scene.until_ready()
    scene.migration = {"image": scene.images[scene.version]}
    await _roll_out_in_vain(scene, {"image": NO_IMAGE})
    scene.migration = {}
    await scene.apply()


async def never_ready(scene: Scene) -> None:
    """New workers never say that they are ready; the old ones go on until that is put right."""
    await scene.until_ready()
    await _roll_out_in_vain(scene, {"health": {"readinessPath": NO_PATH}})
    await scene.apply()


async def _roll_out_in_vain(scene: Scene, worker: dict[str, Any]) -> None:
    """Have new pods that never work, and see that the old ones do; the next spec is the old one."""
    old = set(await scene.pods())
    scene.worker = worker
    await scene.apply()

    async def has_new() -> bool:
        return not old.issuperset(await scene.pods())

    await eventually(has_new, LIMIT, what="a new pod has been made")
    await scene.a_while(5, 20)
    there = len(scene.tally.runs)

    def go_on() -> bool:
        return any(run.word == "ended" and run.pod in old for run in scene.tally.runs[there:])

    await eventually(go_on, LIMIT, what="the old workers go on")
    scene.worker = {}


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
    await _be_without(scene, "kube-apiserver")


async def api_server_frozen(scene: Scene) -> None:
    """The API server does not answer for a while."""
    await _be_without(scene, "kube-apiserver", Part.freeze, Part.thaw)


async def api_server_fails(scene: Scene) -> None:
    """The API server answers with 5xx: its store is killed, and away for a while."""
    await _be_without(scene, "etcd")


async def kubelet_killed(scene: Scene) -> None:
    """The node's kubelet is killed, and away: for long, and its node counts as lost."""
    await _be_without(scene, "kubelet")


async def _be_without(
    scene: Scene,
    name: str,
    harm: Callable[[Part], None] = Part.kill,
    mend: Callable[[Part], None] = Part.start,
) -> None:
    part = scene.stage.namespace.cluster.part(name)
    is_long = scene.chance.random() < LONG_SHARE
    await asyncio.to_thread(harm, part)
    await scene.a_while(*((LONG_SECONDS, LONG_SECONDS) if is_long else (2, 30)))
    await asyncio.to_thread(mend, part)


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
    "worker evicted": worker_evicted,
    "worker out of memory": worker_out_of_memory,
    "operator lost": operator_lost,
    "API server killed": api_server_killed,
    "API server frozen": api_server_frozen,
    "API server fails": api_server_fails,
    "kubelet killed": kubelet_killed,
    "database killed": database_killed,
    "another image": another_image,
    "another most": another_most,
    "migration fails": migration_fails,
    "image missing": image_missing,
    "never ready": never_ready,
}
OF_API_SERVER = {kind for kind in FAULTS if kind.startswith("API server")}


def _one_of(scene: Scene, names: list[str]) -> list[str]:
    return [scene.chance.choice(sorted(names))] if names else []


@dataclass
class Fault:
    """Something that happened. Wall times; `again` is when a job began for the first time after.

    `observed_after` are the seconds until a changed spec was seen.
    """

    kind: str
    began: float
    over: float = 0.0
    again: float | None = None
    observed_after: float | None = None


@asynccontextmanager
async def noted(faults: list[Fault], kind: str) -> AsyncIterator[Fault]:
    """Note a fault from its begin to its end."""
    fault = Fault(kind, time.time())
    faults.append(fault)
    try:
        yield fault
    finally:
        fault.over = time.time()
