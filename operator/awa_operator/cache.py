"""What watches and lists told: the objects of the kinds that are watched, with their indexes.

An object is replaced only by a newer one, whoever brings it: a watch, a list, or the answer to our
own write. So a write is seen by the next reconcile, and a slow watch takes nothing back. Objects
are kept as JSON text, a third of what they take as values; Queues are kept parsed.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from awa.manifest import ConditionType, Queue, QueueStatus
from awa.manifest.loading import parse_stored_queue
from awa.manifest.problems import ManifestError
from awa_operator import labels, names
from awa_operator.conditions import find_condition
from awa_operator.databases import QueueKey
from awa_operator.identity import database_identity
from awa_operator.resources import (
    AUTOSCALERS,
    DEPLOYMENTS,
    JOBS,
    LISTED,
    PODS,
    QUEUES,
    WATCHED,
    Ref,
    Resource,
)
from awa_operator.scaler_traces import ScalerTraces, replica_owners

type Object = Mapping[str, Any]

SHOWN_TO_OTHERS: Mapping[str, Any] = {
    "queue_name": True,
    "replicas": True,
    "suspend": True,
    "database": True,
    "migration": True,
    "worker": {"image", "env"},
    "scaling": {"mode", "min_replicas", "max_replicas"},
    "rollout": {"max_surge"},
}
"""The part of a spec that the plans of other Queues of the same database may depend on."""
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


@dataclass(frozen=True, slots=True)
class QueueEntry:
    """A Queue as it was last heard of: parsed, or why it cannot be."""

    key: QueueKey
    uid: str
    generation: int
    version: str
    is_deleting: bool
    queue: Queue | None
    problems: tuple[str, ...]
    status: QueueStatus
    identity: str | None

    def concerns_others_since(self, before: "QueueEntry") -> bool:
        """Tell whether other Queues of the same database would see that this one has changed."""
        if self.generation != before.generation and self._shown != before._shown:
            return True
        return (self.is_deleting, self.status.migration, self._announced) != (
            before.is_deleting, before.status.migration, before._announced,
        )  # fmt: skip

    @property
    def _shown(self) -> object:
        """What the plans of others may read of the spec; nothing of one that cannot be read."""
        queue = self.queue
        return None if queue is None else queue.spec.model_dump(include=SHOWN_TO_OTHERS)

    @property
    def _announced(self) -> object:
        """What others do not run beside: an exclusive migration, or the wait for one."""
        if not self.is_exclusive:
            return None
        found = find_condition(self.status, ConditionType.RECONCILING)
        return (found.status, found.reason) if found is not None else None

    @property
    def is_exclusive(self) -> bool:
        """Its migrations wait until no worker of the database is left."""
        return self.queue is not None and self.queue.spec.migration.strategy == "Exclusive"


@dataclass(frozen=True, slots=True)
class _Kept:
    """One object: what indexes need, and all of it as text; Queues are kept elsewhere."""

    uid: str
    version: str
    labels: Mapping[str, str]
    text: bytes
    replicas: int = 0

    def body(self) -> Object:
        found: Object = json.loads(self.text)
        return found


@dataclass(slots=True)
class _Store:
    """The objects of one kind, and those that went while a list was being made."""

    objects: dict[Ref, _Kept] = field(default_factory=dict)
    gone: dict[Ref, str] | None = None


@dataclass(frozen=True, slots=True)
class Listeners:
    """Who is told of changes: of a Queue that must be looked at now, soon, or that is gone."""

    changed: Callable[[QueueKey], None]
    nudged: Callable[[QueueKey], None]
    removed: Callable[[QueueKey], None]


class Cache:
    """Everything that is known of the cluster."""

    def __init__(self, listeners: Listeners) -> None:
        self._listeners = listeners
        self._stores = {resource: _Store() for resource in (*WATCHED, *LISTED)}
        self._queues: dict[QueueKey, QueueEntry] = {}
        self._by_identity: dict[str, set[QueueKey]] = {}
        self._pods_of_queue: dict[QueueKey, set[Ref]] = {}
        self._pods_of_job: dict[Ref, set[Ref]] = {}
        self._jobs_of_identity: dict[tuple[str, str], set[Ref]] = {}
        self._scalers_of_queue: dict[QueueKey, set[Ref]] = {}
        self._traces = ScalerTraces()

    # --- what is known ---------------------------------------------------------------------

    def queue(self, key: QueueKey) -> QueueEntry | None:
        """Return a Queue."""
        return self._queues.get(key)

    def queues(self) -> tuple[QueueEntry, ...]:
        """Return all Queues of this moment."""
        return tuple(self._queues.values())

    def group(self, identity: str) -> tuple[QueueEntry, ...]:
        """Return the Queues of one database in the order of their names."""
        return tuple(self._queues[key] for key in sorted(self._by_identity.get(identity, ())))

    def find(self, resource: Resource, namespace: str, name: str) -> Object | None:
        """Return an object that bears our label."""
        kept = self._stores[resource].objects.get((namespace, name))
        return None if kept is None else kept.body()

    def migrates_exclusively(self, identity: str) -> bool:
        """Tell whether migrations of a database wait until none of its workers is left."""
        return any(entry.is_exclusive for entry in self.group(identity))

    def jobs(self, namespace: str, identity: str) -> list[Object]:
        """Return the migration Jobs of a database."""
        return self._bodies(JOBS, self._jobs_of_identity.get((namespace, identity), ()))

    def pods_of_job(self, namespace: str, name: str) -> list[Object]:
        """Return the pods of a Job."""
        return self._bodies(PODS, self._pods_of_job.get((namespace, name), ()))

    def pods_of_queue(self, key: QueueKey) -> list[Object]:
        """Return the worker pods of a Queue, those that are on their way out included."""
        return self._bodies(PODS, self._pods_of_queue.get(key, ()))

    def count_pods_of_queue(self, key: QueueKey) -> int:
        """Return how many worker pods of a Queue exist."""
        return len(self._pods_of_queue.get(key, ()))

    def scaler_of_queue(self, key: QueueKey) -> str | None:
        """Return who besides us sets the replica count of a Queue's Deployment all the time."""
        listed = sorted(self._scalers_of_queue.get(key, ()))
        if listed:
            return f"HorizontalPodAutoscaler {listed[0][1]}"
        return self._traces.scaler((key[0], names.worker_name(key[1])))

    def replicas_of_queue(self, key: QueueKey) -> int:
        """Return how many workers the Deployment of a Queue asks for, 0 without one."""
        kept = self._stores[DEPLOYMENTS].objects.get((key[0], names.worker_name(key[1])))
        return 0 if kept is None else kept.replicas

    def versions(self, resource: Resource) -> dict[Ref, str]:
        """Return the version of each object of a kind, to be compared with a list."""
        return {ref: kept.version for ref, kept in self._stores[resource].objects.items()}

    def _bodies(self, resource: Resource, refs: Iterable[Ref]) -> list[Object]:
        objects = self._stores[resource].objects
        return [objects[ref].body() for ref in sorted(refs)]

    # --- what is told ----------------------------------------------------------------------

    def put(self, resource: Resource, body: Object) -> bool:
        """Take in an object; return whether it was news."""
        store, ref = self._stores[resource], ref_of(body)
        known = store.objects.get(ref)
        if known is not None and not is_newer(version_of(body), known.version):
            return False
        if store.gone is not None and not is_newer(version_of(body), store.gone.get(ref, "0")):
            return False
        if resource is QUEUES:
            self._put_queue(store, ref, body)
            return True
        if known is not None:
            self._unindex(resource, ref, known)
        kept = _keep(resource, body)
        store.objects[ref] = kept
        if resource is DEPLOYMENTS:
            self._traces.saw(ref, body)
        for index, place in self._places(resource, ref, kept):
            index.setdefault(place, set()).add(ref)
        self._tell(resource, ref, kept)
        return True

    def drop(self, resource: Resource, body: Object) -> bool:
        """Take out an object that was deleted; return whether it was known."""
        ref = ref_of(body)
        return self._drop(resource, ref, uid_of(body), version_of(body))

    def listing(self, resource: Resource) -> None:
        """Remember from now on what goes: a list is being made that may still show it."""
        self._stores[resource].gone = {}
        if resource is AUTOSCALERS:
            self._traces.asking()

    def listed(self, resource: Resource) -> None:
        """End what `listing` began, without taking in the list."""
        self._stores[resource].gone = None

    def take_list(
        self, resource: Resource, items: Iterable[Object], version: str, within: str | None
    ) -> list[Ref]:
        """Take in a list of a namespace, or of all; return what it changed.

        `version` is that of the list: what is newer than it is not taken for gone.
        """
        store = self._stores[resource]
        listed, changed = set(), []
        for body in items:
            listed.add(ref_of(body))
            if self.put(resource, body):
                changed.append(ref_of(body))
        store.gone = None
        for ref, known in list(store.objects.items()):
            if ref in listed or (within is not None and ref[0] != within):
                continue
            if version_number(known.version) <= version_number(version):
                self._drop(resource, ref, known.uid, known.version)
                changed.append(ref)
        if resource is AUTOSCALERS:
            self._hear_of_scalers(within)
        return changed

    # --- changes and who is told -------------------------------------------------------------

    def _drop(self, resource: Resource, ref: Ref, uid: str, version: str) -> bool:
        store = self._stores[resource]
        if store.gone is not None:
            store.gone[ref] = version
        known = store.objects.get(ref)
        # A new object of the same name may have been heard of already.
        if known is None or (known.uid != uid and is_newer(known.version, version)):
            return False
        del store.objects[ref]
        if resource is DEPLOYMENTS:
            self._traces.forget(ref)
        if resource is QUEUES:
            self._drop_queue(ref)
            return True
        self._unindex(resource, ref, known)
        self._tell(resource, ref, known)
        if resource is PODS and known.labels.get(labels.COMPONENT) == labels.WORKER:
            self._tell_who_waits_for_pods(ref[0], known.labels.get(labels.QUEUE, ""))
        return True

    def _hear_of_scalers(self, within: str | None) -> None:
        """Tell of each Queue whose Deployment a list of the autoscalers says more of."""
        for ref in list(self._traces.answered(within)):
            self._tell(DEPLOYMENTS, ref, self._stores[DEPLOYMENTS].objects[ref])

    def _put_queue(self, store: _Store, ref: Ref, body: Object) -> None:
        entry, before = read_queue(body), self._queues.get(ref)
        store.objects[ref] = _Kept(entry.uid, entry.version, {}, b"")
        if before is not None and before.identity is not None:
            _discard(self._by_identity, before.identity, ref)
        self._queues[ref] = entry
        if entry.identity is not None:
            self._by_identity.setdefault(entry.identity, set()).add(ref)
        self._listeners.changed(ref)
        if before is None:
            self._tell_others(ref, entry.identity, self._listeners.nudged)
        elif entry.concerns_others_since(before):
            for identity in {before.identity, entry.identity}:
                self._tell_others(ref, identity, self._listeners.changed)

    def _drop_queue(self, ref: Ref) -> None:
        entry = self._queues.pop(ref)
        if entry.identity is not None:
            _discard(self._by_identity, entry.identity, ref)
        self._listeners.removed(ref)
        self._tell_others(ref, entry.identity, self._listeners.changed)

    def _unindex(self, resource: Resource, ref: Ref, known: _Kept) -> None:
        for index, place in self._places(resource, ref, known):
            _discard(index, place, ref)

    def _places(
        self, resource: Resource, ref: Ref, kept: _Kept
    ) -> Iterator[tuple[dict[Any, set[Ref]], Any]]:
        """Yield each index in which an object stands, and where."""
        namespace, marks = ref[0], kept.labels
        if resource is JOBS and labels.DATABASE in marks:
            yield self._jobs_of_identity, (namespace, marks[labels.DATABASE])
        if resource is AUTOSCALERS and labels.QUEUE in marks:
            yield self._scalers_of_queue, (namespace, marks[labels.QUEUE])
        if resource is not PODS:
            return
        if marks.get(labels.COMPONENT) == labels.WORKER and labels.QUEUE in marks:
            yield self._pods_of_queue, (namespace, marks[labels.QUEUE])
        elif job := marks.get("batch.kubernetes.io/job-name"):
            yield self._pods_of_job, (namespace, job)

    def _tell(self, resource: Resource, ref: Ref, kept: _Kept) -> None:
        """Tell of each Queue that a change of an object concerns."""
        if name := kept.labels.get(labels.QUEUE):
            self._listeners.changed((ref[0], name))
            if resource is DEPLOYMENTS:
                self._tell_who_waits_for_pods(ref[0], name)
        if resource in (JOBS, PODS) and (identity := kept.labels.get(labels.DATABASE)):
            self._tell_others(None, identity, self._listeners.changed)

    def _tell_others(
        self, but: QueueKey | None, identity: str | None, tell: Callable[[QueueKey], None]
    ) -> None:
        for key in sorted(self._by_identity.get(identity or "", ())):
            if key != but:
                tell(key)

    def _tell_who_waits_for_pods(self, namespace: str, name: str) -> None:
        entry = self._queues.get((namespace, name))
        identity = entry.identity if entry is not None else None
        for key in sorted(self._by_identity.get(identity or "", ())):
            if self._queues[key].is_exclusive:
                self._listeners.changed(key)


def read_queue(body: Object) -> QueueEntry:
    """Return a Queue of the API server, parsed if it can be."""
    meta = dict(body["metadata"])
    # Neither is looked at, and both can be large.
    meta.pop("managedFields", None)
    meta["annotations"] = {
        key: value for key, value in (meta.get("annotations") or {}).items() if key != _LAST_APPLIED
    }
    queue: Queue | None = None
    problems: tuple[str, ...] = ()
    try:
        queue = parse_stored_queue({**body, "metadata": meta})
    except ManifestError as error:
        problems = tuple(
            f"{problem.path}: {problem.message}" if problem.path else problem.message
            for problem in error.problems
        )
    namespace = str(meta.get("namespace", ""))
    return QueueEntry(
        key=(namespace, str(meta["name"])),
        uid=str(meta.get("uid", "")),
        generation=int(meta.get("generation", 0)),
        version=version_of(body),
        is_deleting=meta.get("deletionTimestamp") is not None,
        queue=queue,
        problems=problems,
        status=_status_of(queue, body),
        identity=None if queue is None else database_identity(namespace, queue.spec.database),
    )


def _status_of(queue: Queue | None, body: Object) -> QueueStatus:
    """Return the status, also that of a Queue whose spec cannot be read."""
    if queue is not None:
        return queue.status or QueueStatus()
    try:
        return QueueStatus.model_validate(body.get("status") or {})
    except ValueError:
        return QueueStatus()


def _keep(resource: Resource, body: Object) -> _Kept:
    """Return what is kept of an object: all that decisions look at, and little more."""
    meta = dict(body["metadata"])
    if meta.pop("managedFields", None) and resource is DEPLOYMENTS:
        meta["managedFields"] = [
            {"manager": one.get("manager", "")} for one in replica_owners(body)
        ]
    kept = {**body, "metadata": meta}
    marks = dict(meta.get("labels") or {})
    if resource is AUTOSCALERS:
        kept, marks = {"metadata": meta}, _scaled_queue(body)
    if resource is PODS:
        kept["spec"] = {"nodeName": (body.get("spec") or {}).get("nodeName")}
    if resource is JOBS:
        spec = body.get("spec") or {}
        kept["spec"] = {key: value for key, value in spec.items() if key != "template"}
    return _Kept(
        uid=uid_of(body),
        version=version_of(body),
        labels=marks,
        text=json.dumps(kept, separators=(",", ":")).encode(),
        replicas=int((body.get("spec") or {}).get("replicas") or 0)
        if resource is DEPLOYMENTS
        else 0,
    )


def _scaled_queue(body: Object) -> dict[str, str]:
    """Return the Queue whose Deployment an autoscaler targets, in the form of our label."""
    target = (body.get("spec") or {}).get("scaleTargetRef") or {}
    if target.get("kind") != DEPLOYMENTS.kind:
        return {}
    name, ending = str(target.get("name", "")), names.worker_name("")
    return {labels.QUEUE: name.removesuffix(ending)} if name.endswith(ending) else {}


def _discard(index: dict[Any, set[Ref]], place: Any, ref: Ref) -> None:
    found = index.get(place)
    if found is None:
        return
    found.discard(ref)
    if not found:
        del index[place]


def version_number(version: str | None) -> int:
    """Return a resourceVersion as a number that grows; -1 if it is none."""
    return int(version) if version is not None and version.isdecimal() else -1


def is_newer(version: str | None, than: str | None) -> bool:
    """Tell whether an object is newer; one whose version is no number counts as newer."""
    mine, other = version_number(version), version_number(than)
    return mine > other or mine < 0 or other < 0


def ref_of(body: Object) -> Ref:
    """Return namespace and name of an object."""
    meta = body["metadata"]
    return str(meta.get("namespace", "")), str(meta["name"])


def version_of(body: Object) -> str:
    """Return an object's resourceVersion."""
    return str(body["metadata"].get("resourceVersion", ""))


def uid_of(body: Object) -> str:
    """Return an object's uid."""
    return str(body["metadata"].get("uid", ""))
