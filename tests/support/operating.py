"""The operator as a local process: with the chart's rights, on the run's cluster, one namespace."""

import asyncio
import functools
import http.client
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from cluster.errors import CommandFailed
from cluster.handle import Cluster, Namespace
from support.api_proxy import ApiProxy
from support.postgres import Database
from support.proxy import FaultProxy
from support.waiting import eventually

ROOT = Path(__file__).resolve().parents[2]
CHART = ROOT / "charts" / "awa"
ACCOUNT = "awa"
SOMEWHERE = "some-namespace"
START_LIMIT = timedelta(seconds=90)

QUICK = {
    "LEASE_NAME": "awa",
    "HEALTH_PORT": "0",
    "METRICS_PORT": "0",
    "BIND_ADDRESS": "127.0.0.1",
    "WATCH_RETRY_FIRST_SECONDS": "0.05",
    "WATCH_RETRY_LONGEST_SECONDS": "1",
    "RETRY_LONGEST_SECONDS": "2",
    "LOG_LEVEL": "debug",
}
"""Settings with which waits take moments."""


class Operator:
    """One process of the operator."""

    def __init__(self, environ: Mapping[str, str], log: Path, module: str = "awa_operator") -> None:
        self.log = log
        with log.open("ab") as opened:
            self.popen = subprocess.Popen(
                [sys.executable, "-m", module], cwd=ROOT / "tests", env=dict(environ),
                stdin=subprocess.DEVNULL, stdout=opened, stderr=opened,
            )  # fmt: skip

    def lines(self) -> list[dict[str, Any]]:
        """Return what it has logged."""
        found = []
        for line in self.log.read_text().splitlines():
            with suppress(ValueError):
                found.append(json.loads(line))
        return found

    def has_logged(self, message: str) -> bool:
        """Whether a line says this."""
        return any(message in line.get("message", "") for line in self.lines())

    @property
    def is_alive(self) -> bool:
        """Whether it runs."""
        return self.popen.poll() is None

    def _port(self, name: str) -> int:
        starts = [line[name] for line in self.lines() if line.get("message") == "starts"]
        if not starts:
            raise ConnectionRefusedError
        return int(starts[-1])

    def ask(self, path: str, limit_seconds: float = 5.0) -> tuple[int, str]:
        """Return the status and the text of a page. Raises OSError when there is no answer."""
        port = self._port("metrics_port" if path == "/metrics" else "health_port")
        line = http.client.HTTPConnection("127.0.0.1", port, timeout=limit_seconds)
        try:
            line.request("GET", path)
            answer = line.getresponse()
            return answer.status, answer.read().decode()
        except http.client.HTTPException as error:  # it ended in the middle of its answer
            raise ConnectionResetError from error
        finally:
            line.close()

    @property
    def metrics_port(self) -> int:
        """Where it serves its metrics. Raises OSError before it does."""
        return self._port("metrics_port")

    def health(self) -> int:
        """Return the status of `/healthz`, 0 when there is no answer."""
        try:
            return self.ask("/healthz")[0]
        except OSError:
            return 0

    def ready(self) -> dict[str, Any]:
        """Return what `/readyz` says, nothing when there is no answer."""
        try:
            found: dict[str, Any] = json.loads(self.ask("/readyz")[1])
        except (OSError, ValueError):
            return {}
        return found

    def metric(self, name: str, **labels: str) -> float:
        """Return the sum of a metric's series that have these labels."""
        total = 0.0
        for line in self.ask("/metrics")[1].splitlines():
            head, _, value = line.rpartition(" ")
            series, _, rest = head.partition("{")
            if series == name and all(f'{key}="{want}"' in rest for key, want in labels.items()):
                total += float(value)
        return total

    async def until_leads(self, limit: timedelta = START_LIMIT) -> "Operator":
        """Wait until it knows what there is and acts."""

        def acts() -> bool:
            found = self.ready()
            return bool(found.get("ready") and found.get("leader"))

        await eventually(acts, limit, what="the operator leads")
        return self

    async def until_ready(self, limit: timedelta = START_LIMIT) -> "Operator":
        """Wait until it knows what there is."""
        await eventually(lambda: self.ready().get("ready"), limit, what="the operator is ready")
        return self

    def kill(self) -> None:
        """Kill -9 it."""
        self.popen.kill()
        self.popen.wait()

    def stop(self) -> int:
        """End it with SIGTERM; return its exit code."""
        self.popen.send_signal(signal.SIGTERM)
        return self.popen.wait(15)

    def freeze(self) -> None:
        """SIGSTOP it."""
        self.popen.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """SIGCONT it."""
        self.popen.send_signal(signal.SIGCONT)


@dataclass
class Site:
    """One namespace with the chart's service account, in which operators are started."""

    namespace: Namespace
    folder: Path
    running: list[Operator]
    kubeconfigs: dict[str | None, Path] = field(default_factory=dict)

    @property
    def cluster(self) -> Cluster:
        """The run's cluster."""
        return self.namespace.cluster

    @property
    def authority(self) -> Path:
        """The certificate of the cluster's authority."""
        return self.kubeconfig().with_suffix(".ca.crt")

    def kubeconfig(self, server: str | None = None) -> Path:
        """Return a kubeconfig of the service account, for the API server or a proxy before it."""
        if server not in self.kubeconfigs:
            file = self.folder / f"kubeconfig-{len(self.kubeconfigs)}"
            self.cluster.kubeconfig_of(self.namespace.name, ACCOUNT, file, server=server)
            self.kubeconfigs[server] = file
        return self.kubeconfigs[server]

    def start(
        self,
        server: str | None = None,
        *,
        module: str = "awa_operator",
        authority: Path | None = None,
        **settings: str,
    ) -> Operator:
        """Start an operator; `server` is another address for the API server, with its authority."""
        name = f"operator-{len(self.running) + 1}"
        kubeconfig = self.kubeconfig(server)
        if authority is not None:
            kubeconfig.with_suffix(".ca.crt").write_bytes(authority.read_bytes())
        own = {
            **QUICK,
            "NAMESPACES": self.namespace.name,
            "LEASE_NAMESPACE": self.namespace.name,
            "KUBECONFIG": str(kubeconfig),
            "IDENTITY": name,
            **settings,
        }
        environ = {f"AWA_OPERATOR_{key}": value for key, value in own.items()}
        kept = {key: value for key, value in os.environ.items() if not key.startswith("AWA_")}
        made = Operator(
            {**kept, **environ, "PYTHONPATH": str(ROOT / "tests")},
            self.folder / f"{name}.log",
            module,
        )
        self.running.append(made)
        return made

    @contextmanager
    def api_proxy(self) -> Iterator[ApiProxy]:
        """Put a proxy that speaks HTTP before the API server."""
        with ApiProxy(self.cluster.server, self.authority) as proxy:
            yield proxy

    @contextmanager
    def wire_proxy(self) -> Iterator[FaultProxy]:
        """Put a proxy that passes bytes before the API server."""
        host, _, port = self.cluster.server.removeprefix("https://").partition(":")
        with FaultProxy(host, int(port)) as proxy:
            yield proxy

    # --- objects -----------------------------------------------------------------------------

    def secret(self, database: Database, name: str = "db") -> None:
        """Put the address of a database into a Secret."""
        self.namespace.put(
            {
                "apiVersion": "v1",
                "kind": "Secret",
                "metadata": {"name": name},
                "stringData": {"url": database.dsn},
            }
        )

    def queue(self, name: str = "mail", **changes: Any) -> dict[str, Any]:
        """Apply a Queue whose schema somebody else migrates; return its manifest.

        `changes` are fields of the spec; those of its objects are merged.
        """
        manifest = queue_manifest(name, **changes)
        self.namespace.put(manifest)
        return manifest

    def get(self, kind: str, name: str) -> dict[str, Any]:
        """Return an object, empty if there is none."""
        body: dict[str, Any] = self.namespace.find(kind, name) or {}
        return body

    def list(self, kind: str, selector: str = "") -> list[dict[str, Any]]:
        """Return objects."""
        words = ("-l", selector) if selector else ()
        items: list[dict[str, Any]] = self.namespace.get(kind, *words)["items"]
        return items

    def condition(self, kind: str, name: str = "mail") -> dict[str, Any]:
        """Return a condition of a Queue, empty if it has none."""
        found = self.get("queues.awa.dev", name)
        conditions = (found.get("status") or {}).get("conditions") or ()
        return next((one for one in conditions if one["type"] == kind), {})

    async def until(
        self, is_so: Callable[[], Any], limit: timedelta = timedelta(seconds=45), what: str = ""
    ) -> Any:
        """Wait for something; kubectl runs in a thread."""

        async def look() -> Any:
            return await asyncio.to_thread(is_so)

        return await eventually(look, limit, what=what or None)

    async def until_status(
        self, name: str = "mail", limit: timedelta = timedelta(seconds=45)
    ) -> dict[str, Any]:
        """Wait until the status of a Queue speaks of its present spec; return the Queue."""

        def observed() -> dict[str, Any] | None:
            found = self.get("queues.awa.dev", name)
            if not found:
                return None
            seen = (found.get("status") or {}).get("observedGeneration")
            return found if seen == found["metadata"]["generation"] else None

        found: dict[str, Any] = await self.until(observed, limit, f"{name} was observed")
        return found

    async def until_deployed(
        self, name: str = "mail", limit: timedelta = timedelta(seconds=45)
    ) -> dict[str, Any]:
        """Wait until the Deployment of a Queue exists; return it."""
        found: dict[str, Any] = await self.until(
            lambda: self.get("deployment", f"{name}-worker"), limit, f"{name} was deployed"
        )
        return found


def queue_manifest(name: str = "mail", **changes: Any) -> dict[str, Any]:
    """Return a Queue whose workers never become ready, as there is no such image."""
    spec: dict[str, Any] = {
        "database": {"connectionSecretRef": {"name": "db"}},
        "worker": {"image": "awa.test/none:1"},
        "migration": {"mode": "External"},
        "replicas": 1,
    }
    for key, value in changes.items():
        if value is None:
            spec.pop(key, None)
        elif isinstance(value, dict):
            spec[key] = {**(spec.get(key) or {}), **value}
        else:
            spec[key] = value
    return {
        "apiVersion": "awa.dev/v1alpha1",
        "kind": "Queue",
        "metadata": {"name": name},
        "spec": spec,
    }


def took(since: float) -> timedelta:
    """Return the time that passed since a moment of the monotonic clock."""
    return timedelta(seconds=time.monotonic() - since)


def grant(namespace: Namespace) -> None:
    """Give the service account of a namespace the rights of the chart, and no more."""
    rendered = _rights(namespace.cluster).replace(SOMEWHERE, namespace.name)
    for manifest in filter(None, yaml.safe_load_all(rendered)):
        namespace.put(manifest)


@functools.cache
def _rights(cluster: Cluster) -> str:
    """Return the chart's account and rights for the namespace `SOMEWHERE`."""
    return cluster.helm(
        "template", "awa", CHART, "-n", SOMEWHERE,
        "--show-only", "templates/serviceaccount.yaml", "--show-only", "templates/rbac.yaml",
        "--set", "fullnameOverride=awa",
    )  # fmt: skip


def may(cluster: Cluster, user: str, verb: str, resource: str, namespace: str) -> bool:
    """Whether a user has a right; a resource is `plural.group`, `plural/name` or `plural:sub`."""
    resource, _, subresource = resource.partition(":")
    words = ("auth", "can-i", verb, resource, f"--as={user}", "-n", namespace)
    try:
        said = cluster.kubectl(*words, f"--subresource={subresource}")
    except CommandFailed as error:
        said = error.out
    return said.strip().splitlines()[-1] == "yes"


@asynccontextmanager
async def operators(namespace: Namespace, folder: Path) -> AsyncIterator[Site]:
    """Have a place where operators are started; they are ended at the end."""
    await asyncio.to_thread(grant, namespace)
    made = Site(namespace, folder, [])
    try:
        yield made
    finally:
        for operator in made.running:
            if operator.is_alive:
                operator.thaw()
                operator.kill()


@pytest.fixture
async def site(namespace: Namespace, queue_definition: str, tmp_path: Path) -> AsyncIterator[Site]:
    """A namespace in which operators are started; they are ended after the test."""
    async with operators(namespace, tmp_path) as made:
        yield made
