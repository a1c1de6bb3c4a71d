"""Traces that scalers leave on Deployments, and whether they still mean that somebody scales.

Who set a replica count stays in `managedFields` after it has gone. So a trace counts until the
autoscalers were listed once after it was seen: from then on the list says who scales.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from awa_operator.resources import Ref

SCALERS = {"kube-controller-manager": "a HorizontalPodAutoscaler", "keda": "KEDA"}
"""Who sets a replica count again and again, by the beginning of its name as a manager."""

type Trace = tuple[str, str]
"""Name of a scaler, and when it last changed the count."""


class ScalerTraces:
    """The traces on all Deployments, and those that a list of the autoscalers has answered."""

    def __init__(self) -> None:
        self._seen: dict[Ref, frozenset[Trace]] = {}
        self._asked: dict[Ref, frozenset[Trace]] = {}
        self._answered: dict[Ref, frozenset[Trace]] = {}

    def saw(self, ref: Ref, deployment: Mapping[str, Any]) -> None:
        """Note who has set the replica count of a Deployment."""
        self._seen.pop(ref, None)
        if traces := frozenset(_traces(deployment)):
            self._seen[ref] = traces

    def forget(self, ref: Ref) -> None:
        """Forget a Deployment that is gone."""
        for remembered in (self._seen, self._asked, self._answered):
            remembered.pop(ref, None)

    def asking(self) -> None:
        """Note that a list of the autoscalers is asked for."""
        self._asked = dict(self._seen)

    def answered(self, namespace: str | None) -> Iterator[Ref]:
        """Note that the list was had; yield the Deployments of which it is the better witness."""
        for ref, traces in self._asked.items():
            if namespace in (None, ref[0]) and self._answered.get(ref) != traces:
                self._answered[ref] = traces
                yield ref

    def scaler(self, ref: Ref) -> str | None:
        """Return who is only known by its trace to scale a Deployment."""
        traces = self._seen.get(ref, frozenset()) - self._answered.get(ref, frozenset())
        return min((name for name, _ in traces), default=None)


def _traces(deployment: Mapping[str, Any]) -> Iterator[Trace]:
    for one in replica_owners(deployment):
        for manager, name in SCALERS.items():
            if str(one.get("manager", "")).startswith(manager):
                yield name, str(one.get("time", ""))


def replica_owners(deployment: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the entries of `managedFields` that own the replica count."""
    return [one for one in deployment["metadata"].get("managedFields") or () if _owns(one)]


def _owns(fields: Mapping[str, Any]) -> bool:
    owned = fields.get("fieldsV1") or {}
    return "f:replicas" in (owned.get("f:spec") or {}) and fields.get("subresource") != "status"
