"""`spec.worker`: the processes that run the handlers."""

from typing import Annotated

from pydantic import Field

from awa.manifest.part import ClusterOnly, Part, Rule
from awa.manifest.pod import EnvFromList, EnvList, ObjectRef, Resources, Toleration
from awa.manifest.values import (
    MAX_ITEMS,
    Command,
    FreeObject,
    FreeObjects,
    HttpPath,
    Image,
    Int,
    Labels,
    Name,
    Port,
)

DRAIN_MARGIN_SECONDS = 5
"""The least time between the end of draining and a kill."""
DEFAULT_DRAIN_MARGIN_SECONDS = 10

_OWN_CODE = ClusterOnly("the command runs with what is installed on this machine")
_PODS = ClusterOnly("processes here are not pods")
_NODES = ClusterOnly("there is one machine")
_PORTS = ClusterOnly("local processes share one machine's ports; `awa up` serves its own")
_CLUSTER_OBJECTS = ClusterOnly("there is no cluster to take it from")


class Health(Part):
    """Where a worker answers probes."""

    port: Port = 8321
    """Port of both probes."""
    liveness_path: HttpPath = "/healthz"
    """Answers while the process works, whatever the database does."""
    readiness_path: HttpPath = "/readyz"
    """Answers once the database can be reached and its schema fits."""


class Metrics(Part):
    """Where a worker serves its metrics."""

    port: Port = 9090
    """Port of the metrics."""
    path: HttpPath = "/metrics"
    """Path of the metrics."""


class Worker(Part):
    """What runs the handlers, and how much at a time."""

    image: Annotated[Image, _OWN_CODE]
    """Image of the worker, best with a digest."""
    command: Command | None = None
    """Program and first arguments, such as `[awa, worker, handlers]`; the image's entry point if
    not set. `awa up` runs it as it is and needs it."""
    args: Command | None = None
    """Further arguments."""
    env: EnvList = ()
    """Environment variables, in addition to those of Awa. Locally those with a `value` apply."""
    env_from: Annotated[EnvFromList, _CLUSTER_OBJECTS] = ()
    """Secrets and ConfigMaps whose keys become environment variables."""
    concurrency: Annotated[Int, Field(ge=1, le=10000)] = 10
    """Jobs that one replica runs at a time."""
    drain_timeout_seconds: Annotated[Int, Field(ge=0, le=86400)] = 30
    """How long a replica that must stop may finish its running jobs."""
    termination_grace_period_seconds: Annotated[
        Annotated[Int, Field(ge=DRAIN_MARGIN_SECONDS, le=90000)] | None, _PODS
    ] = None
    """How long Kubernetes waits before it kills a pod; `drainTimeoutSeconds` + 10 if not set."""
    health: Annotated[Health, _PORTS] = Health()
    """Where a worker answers probes."""
    metrics: Annotated[Metrics, _PORTS] = Metrics()
    """Where a worker serves its metrics."""
    resources: Annotated[Resources | None, _PODS] = None
    """What a worker pod asks for and may use."""
    node_selector: Annotated[Labels | None, _NODES] = None
    """Labels of the nodes to run on."""
    tolerations: Annotated[
        Annotated[tuple[Toleration, ...], Field(max_length=MAX_ITEMS)], _NODES
    ] = ()
    """Taints of nodes that do not keep the pods away."""
    affinity: Annotated[FreeObject | None, _NODES] = None
    """Kubernetes' `affinity`, passed on."""
    topology_spread_constraints: Annotated[FreeObjects, _NODES] = ()
    """Kubernetes' `topologySpreadConstraints`, passed on."""
    volumes: Annotated[FreeObjects, _PODS] = ()
    """Kubernetes' `volumes`, passed on."""
    volume_mounts: Annotated[FreeObjects, _PODS] = ()
    """Kubernetes' `volumeMounts`, passed on."""
    image_pull_secrets: Annotated[
        Annotated[tuple[ObjectRef, ...], Field(max_length=MAX_ITEMS)], _CLUSTER_OBJECTS
    ] = ()
    """Secrets to pull the image with."""
    service_account_name: Annotated[Name | None, _CLUSTER_OBJECTS] = None
    """Service account of the worker pods."""
    pod_labels: Annotated[Labels | None, _PODS] = None
    """Further labels of the pods."""
    pod_annotations: Annotated[Labels | None, _PODS] = None
    """Further annotations of the pods."""
    priority_class_name: Annotated[Name | None, _CLUSTER_OBJECTS] = None
    """Priority class of the pods."""
    pod_template: Annotated[FreeObject | None, _PODS] = None
    """Overlay on the pod template, for what has no field of its own; the API server checks it."""

    RULES = (
        Rule(
            cel="!has(self.terminationGracePeriodSeconds) || "
            "self.terminationGracePeriodSeconds >= self.drainTimeoutSeconds + 5",
            message="must be at least drainTimeoutSeconds + 5, or pods are killed while they drain",
            field="terminationGracePeriodSeconds",
            holds=lambda worker: (
                worker.termination_grace_period_seconds is None
                or worker.termination_grace_period_seconds
                >= worker.drain_timeout_seconds + DRAIN_MARGIN_SECONDS
            ),
        ),
    )

    @property
    def grace_period_seconds(self) -> int:
        """The termination grace period, resolved."""
        if self.termination_grace_period_seconds is not None:
            return self.termination_grace_period_seconds
        return self.drain_timeout_seconds + DEFAULT_DRAIN_MARGIN_SECONDS
