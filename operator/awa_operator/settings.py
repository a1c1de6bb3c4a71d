"""Every setting of the operator: its environment variable, its unit and its default.

The variable of a field is `AWA_OPERATOR_` and its name in capitals. Nothing else reads the
environment, and nothing does at import.
"""

import re
import secrets
import socket
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from awa_operator.errors import SettingsError

PREFIX = "AWA_OPERATOR_"
_NAMESPACE_FILE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
_DNS_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_SERVICE_LINK = re.compile(r"(tcp|udp|sctp)://")

Seconds = Annotated[float, Field(ge=0, le=86400)]
Port = Annotated[int, Field(ge=0, le=65535)]


class OperatorSettings(BaseModel):
    """How the operator runs. Made by `from_environment`; durations are in seconds."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    namespaces: tuple[str, ...] = ()
    """Namespaces whose Queues are served, separated by commas; every namespace if empty."""
    lease_namespace: str = "default"
    """Namespace of the Lease; the pod's own if not set."""
    lease_name: Annotated[str, Field(min_length=1, max_length=253)] = "awa-operator"
    """Name of the Lease that replicas compete for."""
    identity: Annotated[str, Field(min_length=1, max_length=253)]
    """Name of this replica in the Lease; a pod's name, so that a restarted container goes on."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """What is logged at least."""
    health_port: Port = 8080
    """Port of `/healthz` and `/readyz`; 0 takes a free one."""
    metrics_port: Port = 9090
    """Port of `/metrics`; 0 takes a free one."""
    bind_address: str = "0.0.0.0"  # noqa: S104
    """Address that both ports listen on: probes come from the node, scrapes from pods."""
    kubeconfig: Path | None = None
    """File that says how to reach the API server; the pod's service account if not set."""
    concurrency: Annotated[int, Field(ge=1, le=256)] = 8
    """Queues that are reconciled at once."""
    reconcile_timeout_seconds: Seconds = 60.0
    """How long one reconcile may take; it is ended and tried again after that."""
    concurrent_rollouts: Annotated[int, Field(ge=0, le=10000)] = 50
    """Queues whose workers are replaced at the same time at most; 0 is no limit."""
    secret_seconds: Seconds = 300.0
    """How long what a Secret held is relied on; sooner when a database refuses it."""
    resync_seconds: Seconds = 600.0
    """How often each Queue is looked at without a reason, with jitter."""
    retry_first_seconds: Seconds = 0.2
    """Wait after the first failed reconcile of a Queue; doubles with each further one."""
    retry_longest_seconds: Seconds = 30.0
    """Longest wait between failed reconciles of a Queue."""
    watch_retry_first_seconds: Seconds = 0.2
    """Wait before a failed watch is tried again; doubles each time, without an end."""
    watch_retry_longest_seconds: Seconds = 5.0
    """Longest wait before a failed watch is tried again."""
    watch_silence_seconds: Seconds = 70.0
    """A watch that says nothing for so long, not even a bookmark, is opened again."""
    request_timeout_seconds: Seconds = 15.0
    """How long one request to the API server may take."""
    audit_seconds: Seconds = 300.0
    """How often what the watches told is compared with a list."""
    audit_grace_seconds: Seconds = 10.0
    """How old a difference must be before it counts as one that a watch has missed."""
    lease_duration_seconds: Seconds = 15.0
    """How long a replica that has died keeps the lease."""
    lease_renew_seconds: Seconds = 10.0
    """How often the leader renews the lease."""
    lease_retry_seconds: Seconds = 1.0
    """How soon a failed renewal is tried again."""
    stuck_seconds: Seconds = 180.0
    """Work that waits for so long without any getting done makes `/healthz` fail."""
    loop_lag_seconds: Seconds = 20.0
    """An event loop that stands still for so long makes `/healthz` fail."""
    shutdown_seconds: Seconds = 2.5
    """How long SIGTERM waits for reconciles to end."""

    @field_validator("namespaces", mode="before")
    @classmethod
    def _split(cls, value: Any) -> Any:
        if not isinstance(value, str):
            return value
        return tuple(sorted({part.strip() for part in value.split(",") if part.strip()}))

    @field_validator("namespaces")
    @classmethod
    def _are_names(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if wrong := [name for name in value if not _DNS_LABEL.fullmatch(name)]:
            raise ValueError(f"names of namespaces separated by commas, not {wrong[0][:80]!r}")
        return value

    @field_validator("log_level", mode="before")
    @classmethod
    def _small_letters(cls, value: Any) -> Any:
        return value.strip().lower() if isinstance(value, str) else value

    @model_validator(mode="after")
    def _renews_in_time(self) -> Self:
        if self.lease_renew_seconds + self.lease_retry_seconds >= self.lease_duration_seconds:
            raise ValueError(
                "LEASE_RENEW_SECONDS and LEASE_RETRY_SECONDS together must be less than "
                "LEASE_DURATION_SECONDS"
            )
        return self

    @property
    def request_timeout(self) -> timedelta:
        """How long one request may take."""
        return timedelta(seconds=self.request_timeout_seconds)

    @classmethod
    def from_environment(cls, environ: Mapping[str, str]) -> Self:
        """Return the settings that `environ` asks for.

        Raises `SettingsError` naming each variable that cannot be used. An empty value counts as
        not set, and so does what Kubernetes sets for a Service called `awa-operator-…`.
        """
        values: dict[str, Any] = {}
        for name in cls.model_fields:
            value = environ.get(PREFIX + name.upper(), "").strip()
            if value and not _SERVICE_LINK.match(value):
                values[name] = value
        values.setdefault("identity", f"{socket.gethostname()}-{secrets.token_hex(4)}"[:253])
        if "lease_namespace" not in values and (own := _own_namespace()):
            values["lease_namespace"] = own
        if "kubeconfig" not in values and (given := environ.get("KUBECONFIG", "").strip()):
            values["kubeconfig"] = given
        try:
            return cls.model_validate(values)
        except ValidationError as error:
            raise SettingsError("; ".join(_problems(error))) from None


def _own_namespace() -> str | None:
    try:
        return _NAMESPACE_FILE.read_text().strip() or None
    except OSError:
        return None


def _problems(error: ValidationError) -> list[str]:
    """Return one sentence for each wrong variable, without its value."""
    found = []
    for problem in error.errors(include_url=False, include_input=False):
        name = PREFIX + str(problem["loc"][0]).upper() if problem["loc"] else PREFIX.rstrip("_")
        found.append(f"{name}: {problem['msg'].removeprefix('Value error, ')}")
    return found
