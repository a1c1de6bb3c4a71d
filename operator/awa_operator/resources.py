"""The kinds of objects that the operator reads and writes, and where the API server keeps them."""

from dataclasses import dataclass
from urllib.parse import quote

from awa.manifest import GROUP, VERSION

type Ref = tuple[str, str]
"""Namespace and name of an object."""


@dataclass(frozen=True, slots=True)
class Resource:
    """One kind of object."""

    group: str
    version: str
    plural: str
    kind: str

    @property
    def api_version(self) -> str:
        """What a manifest says in `apiVersion`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, namespace: str | None, name: str = "", subresource: str = "") -> str:
        """Return the path of an object, or of all of a namespace, or of all."""
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        within = f"/namespaces/{quote(namespace, safe='')}" if namespace else ""
        tail = f"/{quote(name, safe='')}" if name else ""
        return f"{root}{within}/{self.plural}{tail}" + (f"/{subresource}" if subresource else "")


QUEUES = Resource(GROUP, VERSION, "queues", "Queue")
DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment")
JOBS = Resource("batch", "v1", "jobs", "Job")
PODS = Resource("", "v1", "pods", "Pod")
SECRETS = Resource("", "v1", "secrets", "Secret")
EVENTS = Resource("events.k8s.io", "v1", "events", "Event")
LEASES = Resource("coordination.k8s.io", "v1", "leases", "Lease")
BUDGETS = Resource("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget")
NETWORK_POLICIES = Resource("networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy")
POD_MONITORS = Resource("monitoring.coreos.com", "v1", "podmonitors", "PodMonitor")
AUTOSCALERS = Resource("autoscaling", "v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler")

WATCHED = (QUEUES, DEPLOYMENTS, JOBS, BUDGETS, PODS)
"""What is watched; all but Queues only where our label says that they are ours."""

LISTED = (NETWORK_POLICIES, POD_MONITORS, AUTOSCALERS)
"""What is listed now and then: it changes rarely, and nothing waits for it."""

_BY_KIND = {
    (resource.api_version, resource.kind): resource
    for resource in (
        *WATCHED,
        *LISTED,
        SECRETS,
        EVENTS,
        LEASES,
    )
}


def resource_of(api_version: str, kind: str) -> Resource:
    """Return the resource of a manifest. Raises `KeyError` for a kind that nothing here writes."""
    return _BY_KIND[api_version, kind]
