"""The Lease object in the API server."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

from awa_operator.actions import MANAGER
from awa_operator.errors import ApiGone
from awa_operator.kube import Kube, Object
from awa_operator.lease import LeaseRecord
from awa_operator.resources import LEASES


class KubeLease:
    """Reads, writes and watches one Lease.

    A watch that says nothing for `silence` is opened again: renewals come more often than that.
    """

    def __init__(
        self, kube: Kube, namespace: str, name: str, silence: timedelta = timedelta(seconds=45)
    ) -> None:
        self._kube = kube
        self._namespace = namespace
        self._name = name
        self._silence = silence

    async def read(self) -> LeaseRecord | None:
        """Return the Lease, None if there is none."""
        try:
            return record_of(await self._kube.get(LEASES, self._namespace, self._name))
        except ApiGone:
            return None

    async def write(self, record: LeaseRecord) -> LeaseRecord:
        """Create or replace the Lease. Raises `ApiConflict` if it changed or exists."""
        manifest = manifest_of(record, self._namespace, self._name)
        try:
            if record.resource_version is None:
                return record_of(await self._kube.create(manifest, manager=MANAGER))
            return record_of(await self._kube.replace(manifest, manager=MANAGER))
        except ApiGone:
            # It was deleted: what was known of it no longer counts.
            del manifest["metadata"]["resourceVersion"]
            return record_of(await self._kube.create(manifest, manager=MANAGER))

    async def watch(self) -> AsyncIterator[LeaseRecord | None]:
        """Yield the Lease as it is, then each change, until the stream ends."""
        record = await self.read()
        yield record
        since = record.resource_version if record is not None else None
        events = self._kube.watch(
            LEASES,
            self._namespace,
            since=since or "0",
            fields=f"metadata.name={self._name}",
            silence=self._silence,
        )
        async for event in events:
            if event.type == "DELETED":
                yield None
            elif event.type != "BOOKMARK":
                yield record_of(event.object)


def record_of(body: Object) -> LeaseRecord:
    """Return what a Lease says; what is missing counts as the most careful value."""
    spec = body.get("spec") or {}
    return LeaseRecord(
        holder=str(spec.get("holderIdentity") or ""),
        duration=timedelta(seconds=int(spec.get("leaseDurationSeconds") or 15)),
        acquired=_moment(spec.get("acquireTime")),
        renewed=_moment(spec.get("renewTime")),
        transitions=int(spec.get("leaseTransitions") or 0),
        resource_version=str(body["metadata"]["resourceVersion"]),
    )


def manifest_of(record: LeaseRecord, namespace: str, name: str) -> dict[str, Any]:
    """Return the Lease that says what `record` says."""
    metadata: dict[str, Any] = {"name": name, "namespace": namespace}
    if record.resource_version is not None:
        metadata["resourceVersion"] = record.resource_version
    seconds = max(round(record.duration.total_seconds()), 1)
    spec = {
        "holderIdentity": record.holder,
        "leaseDurationSeconds": seconds,
        "acquireTime": _text(record.acquired),
        "renewTime": _text(record.renewed),
        "leaseTransitions": record.transitions,
    }
    return {
        "apiVersion": LEASES.api_version,
        "kind": LEASES.kind,
        "metadata": metadata,
        "spec": {key: value for key, value in spec.items() if value is not None},
    }


def _moment(text: object) -> datetime | None:
    return datetime.fromisoformat(str(text)).astimezone(UTC) if text else None


def _text(moment: datetime | None) -> str | None:
    if moment is None:
        return None
    return moment.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
