"""Types and reasons of conditions, how one is set, and what a message may say."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Literal

from awa.manifest import Condition, ConditionType, QueueStatus

MAX_MESSAGE = 1024
"""Characters of a message; the resource's schema allows no more."""


class Reason(StrEnum):
    """One word for each state that a condition can name."""

    # Ready
    READY = "WorkersAvailable"
    SUSPENDED = "Suspended"
    DELETING = "Deleting"

    # Reconciling and Stalled are False
    SETTLED = "Settled"
    PROGRESSING = "Progressing"
    NO_PROBLEM = "NoProblem"

    # Reconciling
    MIGRATION_RUNNING = "MigrationRunning"
    ROLLING_OUT = "RollingOut"
    WAITING_FOR_DATABASE = "WaitingForDatabase"
    DRAINING = "Draining"
    WAITING_FOR_MIGRATION = "WaitingForMigration"
    WAITING_FOR_FLEET = "WaitingForFleet"
    WAITING_FOR_QUOTA = "Refused"
    ROLLOUT_PAUSED = "RolloutPaused"
    WAITING_FOR_TURN = "WaitingForTurn"
    REPLACING = "Replacing"

    # Stalled
    INVALID_SPEC = "InvalidSpec"
    MIGRATION_FAILED = "MigrationFailed"
    ATTEMPTS_EXHAUSTED = "AttemptsExhausted"
    TEMPLATE_INVALID = "TemplateInvalid"
    SCHEMA_NEWER = "SchemaNewerThanWorker"
    ROLLOUT_STALLED = "RolloutStalled"
    ROLLED_BACK = "RolledBack"
    NAME_CONFLICT = "NameConflict"

    # DatabaseReachable (others are the values of SecretState and DatabaseProblem)
    CONNECTED = "Connected"
    NOT_PROBED = "NotProbed"

    # SchemaMigrated
    MIGRATED = "Migrated"
    SCHEMA_AHEAD = "SchemaAhead"
    EXTERNAL = "External"
    NOT_CHECKED = "NotChecked"
    PENDING = "Pending"
    RUNNING = "Running"
    FAILED = "Failed"
    LOCK_TIMEOUT = "LockTimeout"
    RUNTIME_TOO_OLD = "RuntimeTooOld"
    SUPERSEDED = "Superseded"

    # WorkersAvailable (others are the values of PodTrouble)
    AVAILABLE = "MinimumAvailable"
    NONE_WANTED = "NoneWanted"
    NO_PODS = "NoPods"
    NOT_READY = "NotReady"

    # ScalingActive
    SCALING = "Scaling"
    FIXED = "Fixed"
    AT_MAX = "AtMax"
    METRICS_UNAVAILABLE = "MetricsUnavailable"
    HELD_BY_MIGRATION = "HeldByMigration"
    CONFLICTING_SCALER = "ConflictingScaler"


_SECRETS = (
    # An address with a scheme: whatever it holds, nothing of it is needed to understand a failure.
    (re.compile(r"\b[a-z][a-z0-9+.-]*://\S+", re.IGNORECASE), "[address]"),
    # Words of a connection string. The value may be quoted, and quotes inside are escaped.
    (
        re.compile(
            r"\b(password|passwd|pwd|passfile|sslpassword|sslkey|user|host|hostaddr|dbname)"
            r"""\s*=\s*('(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"|\S+)""",
            re.IGNORECASE,
        ),
        r"\1=[hidden]",
    ),
    # user:password@host without a scheme; an image with a digest is none.
    (re.compile(r"[^\s:@/('\"]+:[^\s@]+@(?!sha\d+:)[\w.-]+"), "[address]"),
)
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]+")


def safe_message(text: str, limit: int = MAX_MESSAGE) -> str:
    """Return a text without addresses and passwords, at most `limit` characters long."""
    text = _CONTROL.sub(" ", text).strip()
    for pattern, replacement in _SECRETS:
        text = pattern.sub(replacement, text)
    return text if len(text) <= limit else text[: limit - 1] + "…"


@dataclass(frozen=True, slots=True)
class Statement:
    """A condition without its times. `holds` None is Unknown."""

    type: ConditionType
    holds: bool | None
    reason: str
    message: str = ""


def dated(
    previous: QueueStatus, statements: Sequence[Statement], generation: int, now: datetime
) -> tuple[Condition, ...]:
    """Return statements as conditions: the time moves only when the status value changes."""
    before = {one.type: one for one in previous.conditions}
    return tuple(set_condition(before.get(one.type), one, generation, now) for one in statements)


def set_condition(
    before: Condition | None, said: Statement, generation: int, now: datetime
) -> Condition:
    """Return the condition that takes the place of `before`."""
    status: Literal["True", "False", "Unknown"] = "Unknown"
    if said.holds is not None:
        status = "True" if said.holds else "False"
    moved = before is None or before.status != status
    return Condition(
        type=said.type.value,
        status=status,
        observedGeneration=generation,
        lastTransitionTime=now if before is None or moved else before.last_transition_time,
        reason=said.reason,
        message=safe_message(said.message),
    )


def said_before(before: Condition) -> Statement:
    """Return a condition as the statement that it was made of."""
    holds = {"True": True, "False": False}.get(before.status)
    return Statement(ConditionType(before.type), holds, before.reason, before.message)


def find_condition(status: QueueStatus, kind: ConditionType) -> Condition | None:
    """Return a condition of a status, None when it was never set."""
    return next((one for one in status.conditions if one.type == kind), None)


def has_reason(status: QueueStatus, kind: ConditionType, *reasons: str) -> bool:
    """Tell whether a condition of a status has one of these reasons, whatever its value."""
    found = find_condition(status, kind)
    return found is not None and found.reason in reasons
