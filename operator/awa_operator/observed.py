"""Everything that a plan may look at, as frozen values.

`observe` builds an `Observed` from the API server, the database and the operator's own memory; the
planner reads nothing else. What has not been looked at is None, which never means "not there".
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from awa.manifest import Queue, QueueStatus
from awa.scaling.history import History
from awa.scaling.signals import Signals, Unknown

type Manifest = Mapping[str, Any]
"""An object of Kubernetes as plain JSON values."""


_NO_HISTORY = History()


class SecretState(StrEnum):
    """What came of reading one key of a Secret."""

    FOUND = "Found"
    NOT_FOUND = "SecretNotFound"
    KEY_MISSING = "SecretKeyMissing"
    FORBIDDEN = "SecretForbidden"
    INVALID_DSN = "InvalidDSN"


@dataclass(frozen=True, slots=True)
class SecretView:
    """One reference to a key of a Secret. The content is never here.

    `data_hash` is `identity.secret_hash` of the value; None unless the key was found. `message`
    adds to the state what a person needs (never a part of the value).
    """

    name: str
    key: str
    state: SecretState
    data_hash: str | None = None
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Secrets:
    """The three references of a Queue, resolved; two or three of them are often the same."""

    connection: SecretView
    migration: SecretView
    monitor: SecretView


class DatabaseProblem(StrEnum):
    """Why a database cannot be used: reasons of the condition DatabaseReachable."""

    CONNECTION_REFUSED = "ConnectionRefused"
    AUTHENTICATION_FAILED = "AuthenticationFailed"
    TIMEOUT = "Timeout"
    READ_ONLY = "ReadOnly"
    TOO_MANY_CONNECTIONS = "TooManyConnections"
    NO_SUCH_DATABASE = "NoSuchDatabase"
    PERMISSION_MISSING = "PermissionMissing"
    TLS_FAILED = "TLSFailed"
    UNREACHABLE = "Unreachable"


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseView:
    """The last probe of the database.

    `schema_version` is None when it could not be read, 0 when there is no schema yet.
    `last_contract_version` is the newest applied file that took something away: a program that
    knows the schema up to there or further still works. `reachable_since` is set once a probe has
    failed and a later one worked: the moment of that later one; None while unreachable, and
    when no failure has been seen. `failures` counts failed probes in a row. `message` says what is
    wrong, or what the operator's role lacks although it could connect. `max_connections` is what
    the server allows to ordinary roles.
    """

    at: datetime
    problem: DatabaseProblem | None = None
    message: str = ""
    schema_version: int | None = None
    last_contract_version: int | None = None
    reachable_since: datetime | None = None
    failures: int = 0
    max_connections: int | None = None

    @property
    def is_reachable(self) -> bool:
        """It answered and can be written."""
        return self.problem is None


class JobPhase(StrEnum):
    """Only the conditions Complete and Failed end a Job; FailureTarget does not."""

    ACTIVE = "Active"
    COMPLETE = "Complete"
    FAILED = "Failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPodView:
    """One pod of a migration Job.

    `is_live` until its phase is Succeeded or Failed, also while it is being deleted.
    `message` is the raw termination message. `waiting_reason` is that of the container
    (ImagePullBackOff, CreateContainerConfigError, …) or Unschedulable, since `waiting_since`.
    """

    name: str
    is_live: bool
    exit_code: int | None = None
    message: str = ""
    is_disrupted: bool = False
    finished_at: datetime | None = None
    waiting_reason: str | None = None
    waiting_message: str = ""
    waiting_since: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobView:
    """One migration Job of the database identity, by whichever Queue it was made.

    `number` is the last part of its name; `target_hash`, `attempt` and `image` are its label and
    annotations `awa.dev/target`, `awa.dev/attempt` and `awa.dev/image`. `failed_reason` is that of
    the condition Failed (PodFailurePolicy, BackoffLimitExceeded, DeadlineExceeded, …), and
    `ended_at` the time of the ending condition. `owner_uids` are those of its owner references.
    `spec_hashes` is its annotation `awa.dev/specs`: each owner's spec when it was made, by uid.
    `is_recorded`: nothing depends on it any more, by our annotation `awa.dev/recorded`.
    `is_exclusive`: no worker of the database may run until it is over, by `awa.dev/exclusive`.
    """

    name: str
    uid: str
    number: int
    target_hash: str
    attempt: int
    created_at: datetime
    image: str = ""
    phase: JobPhase = JobPhase.ACTIVE
    failed_reason: str | None = None
    failed_message: str = ""
    ended_at: datetime | None = None
    is_deleting: bool = False
    is_recorded: bool = False
    is_exclusive: bool = False
    deadline_seconds: int | None = None
    resource_version: str = ""
    owner_uids: frozenset[str] = frozenset()
    spec_hashes: Mapping[str, str] = field(default_factory=dict)
    pods: tuple[JobPodView, ...] = ()

    @property
    def has_live_pods(self) -> bool:
        """A pod may still be changing the schema."""
        return any(pod.is_live for pod in self.pods)


class PodTrouble(StrEnum):
    """What keeps a pod from working, the most telling first: reasons of WorkersAvailable.

    Refused: the ReplicaSet may not create pods (quota, admission).
    """

    REFUSED = "Refused"
    SCHEMA_INCOMPATIBLE = "SchemaIncompatible"
    IMAGE_PULL = "ImagePull"
    CONFIG_ERROR = "ConfigError"
    CRASH_LOOP = "CrashLoop"
    UNSCHEDULABLE = "Unschedulable"
    NOT_READY = "NotReady"


@dataclass(frozen=True, slots=True, kw_only=True)
class PodProblem:
    """The most telling problem among the worker pods of the newest template."""

    reason: PodTrouble
    message: str = ""
    since: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeploymentView:
    """The Deployment of the workers.

    `is_ours`: its controller is this Queue. `replicas` is `spec.replicas`; `total`, `ready`,
    `updated` and `available` are of its status, which speaks of `observed_generation`.
    `stored_template`, `last_good_template`, `template_hash`, `rolled_back_hash` and `held_replicas`
    are annotations of ours (`labels`). `replicas_managers` are the field managers that own
    `spec.replicas`. `manifest` has the live `metadata.labels` and `spec`, to see foreign edits;
    `applied_generation` is the generation right after our last apply in this process, None if
    there was none.
    """

    uid: str
    resource_version: str
    generation: int
    observed_generation: int
    is_ours: bool = True
    is_deleting: bool = False
    replicas: int = 1
    total: int = 0
    ready: int = 0
    updated: int = 0
    available: int = 0
    template_hash: str | None = None
    stored_template: str | None = None
    last_good_template: str | None = None
    rolled_back_hash: str | None = None
    held_replicas: int | None = None
    image: str = ""
    secret_hash: str | None = None
    is_available: bool = False
    progress_reason: str = ""
    progress_message: str = ""
    replicas_managers: frozenset[str] = frozenset()
    manifest: Manifest = field(default_factory=dict)
    applied_generation: int | None = None
    pod_problem: PodProblem | None = None


_NOTHING = QueueStatus()


@dataclass(frozen=True, slots=True, kw_only=True)
class SiblingView:
    """Another Queue of the same namespace with the same database identity.

    `worker_pods` counts the pods of its Deployment that exist, terminating ones included, and
    `replicas` is `spec.replicas` of the Deployment, 0 when there is none. The pods matter only
    while a Queue of the database migrates exclusively.
    """

    queue: Queue
    worker_pods: int = 0
    replicas: int = 0

    @property
    def uid(self) -> str:
        """What the API server calls it."""
        return self.queue.metadata.uid or ""

    @property
    def status(self) -> QueueStatus:
        """What was last written about it; empty if nothing was."""
        return self.queue.status or _NOTHING


@dataclass(frozen=True, slots=True, kw_only=True)
class SignalsView:
    """The last poll of this queue's signals, or that it failed."""

    at: datetime
    signals: Signals | Unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class SatelliteView:
    """An object beside the Deployment that exists; `manifest` has its live labels and spec."""

    kind: str
    name: str
    manifest: Manifest = field(default_factory=dict)
    is_ours: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class TemplateCheck:
    """What the API server said of a template, in a dry run or when it was applied.

    `generation` is that of the Queue. `refusal` is None when it was accepted. `is_permanent`: it is
    invalid whatever happens around it (422), so another try needs another spec; else (quota,
    admission, missing right) a later try may work.
    """

    template_hash: str
    generation: int
    at: datetime
    refusal: str | None = None
    is_permanent: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRefusal:
    """The API server refused to create a migration Job (quota, admission, invalid)."""

    target_hash: str
    generation: int
    at: datetime
    message: str
    is_permanent: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SatelliteRefusal:
    """The API server refused to write an object beside the Deployment (right, kind, quota)."""

    kind: str
    generation: int
    at: datetime
    message: str


@dataclass(frozen=True, slots=True)
class LostWorker:
    """A worker of this queue that the database calls alive and whose pod is gone for good."""

    worker_id: int
    pod: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """What is known about one Queue at one moment.

    `queue` is the parsed resource: `metadata.uid` and `metadata.generation` are set, and
    `queue.status` is what was last written. `jobs` are all migration Jobs of the database
    identity, `siblings` the other Queues of it. `worker_pods` counts pods of the own Deployment
    that exist, terminating ones included. `history` is what the scaling planner remembers: the
    `Plan.history` of before, or `History.from_status` after a restart. `foreign_scaler` names a
    scaler that targets the Deployment itself. `template_check`, `job_refusal` and
    `satellite_refusals` are the operator's memory of what the API server said last, which a restart
    loses.
    `is_budget_for_rollouts_left` is False while as many other rollouts run as may run at once.
    """

    queue: Queue
    secrets: Secrets
    database: DatabaseView | None = None
    jobs: tuple[JobView, ...] = ()
    deployment: DeploymentView | None = None
    worker_pods: int = 0
    siblings: tuple[SiblingView, ...] = ()
    signals: SignalsView | None = None
    history: History = _NO_HISTORY
    foreign_scaler: str | None = None
    satellites: tuple[SatelliteView, ...] = ()
    template_check: TemplateCheck | None = None
    job_refusal: JobRefusal | None = None
    satellite_refusals: tuple[SatelliteRefusal, ...] = ()
    lost_workers: tuple[LostWorker, ...] = ()
    is_budget_for_rollouts_left: bool = True

    @property
    def status(self) -> QueueStatus:
        """What was last written; empty if nothing was."""
        return self.queue.status or QueueStatus()

    @property
    def uid(self) -> str:
        """What the API server calls the Queue."""
        return self.queue.metadata.uid or ""

    @property
    def generation(self) -> int:
        """Generation of the spec."""
        return self.queue.metadata.generation or 0

    @property
    def namespace(self) -> str:
        """Where the Queue and all its objects live."""
        return self.queue.metadata.namespace or "default"

    @property
    def is_deleting(self) -> bool:
        """Garbage collection takes what the Queue owns; nothing is to be done."""
        return self.queue.metadata.deletion_timestamp is not None


SATELLITE_KINDS = ("PodDisruptionBudget", "NetworkPolicy", "PodMonitor")
"""Objects beside the Deployment, each at most once."""

FRESH_FOR = timedelta(seconds=60)
"""A probe this old no longer says that the database is there."""
