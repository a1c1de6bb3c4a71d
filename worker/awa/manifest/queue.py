"""The `Queue` resource: what a user writes."""

from typing import Annotated, Any, Literal, get_args

from pydantic import Field

from awa.manifest.part import ClusterOnly, Immutable, Part, Rule
from awa.manifest.rollout import Migration, Rollout
from awa.manifest.scaling import MAX_REPLICAS, Scaling
from awa.manifest.status import QueueStatus
from awa.manifest.values import (
    QUEUE_NAME,
    SCHEMA_NAME,
    Bool,
    CountOrPercent,
    DnsName,
    Int,
    Labels,
    Name,
)
from awa.manifest.worker import Worker

type ApiVersion = Literal["awa.dev/v1alpha1"]
type Kind = Literal["Queue"]

API_VERSION: str = get_args(ApiVersion.__value__)[0]
GROUP, _, VERSION = API_VERSION.partition("/")
KIND: str = get_args(Kind.__value__)[0]
MAX_NAME_LENGTH = 52
"""Deployments, Jobs and labels are named after the resource, in at most 63 characters."""

_OWN_DATABASE = ClusterOnly("`awa up` runs its own database")
_OWN_MIGRATION = ClusterOnly("`awa up` migrates its own database before it starts workers")
_NO_ROLLOUT = ClusterOnly("local processes are restarted, not rolled out")
_PODS = ClusterOnly("processes here are not pods")

QueueName = Annotated[str, Field(min_length=1, max_length=200, pattern=QUEUE_NAME)]
SchemaName = Annotated[str, Field(min_length=1, max_length=48, pattern=SCHEMA_NAME)]


class SecretKey(Part):
    """A key of a Secret of the same namespace that holds a connection string."""

    name: Name
    """Name of the Secret."""
    key: Name = "url"
    """Key within the Secret."""


class Database(Part):
    """The database that holds the queue."""

    connection_secret_ref: Annotated[SecretKey, _OWN_DATABASE]
    """Connection of the workers, by a role that may run jobs."""
    migration_secret_ref: Annotated[SecretKey | None, _OWN_DATABASE] = None
    """Connection of the migration, by a role that may change the schema and past any pooler;
    `connectionSecretRef` if not set."""
    monitor_secret_ref: Annotated[SecretKey | None, _OWN_DATABASE] = None
    """Connection of the operator, by a role that may read counters; `connectionSecretRef` if not
    set."""
    schema_name: Annotated[SchemaName, Field(alias="schema")] = "awa"
    """Schema that holds Awa's tables. Cannot be changed later."""

    RULES = (
        Rule(
            cel="!self.schema.startsWith('pg_') && self.schema != 'information_schema'",
            message="is a name that PostgreSQL keeps for itself; choose another, such as awa",
            field="schema",
            holds=lambda database: (
                not database.schema_name.startswith("pg_")
                and database.schema_name != "information_schema"
            ),
        ),
    )
    IMMUTABLE = (
        Immutable(
            cel="self.schema == oldSelf.schema",
            message="cannot be changed; create another Queue",
            field="schema",
            value=lambda database: database.schema_name,
        ),
    )

    @property
    def migration_secret(self) -> SecretKey:
        """The Secret that migrates, resolved."""
        return self.migration_secret_ref or self.connection_secret_ref

    @property
    def monitor_secret(self) -> SecretKey:
        """The Secret that the operator reads with, resolved."""
        return self.monitor_secret_ref or self.connection_secret_ref


class PodDisruptionBudget(Part):
    """How many workers a drain of nodes may take at once."""

    enabled: Bool = True
    """Whether there is a budget, from two replicas on."""
    max_unavailable: CountOrPercent = "25%"
    """Pods that may be missing."""


class NetworkPolicy(Part):
    """Who may talk to the workers."""

    enabled: Bool = False
    """Whether only metrics and probes may reach the workers."""


class PodMonitor(Part):
    """Whether Prometheus' operator is told about the workers."""

    enabled: Bool = False
    """Create a PodMonitor; its resource must exist in the cluster."""


class Monitoring(Part):
    """Who watches the workers."""

    pod_monitor: PodMonitor = PodMonitor()
    """A PodMonitor for the workers."""


class QueueSpec(Part):
    """What should be."""

    queue_name: QueueName | None = None
    """Name of the queue in the database; `metadata.name` if not set. Cannot be changed later."""
    replicas: Annotated[Int, Field(ge=0, le=MAX_REPLICAS)] | None = None
    """Replicas in the scaling modes `Fixed` and `External`; without a meaning in `Native`."""
    suspend: Bool = False
    """Drain every worker and start no migration; a running one is left to finish."""
    database: Database
    """The database that holds the queue."""
    worker: Worker
    """What runs the handlers."""
    migration: Annotated[
        Migration, Field(default_factory=dict, validate_default=True), _OWN_MIGRATION
    ]
    """How the schema is brought up to date. Mode `Job`, the default, needs a command."""
    rollout: Annotated[Rollout, _NO_ROLLOUT] = Rollout()
    """How workers are replaced."""
    scaling: Scaling = Scaling()
    """How many workers there are."""
    pod_disruption_budget: Annotated[PodDisruptionBudget, _PODS] = PodDisruptionBudget()
    """How many workers a drain of nodes may take at once."""
    network_policy: Annotated[NetworkPolicy, _PODS] = NetworkPolicy()
    """Who may talk to the workers."""
    monitoring: Annotated[Monitoring, _PODS] = Monitoring()
    """Who watches the workers."""


class Metadata(Part):
    """The usual metadata of a resource; the API server adds more than a manifest needs."""

    name: DnsName
    """Name of the resource, at most 52 characters."""
    namespace: DnsName | None = None
    """Namespace of the resource."""
    labels: Labels | None = None
    """Labels of the resource."""
    annotations: Labels | None = None
    """Annotations of the resource."""
    uid: str | None = None
    generation: Int | None = None
    resource_version: str | None = None
    creation_timestamp: Any = None
    deletion_timestamp: Any = None
    deletion_grace_period_seconds: Any = None
    finalizers: Any = None
    generate_name: Any = None
    managed_fields: Any = None
    owner_references: Any = None
    self_link: Any = None


class Queue(Part):
    """A queue of jobs and the workers that run them.

    Nothing is written back: what a manifest leaves out stays out of `to_manifest`, and a default
    that depends on another field is a property, resolved when asked for.
    """

    api_version: ApiVersion
    """Group and version of the resource."""
    kind: Kind
    """Kind of the resource."""
    metadata: Metadata
    """Name and labels."""
    spec: QueueSpec
    """What should be."""
    status: QueueStatus | None = None
    """What is; written by the operator."""

    RULES = (
        Rule(
            cel=f"size(self.metadata.name) <= {MAX_NAME_LENGTH}",
            message=f"must have at most {MAX_NAME_LENGTH} characters; spec.queueName can be longer",
            field="metadata.name",
            holds=lambda queue: len(queue.metadata.name) <= MAX_NAME_LENGTH,
        ),
    )
    IMMUTABLE = (
        Immutable(
            cel="(has(self.spec.queueName) ? self.spec.queueName : self.metadata.name) == "
            "(has(oldSelf.spec.queueName) ? oldSelf.spec.queueName : oldSelf.metadata.name)",
            message="cannot be changed; create another Queue",
            field="spec.queueName",
            value=lambda queue: queue.queue_name,
        ),
    )

    @property
    def queue_name(self) -> str:
        """Name of the queue in the database, resolved."""
        return self.spec.queue_name or self.metadata.name

    @property
    def migration_image(self) -> str:
        """Image that migrates, resolved."""
        return self.spec.migration.image or self.spec.worker.image

    @property
    def target_jobs_per_replica(self) -> int:
        """Jobs per replica that scaling aims at, resolved."""
        return self.spec.scaling.target_jobs_per_replica or self.spec.worker.concurrency

    @property
    def first_replicas(self) -> int:
        """Replicas to start with where none run yet: 0 while suspended.

        In mode Native the minimum, from which the planner goes on; else `spec.replicas`, and one
        if that is not set, as Kubernetes does.
        """
        if self.spec.suspend:
            return 0
        if self.spec.scaling.mode == "Native":
            return self.spec.scaling.min_replicas
        return 1 if self.spec.replicas is None else self.spec.replicas

    def to_manifest(self) -> dict[str, Any]:
        """Return the manifest as it was written, as plain JSON values."""
        return self.model_dump(mode="json", by_alias=True, exclude_unset=True)
