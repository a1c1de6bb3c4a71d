"""What the demo needs before the first job: a cluster, images, a database, the operator."""

import json
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from cluster.builds import ROOT, version_of
from cluster.databases import KubeDatabase, settings_for, start_for_pods
from cluster.demo.screen import Screen
from cluster.errors import ClusterError
from cluster.handle import Cluster, Namespace
from cluster.images import Images, prepare_images
from cluster.source import Owner, prepare
from support.postgres import Server, find_binaries
from support.run import Run

OPERATOR_NAMESPACE = "awa-system"
NAMESPACE = "demo"
RESTRICTED = "pod-security.kubernetes.io/enforce=restricted"
INSTALL_LIMIT = timedelta(minutes=5)
PICTURES_LIMIT = timedelta(minutes=2)

# What a pod of a restricted namespace has to promise.
POD = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
CONTAINER = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}


@dataclass(frozen=True, slots=True)
class Stage:
    """Everything in place, and nothing of the example applied."""

    namespace: Namespace
    database: KubeDatabase
    images: Images

    def pictures(self) -> list[dict[str, Any]]:
        """Return what is true of each picture in the example's image, as its maker says."""
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "pictures"},
            "spec": {
                "restartPolicy": "Never",
                "automountServiceAccountToken": False,
                "securityContext": POD,
                "containers": [
                    {
                        "name": "list",
                        "image": self.images.thumbnails.name,
                        "command": ["cat", "/app/pictures.jsonl"],
                        "securityContext": CONTAINER,
                    }
                ],
            },
        }
        self.namespace.apply(pod)
        self.namespace.wait("pod/pictures", "jsonpath={.status.phase}=Succeeded", PICTURES_LIMIT)
        lines = self.namespace.kubectl("logs", "pictures").splitlines()
        self.namespace.kubectl("delete", "pod", "pictures", "--wait=false")
        return [json.loads(line) for line in lines]


@contextmanager
def set_up(screen: Screen, minor: str) -> Iterator[Stage]:
    """Have the stage for a while; nothing of it is left afterwards. Raises ClusterError."""
    run = Run.begin()
    owner = Owner(run.folder, run.folder / "alive", minor)
    try:
        yield _set_up(screen, run, owner, minor)
    finally:
        try:
            with screen.step("everything stopped and removed"):
                left = owner.end()
        finally:
            run.end()
    if left:
        raise ClusterError(f"the cluster has left behind: {'; '.join(left)}")


def _set_up(screen: Screen, run: Run, owner: Owner, minor: str) -> Stage:
    with screen.step(f"programs of Kubernetes {version_of(minor)} at hand"):
        prepare(minor)
    with screen.step("images built from the Dockerfiles"):
        images = prepare_images()
    with screen.step("a Kubernetes node Ready"):
        facts = owner.begin()
    cluster = Cluster(facts, run.folder / "kube-home")
    with screen.step("images in the cluster"):
        images.load_into(cluster)
    with screen.step("PostgreSQL that pods reach"):
        database = _database(run, cluster)
    with screen.step("both charts installed by Helm"):
        namespace = _install(cluster, images)
    return Stage(namespace, database, images)


def _database(run: Run, cluster: Cluster) -> KubeDatabase:
    password = secrets.token_hex(8)
    server = Server(run.folder / "for-pods", find_binaries(), settings_for(cluster))
    server.port = start_for_pods(run, server, password)
    return KubeDatabase(server.create_database(), cluster.host_address, password)


def _install(cluster: Cluster, images: Images) -> Namespace:
    for name in (OPERATOR_NAMESPACE, NAMESPACE):
        cluster.kubectl("create", "namespace", name)
        cluster.kubectl("label", "namespace", name, RESTRICTED)
    charts, limit = ROOT / "charts", INSTALL_LIMIT
    where = ("--namespace", OPERATOR_NAMESPACE, "--wait", "--timeout", "4m")
    cluster.helm("install", "awa-crds", charts / "awa-crds", *where, limit=limit)
    cluster.helm(
        "install", "awa", charts / "awa", *where, *chart_values(images, NAMESPACE), limit=limit
    )
    return Namespace(cluster, NAMESPACE)


def chart_values(images: Images, *namespaces: str) -> list[str]:
    """Return what tells Helm to run the operator's image here, for these namespaces."""
    repository, tag = images.operator.name.rsplit(":", 1)
    values = {
        "image.repository": repository,
        "image.tag": tag,
        "image.pullPolicy": "Never",
        "watch.namespaces": "{" + ",".join(namespaces) + "}",
    }
    return [word for key, value in values.items() for word in ("--set", f"{key}={value}")]


def manifest() -> Path:
    """Return the example's manifest, the same that `awa up` runs."""
    return ROOT / "examples" / "thumbnails" / "queue.yaml"
