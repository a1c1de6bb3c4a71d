"""S2 and S3: the Secrets can be read and the database answers and can be written."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from awa.manifest import ConditionType
from awa_operator.actions import ProbeDatabase, Stage, Waiting
from awa_operator.conditions import Reason, Statement, find_condition, said_before
from awa_operator.observed import (
    FRESH_FOR,
    DatabaseProblem,
    DatabaseView,
    Observed,
    SecretState,
    SecretView,
)
from awa_operator.plan.step import Step

SECRET_AGAIN_SOONEST = timedelta(seconds=4)
SECRET_AGAIN_LATEST = timedelta(seconds=60)
PROBE_AGAIN_LATEST = timedelta(seconds=10)
LOGIN_AGAIN_LATEST = timedelta(seconds=6)
"""With a grace and the time to connect within ten seconds after a Secret was put right."""
PROBED_BY = timedelta(seconds=1)
"""When to look for the answer of a probe that was asked for."""
GRACE = timedelta(seconds=2)
"""How much later than due a probe may come from whoever probes this database regularly."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Usable:
    """Whether workers can be given their Secret, and whether the database is there.

    `step` is what stands in the way, and what is done about it; empty when nothing does.
    """

    is_secret_found: bool
    is_database_there: bool
    step: Step
    condition: Statement


def plan_usable(observed: Observed, now: datetime) -> Usable:
    """Return what Secrets and database allow, without looking at what is wanted of them."""
    for secret in (observed.secrets.connection, observed.secrets.monitor):
        if secret.state is not SecretState.FOUND:
            return secret_missing(observed, secret, now)
    database = observed.database
    if database is None:
        return _not_probed(observed, now)
    if not database.is_reachable:
        return _unreachable(database, now)
    # What the operator's role lacks does not hold workers up; it is only said.
    words = database.message or "The database answers and can be written"
    return _usable(Step(), True, Reason.CONNECTED, words)


def secret_missing(observed: Observed, secret: SecretView, now: datetime) -> Usable:
    """Return that a Secret cannot be used, and when to read it again.

    Nothing tells when a Secret appears: Secrets are not watched. So it is read every few
    seconds at first, and every minute later.
    """
    state, message = secret.state, secret_message(secret)
    waiting = Waiting(Stage.SECRETS, state.value, message)
    before = find_condition(observed.status, ConditionType.DATABASE_REACHABLE)
    since = before.last_transition_time if before and before.status == "False" else now
    pause = min(max((now - since) / 10, SECRET_AGAIN_SOONEST), SECRET_AGAIN_LATEST)
    step = Step(progressing=waiting, due=now + pause)
    return _usable(step, False, state.value, message, is_secret_found=False)


def secret_message(secret: SecretView) -> str:
    """Return what is wrong with a reference and what to do."""
    what = {
        SecretState.NOT_FOUND: f"Secret {secret.name} does not exist; create it with the key "
        f"{secret.key}",
        SecretState.KEY_MISSING: f"Secret {secret.name} has no key {secret.key}; add it, or name "
        "another key in spec.database",
        SecretState.FORBIDDEN: f"The operator may not read Secret {secret.name}; allow it to get "
        "Secrets in this namespace",
        SecretState.INVALID_DSN: f"Key {secret.key} of Secret {secret.name} is no connection "
        "string; write postgresql://user@host/database",
        SecretState.FOUND: "",
    }[secret.state]
    return f"{what}: {secret.message}" if secret.message else what


def is_fresh(database: DatabaseView, now: datetime) -> bool:
    """Tell whether a probe is recent enough to start something that needs the database."""
    return now - database.at <= FRESH_FOR


def _not_probed(observed: Observed, now: datetime) -> Usable:
    """Ask for a probe; until it is there, what was said before a restart still stands."""
    words = "The database is being probed"
    waiting = Waiting(Stage.PROBE, Reason.WAITING_FOR_DATABASE, words)
    before = find_condition(observed.status, ConditionType.DATABASE_REACHABLE)
    if before is None:
        step = Step(actions=(ProbeDatabase(),), progressing=waiting, due=now + PROBED_BY)
        return _usable(step, None, Reason.NOT_PROBED, words)
    return Usable(
        is_secret_found=True,
        is_database_there=False,
        step=Step(actions=(ProbeDatabase(),), noted=(waiting,), due=now + PROBED_BY),
        condition=said_before(before),
    )


def _unreachable(database: DatabaseView, now: datetime) -> Usable:
    reason = database.problem.value if database.problem else ""
    message = database.message or "The database does not answer"
    is_refused = database.problem is DatabaseProblem.AUTHENTICATION_FAILED
    latest = LOGIN_AGAIN_LATEST if is_refused else PROBE_AGAIN_LATEST
    pause = min(timedelta(seconds=2 ** min(max(database.failures - 1, 0), 10)), latest)
    waiting = Waiting(Stage.PROBE, Reason.WAITING_FOR_DATABASE, message)
    due = database.at + pause + GRACE
    # Whoever polls this database probes it as well; this is for a database that nobody polls.
    actions = (ProbeDatabase(),) if now >= due else ()
    step = Step(actions=actions, progressing=waiting, due=max(due, now + GRACE))
    return _usable(step, False, reason, message)


def _usable(
    step: Step, holds: bool | None, reason: str, message: str, *, is_secret_found: bool = True
) -> Usable:
    return Usable(
        is_secret_found=is_secret_found,
        is_database_there=holds is True,
        step=step,
        condition=Statement(ConditionType.DATABASE_REACHABLE, holds, reason, message),
    )
