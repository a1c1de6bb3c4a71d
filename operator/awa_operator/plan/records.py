"""What is recorded as migrated, by this Queue or by another one of the same database."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from awa.manifest import QueueStatus
from awa.manifest.status import MigrationRecord, MigrationStatus
from awa_operator.identity import database_identity, is_hash_of
from awa_operator.observed import DatabaseView, Observed

MAX_HISTORY = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A success: of which target, by which image, with which version of the schema afterwards."""

    target_hash: str
    image: str
    schema_version: int | None
    completion_time: datetime | None
    is_own: bool


def find_record(observed: Observed, target: dict[str, Any]) -> Record | None:
    """Return the success that is recorded for a target, the Queue's own before another's."""
    records = (one for one in _records(observed) if is_hash_of(one.target_hash, target))
    return next(records, None)


def find_known_good(observed: Observed, image: str) -> Record | None:
    """Return an older success of an image to which the spec goes back.

    None when the image is that of the last success: then something else of the migration changed,
    and it has to run. None also when the database is not known to be as far.
    """
    own = list(_of(observed, observed.status, is_own=True))
    if not own or own[0].image == image or observed.database is None:
        return None
    version = observed.database.schema_version
    for record in own[1:]:
        if record.image == image and version and (record.schema_version or 0) <= version:
            return record
    return None


def speaks_of(observed: Observed, status: QueueStatus) -> bool:
    """Tell whether a status is about the database that the spec names now."""
    identity = status.database.identity if status.database else None
    here = database_identity(observed.namespace, observed.queue.spec.database)
    return identity in (None, here)


def seen_version(observed: Observed) -> int | None:
    """Return the version of the schema that was last seen, by a probe or before a restart."""
    now = observed.database.schema_version if observed.database is not None else None
    before = observed.status.database
    if now is not None or before is None or not speaks_of(observed, observed.status):
        return now
    return before.schema_version


def is_void(record_version: int | None, status: QueueStatus, database: DatabaseView | None) -> bool:
    """Tell whether the database went back behind a record: emptied, or restored from a backup.

    A version below the record alone does not say so: it may not be seen yet. It has to have been
    seen as far as the record before.
    """
    now = database.schema_version if database and database.is_reachable else None
    seen = status.database.schema_version if status.database else None
    if record_version is None or now is None or seen is None:
        return False
    return now < record_version <= seen


def with_record(
    history: tuple[MigrationRecord, ...], record: MigrationRecord
) -> tuple[MigrationRecord, ...]:
    """Return a history with a record at its head, once for each target and outcome.

    A Job that is in it already is not told twice. When it is full, what did not succeed goes
    before what did: that is what a rollback looks for.
    """
    if any(_is_same_job(one, record) for one in history):
        return history
    key = (record.target_hash, record.outcome)
    kept = [record, *(one for one in history if (one.target_hash, one.outcome) != key)]
    while len(kept) > MAX_HISTORY:
        failures = [one for one in kept[1:] if one.outcome != "Succeeded"]
        kept.remove(failures[-1] if failures else kept[-1])
    return tuple(kept)


def _is_same_job(one: MigrationRecord, other: MigrationRecord) -> bool:
    return (one.target_hash, one.completion_time) == (other.target_hash, other.completion_time)


def without_void(migration: MigrationStatus, observed: Observed) -> MigrationStatus:
    """Return a migration status without the successes that the database went back behind."""
    status, database = observed.status, observed.database
    history = tuple(
        one
        for one in migration.history
        if one.outcome != "Succeeded" or not is_void(one.schema_version, status, database)
    )
    kept = migration.model_copy(update={"history": history})
    if not is_void(migration.schema_version, status, database):
        return kept
    nothing = {"succeeded_hash": None, "completion_time": None, "schema_version": None}
    return kept.model_copy(update=nothing)


def _records(observed: Observed) -> Iterator[Record]:
    yield from _of(observed, observed.status, is_own=True)
    for sibling in observed.siblings:
        yield from _of(observed, sibling.status, is_own=False)


def _of(observed: Observed, status: QueueStatus, *, is_own: bool) -> Iterator[Record]:
    """Return the successes of one status that still count, the last one first."""
    migration, database = status.migration, observed.database
    if migration is None or not speaks_of(observed, status):
        return
    by_hash = {one.target_hash: one for one in migration.history if one.outcome == "Succeeded"}
    last = migration.succeeded_hash
    if last is not None and not is_void(migration.schema_version, status, database):
        image = by_hash[last].image if last in by_hash else ""
        yield Record(
            target_hash=last,
            image=image,
            schema_version=migration.schema_version,
            completion_time=migration.completion_time,
            is_own=is_own,
        )
    for record in by_hash.values():
        if record.target_hash != last and not is_void(record.schema_version, status, database):
            yield Record(
                target_hash=record.target_hash,
                image=record.image,
                schema_version=record.schema_version,
                completion_time=record.completion_time,
                is_own=is_own,
            )
