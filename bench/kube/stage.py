"""Where it is measured: a cluster of its own, a namespace, a migrated database."""

import asyncio
import json
import secrets
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

from awa_operator.kube import Kube, find_access
from awa_operator.resources import QUEUES
from cluster.databases import KubeDatabase, settings_for, start_for_pods
from cluster.handle import Cluster, Namespace
from cluster.source import Owner, newest, prepare
from support.definitions import install_definition
from support.operating import Site, grant, queue_manifest
from support.postgres import Server
from support.run import Run


@dataclass(frozen=True, slots=True)
class Stage:
    """A namespace in which operators are started, and a server of PostgreSQL that pods reach."""

    site: Site
    server: Server
    password: str

    @property
    def dsn(self) -> str:
        """The address of a database."""
        return self.server.dsn()

    def for_pods(self) -> KubeDatabase:
        """Make a database that pods reach."""
        host = self.site.cluster.host_address
        return KubeDatabase(self.server.create_database(), host, self.password)

    def secret(self, name: str, dsn: str) -> None:
        """Put an address into a Secret."""
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}}
        self.site.namespace.apply({**secret, "stringData": {"url": dsn}})

    def create(self, names: Sequence[str], **changes: Any) -> None:
        """Create Queues without workers; `changes` are fields of their specs."""
        items = [queue_manifest(name, **{"replicas": 0, **changes}) for name in names]
        for start in range(0, len(items), 250):
            part = items[start : start + 250]
            listed = json.dumps({"apiVersion": "v1", "kind": "List", "items": part})
            self.site.namespace.kubectl("create", "-f", "-", stdin=listed, limit=seconds(200))

    async def patching(self) -> Kube:
        """Return a client with which an administrator changes Queues; to be closed."""
        return Kube(await find_access(self.site.cluster.kubeconfig, lambda *_: None))

    async def change(self, kube: Kube, name: str, number: int) -> None:
        """Change the spec of a Queue: another number is another spec."""
        patch = {"spec": {"scaling": {"cooldownSeconds": 300 + number % 1000}}}
        await kube.merge(QUEUES, self.site.namespace.name, name, patch, manager="bench")

    async def until_answered(self, name: str, limit: timedelta) -> None:
        """Wait until the status of a Queue speaks of its present spec."""
        await self.site.until(partial(self._is_answered, name), limit, f"{name} is answered")

    async def until(self, holds: Callable[[], object], limit: float, what: str) -> None:
        """Wait for something, for so many seconds."""
        await self.site.until(holds, seconds(limit), what)

    def with_condition(self, kind: str, status: str, prefix: str = "") -> int:
        """Return how many Queues, by the beginnings of their names, have such a condition."""
        conditions = (
            condition
            for queue in self.site.list("queues.awa.dev")
            if queue["metadata"]["name"].startswith(prefix)
            for condition in (queue.get("status") or {}).get("conditions") or ()
        )
        return sum((one["type"], one["status"]) == (kind, status) for one in conditions)

    def _is_answered(self, name: str) -> bool:
        found = self.site.get("queues.awa.dev", name)
        seen = (found.get("status") or {}).get("observedGeneration")
        return bool(seen == found["metadata"]["generation"])


@contextmanager
def stage(binaries: Path) -> Iterator[Stage]:
    """Start a cluster and a server of PostgreSQL; end both."""
    prepare(newest())
    run = Run.begin()
    owner = Owner(run.folder, run.folder / "alive", newest())
    server, password = None, secrets.token_hex(8)
    try:
        cluster = Cluster(owner.begin(), run.folder / "kube-home")
        server = Server(run.folder / "postgres", binaries, settings_for(cluster))
        start_for_pods(run, server, password)
        install_definition(cluster)
        yield Stage(new_site(cluster, "bench", run.folder), server, password)
    finally:
        if server is not None:
            server.stop()
        left = owner.end()
        run.end()
        if left:
            print(f"the cluster has left behind: {left}", file=sys.stderr)


def new_site(cluster: Cluster, name: str, folder: Path) -> Site:
    """Make a namespace in which operators are started."""
    cluster.kubectl("create", "namespace", name)
    namespace = Namespace(cluster, name)
    grant(namespace)
    place = folder / f"operators-{name}"
    place.mkdir()
    return Site(namespace, place, [])


async def stop(site: Site) -> None:
    """End the operators of a place."""
    for operator in site.running:
        if operator.is_alive:
            await asyncio.to_thread(operator.kill)


def seconds(number: float) -> timedelta:
    """Return a time."""
    return timedelta(seconds=number)
