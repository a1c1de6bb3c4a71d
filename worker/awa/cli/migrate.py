"""`awa migrate`: the schema, and who may use it.

Exit codes are those of the migrations, for a Job to tell what is worth another try: 0 done, 64
usage, 65 permanent, 75 try again, 78 configuration, 130 interrupted.
"""

import asyncio
import json
import os
import sys
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from awa._store.database import Database
from awa.cli.exits import complain
from awa.cli.worker import DatabaseUrl, Schema
from awa.errors import (
    AwaError,
    DatabaseTooOld,
    DatabaseUnreachable,
    PermissionMissing,
    ValidationError,
)
from awa.settings import DatabaseSettings
from awa_migrations import ExitCode, Migration, MigrationsError, SchemaTooNew, migrate
from awa_migrations.__main__ import INTERRUPTED
from awa_migrations.__main__ import main as run_migrations

LONGEST_MESSAGE = 600
"""Kubernetes keeps 4096 bytes of a termination message."""


class Level(StrEnum):
    """What a role may do."""

    monitor = "monitor"
    reader = "reader"
    producer = "producer"
    worker = "worker"


@dataclass(slots=True)
class Order:
    """What is to be done, and what has been."""

    database_url: str = field(repr=False)
    schema: str
    to: int | None
    lane_pool: int | None
    roles: tuple[tuple[str, Level], ...]
    as_json: bool
    termination_log: Path | None
    facts: dict[str, object] = field(default_factory=dict)
    applied: list[int] = field(default_factory=list)


To = Annotated[int | None, typer.Option("--to", metavar="N", help="Stop at this version.")]
From = Annotated[
    int | None,
    typer.Option("--from", metavar="N", help="With --sql: the version that the schema has."),
]
ShowStatus = Annotated[bool, typer.Option("--status", help="Say where the schema is; no change.")]
ShowSql = Annotated[bool, typer.Option("--sql", help="Print the SQL for psql; no change.")]
LanePool = Annotated[
    int | None,
    typer.Option(
        "--lane-pool", min=1, max=1023, metavar="N",
        help="Have this many lanes, one for each queue and priority in use.",
    ),
]  # fmt: skip
Grant = Annotated[
    list[str] | None,
    typer.Option(
        "--grant",
        metavar="ROLE[:LEVEL]",
        help="Let this role use the schema, at the level of --level or one of its own; may be "
        "repeated.",
    ),
]
AtLevel = Annotated[
    Level,
    typer.Option(
        "--level",
        help="With --grant: monitor looks at counts and workers, for the operator; reader looks at "
        "jobs; producer also enqueues, cancels, retries; worker also runs them.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print one line of JSON.")]
TerminationLog = Annotated[
    Path | None,
    typer.Option(
        "--termination-log",
        metavar="PATH",
        help="Also write that line to this file, in any case. Default: AWA_TERMINATION_LOG, "
        "else no file.",
    ),
]


def migrate_schema(  # noqa: PLR0913 - one parameter for each option
    to: To = None,
    since: From = None,
    show_status: ShowStatus = False,
    show_sql: ShowSql = False,
    lane_pool: LanePool = None,
    grant: Grant = None,
    level: AtLevel = Level.worker,
    as_json: Json = False,
    termination_log: TerminationLog = None,
    database_url: DatabaseUrl = None,
    schema: Schema = None,
) -> None:
    """Bring the schema to this release's version; --lane-pool and --grant come after that.

    Nothing to do is cheap and takes no lock. The role needs to own the schema, or to be allowed to
    create it; workers and producers need only what --grant gives them.

    Exit codes: 0 done, 64 usage, 65 permanent, 75 try again, 78 configuration.
    """
    order = Order(
        database_url=database_url or os.environ.get("AWA_DATABASE_URL", "").strip(),
        schema=schema or os.environ.get("AWA_SCHEMA", "").strip() or "awa",
        to=to,
        lane_pool=lane_pool,
        roles=tuple(_leveled(role, level) for role in grant or ()),
        as_json=as_json,
        termination_log=termination_log or _termination_log(),
    )
    if show_status or show_sql:
        if (show_status and show_sql) or lane_pool is not None or grant:
            complain("--status and --sql change nothing; they take no other action beside them")
            raise typer.Exit(ExitCode.USAGE)
        raise typer.Exit(run_migrations(_words(order, since, show_sql=show_sql)))
    if since is not None:
        complain("--from goes with --sql: what the schema has is looked up otherwise")
        raise typer.Exit(ExitCode.USAGE)
    raise typer.Exit(_run(order))


def _termination_log() -> Path | None:
    named = os.environ.get("AWA_TERMINATION_LOG", "").strip()
    return Path(named) if named else None


def _leveled(text: str, usual: Level) -> tuple[str, Level]:
    """Return role and level; a colon belongs to the name unless a level follows."""
    role, _, level = text.rpartition(":")
    return (role, Level(level)) if role and level in Level else (text, usual)


def _words(order: Order, since: int | None, *, show_sql: bool) -> list[str]:
    words = ["sql" if show_sql else "status", "--schema", order.schema]
    if order.as_json:
        words.append("--json")
    if order.termination_log is not None:
        words += ["--termination-log", str(order.termination_log)]
    if not show_sql:
        return [*words, *(("--database-url", order.database_url) if order.database_url else ())]
    for name, value in (("--from", since), ("--to", order.to)):
        words += [] if value is None else [name, str(value)]
    return words


def _run(order: Order) -> int:
    """Do what is ordered, report it, and return the exit code."""
    try:
        asyncio.run(_do(order))
    except (MigrationsError, AwaError) as error:
        code, name = exit_code(error), type(error).__name__
        complain(f"{name}: {error}")
        message = str(error)[:LONGEST_MESSAGE]
        failed: dict[str, object] = {
            "error": name, "message": message, "exitCode": code, "applied": order.applied,
        }  # fmt: skip
        if isinstance(error, SchemaTooNew):
            failed["knownVersion"] = error.latest
        _report(order, failed, None)
        return code
    except KeyboardInterrupt:
        complain("interrupted; files applied so far stay applied")
        return INTERRUPTED
    _report(order, order.facts, _told(order))
    return ExitCode.DONE


async def _do(order: Order) -> None:
    if not order.database_url:
        raise ValidationError("which database? Give --database-url or set AWA_DATABASE_URL")

    def note(migration: Migration, duration: timedelta) -> None:
        order.applied.append(migration.version)
        seconds = duration.total_seconds()
        print(f"applied {migration.file_name} in {seconds:.2f} s", file=sys.stderr)

    report = await migrate(order.database_url, schema=order.schema, to=order.to, on_applied=note)
    order.facts |= {
        "from": report.from_version,
        "to": report.to_version,
        "applied": list(report.applied),
        "schemaVersion": report.to_version,
        "seconds": round(report.duration.total_seconds(), 3),
    }
    if order.lane_pool is None and not order.roles:
        return
    database = Database(
        DatabaseSettings(database_url=order.database_url, schema=order.schema), pool_size=1
    )
    try:
        if order.lane_pool is not None:
            order.facts["lanes"] = await database.value("grow_lane_pool", order.lane_pool)
        for role, level in order.roles:
            await database.value("grant_level", role, str(level))
        if order.roles:
            levels = {role: str(level) for role, level in order.roles}
            order.facts |= {"granted": list(levels), "levels": levels}
    finally:
        await database.close()


def _told(order: Order) -> str:
    facts = order.facts
    lines = [
        f'schema "{order.schema}" is at version {facts["to"]}'
        f" (was {facts['from']}; {len(order.applied)} applied in {facts['seconds']:.2f} s)"
    ]
    if "lanes" in facts:
        lines.append(f"{facts['lanes']} lanes")
    lines += [f'role "{role}" may use it as {level}' for role, level in order.roles]
    return "\n".join(lines)


def _report(order: Order, facts: dict[str, object], text: str | None) -> None:
    line = json.dumps(facts)
    if order.termination_log is not None:
        try:
            order.termination_log.write_text(f"{line}\n", encoding="utf-8")
        except OSError as error:
            # The schema is what it is: a report that cannot be written does not change it.
            complain(f"{order.termination_log}: {error.strerror}")
    shown = line if order.as_json else text
    if shown is not None:
        with suppress(BrokenPipeError):
            print(shown, flush=True)


def exit_code(error: MigrationsError | AwaError) -> int:
    """Return what a Job makes of an error."""
    if isinstance(error, MigrationsError):
        return error.exit_code
    if isinstance(error, ValidationError):
        return ExitCode.USAGE
    if isinstance(error, DatabaseUnreachable):
        return ExitCode.TRY_AGAIN
    if isinstance(error, PermissionMissing | DatabaseTooOld):
        return ExitCode.CONFIGURATION
    return ExitCode.PERMANENT
