"""Which database, which migration, which template: short hashes of canonical JSON.

A hash that is stored outlives the operator that made it, so it starts with the version of the
algorithm, and a stored hash is compared by its own version. Change what goes into a hash only
together with a new version that keeps the old one.
"""

import hashlib
import json
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from awa.manifest import Queue
from awa.manifest.queue import Database

IDENTITY_DIGITS = 10
SECRET_DIGITS = 6

type Algorithm = Callable[[str], str]


def canonical_json(value: object) -> str:
    """Return the one text of a plain JSON value: sorted keys, no spaces, ASCII."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def _first(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


ALGORITHMS: Mapping[int, Algorithm] = MappingProxyType({1: _first})
"""Every algorithm that ever made a stored hash, by its version."""
CURRENT = 1


def versioned_hash(value: object, version: int = CURRENT) -> str:
    """Return a hash such as `1-0f3a…`: label-safe, at most 20 characters."""
    return f"{version}-{ALGORITHMS[version](canonical_json(value))}"


def is_hash_of(stored: str | None, value: object) -> bool:
    """Tell whether a stored hash, of whichever known version, is that of `value`."""
    version, _, _ = (stored or "").partition("-")
    if not version.isdecimal() or int(version) not in ALGORITHMS:
        return False
    return versioned_hash(value, int(version)) == stored


def database_identity(namespace: str, database: Database) -> str:
    """Return the hash of the reference to a database; of the reference, never of its content."""
    reference = {
        "namespace": namespace,
        "secret": database.connection_secret_ref.name,
        "key": database.connection_secret_ref.key,
        "schema": database.schema_name,
    }
    return hashlib.sha256(canonical_json(reference).encode()).hexdigest()[:IDENTITY_DIGITS]


def migration_target(queue: Queue) -> dict[str, Any]:
    """Return what a migration depends on: the value that target hashes are made of."""
    migration = queue.spec.migration
    return {
        "image": queue.migration_image,
        "command": list(migration.command or ()),
        "args": list(migration.args or ()),
        "env": [one.model_dump(mode="json", by_alias=True, exclude_none=True)
                for one in migration.env],
        "schema": queue.spec.database.schema_name,
    }  # fmt: skip


def target_hash(queue: Queue) -> str:
    """Return the hash of the migration that a Queue asks for."""
    return versioned_hash(migration_target(queue))


def spec_hash(queue: Queue) -> str:
    """Return the hash of a spec without its replica count, which scalers write.

    It tells whether a person changed something since a migration failed.
    """
    spec = queue.spec.model_dump(mode="json", by_alias=True, exclude_unset=True)
    spec.pop("replicas", None)
    return versioned_hash(spec)


def template_hash(template: Mapping[str, Any]) -> str:
    """Return the hash of a pod template as we render it, before the API server adds defaults."""
    return versioned_hash(template)


def secret_hash(secret_uid: str, value: bytes) -> str:
    """Return a mark of a Secret's value that changes with it.

    24 bits: enough to see a change, too few to confirm a guess of the value.
    """
    digest = hashlib.sha256(secret_uid.encode() + b"\0" + value)
    return digest.hexdigest()[:SECRET_DIGITS]
