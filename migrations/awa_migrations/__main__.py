"""`python -m awa_migrations up | status | sql`: the migrations, for people and for Jobs.

Exit codes are those of `errors.ExitCode`: 0 done, 64 usage, 65 permanent, 75 try again, 78
configuration; 130 when interrupted. With `--json` standard output is exactly one line.
"""

import argparse
import asyncio
import json
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import NoReturn

from awa_migrations.catalog import Catalog, Migration, packaged_catalog
from awa_migrations.connection import DEFAULT_LIMITS, Limits
from awa_migrations.errors import ExitCode, MigrationsError, SchemaTooNew, UsageError
from awa_migrations.runner import migrate, status
from awa_migrations.schema_name import SchemaName
from awa_migrations.script import Scripts

INTERRUPTED = 130
# Kubernetes keeps 4096 bytes of a termination message, and JSON may need six for a character.
_MESSAGE_LIMIT = 600


def main(
    argv: list[str] | None = None,
    environment: Mapping[str, str] = os.environ,
    catalog: Callable[[], Catalog] = packaged_catalog,
) -> int:
    """Run one command and return its exit code. Arguments win over the environment."""
    arguments = _parser(environment).parse_args(argv)
    reporter = _Reporter(arguments)
    try:
        reporter.done(_COMMANDS[arguments.command](arguments, catalog(), reporter))
    except MigrationsError as error:
        reporter.failed(error)
        return error.exit_code
    except KeyboardInterrupt:
        print("awa_migrations: interrupted; files applied so far stay applied", file=sys.stderr)
        return INTERRUPTED
    return ExitCode.DONE


class _Reporter:
    """Says what happens: prose on standard error, the outcome on standard output."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self._is_json: bool = arguments.json
        self._log: Path | None = arguments.termination_log
        self._applied: list[int] = []

    def applied(self, migration: Migration, duration: timedelta) -> None:
        self._applied.append(migration.version)
        print(f"applied {migration.file_name} in {duration.total_seconds():.2f} s", file=sys.stderr)

    def done(self, outcome: "_Outcome") -> None:
        text, facts = outcome
        line = json.dumps(facts)
        self._write_log(line)
        _print(line if self._is_json else text)

    def failed(self, error: MigrationsError) -> None:
        name = type(error).__name__
        print(f"awa_migrations: {name}: {error}", file=sys.stderr)
        facts: dict[str, object] = {
            "error": name,
            "message": str(error)[:_MESSAGE_LIMIT],
            "exitCode": int(error.exit_code),
            "applied": self._applied,
        }
        if isinstance(error, SchemaTooNew):
            facts["knownVersion"] = error.latest
        line = json.dumps(facts)
        self._write_log(line)
        if self._is_json:
            _print(line)

    def _write_log(self, line: str) -> None:
        if self._log is not None:
            try:
                self._log.write_text(line + "\n", encoding="utf-8")
            except OSError as error:
                # The schema is what it is: a report that cannot be written does not change it.
                print(f"awa_migrations: {self._log}: {error.strerror}", file=sys.stderr)


def _print(text: str) -> None:
    try:
        print(text, flush=True)
    except BrokenPipeError:
        # Whoever read it has seen enough (`sql | head`). Nothing is left to be flushed at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


type _Outcome = tuple[str, dict[str, object]]


def _up(arguments: argparse.Namespace, catalog: Catalog, reporter: _Reporter) -> _Outcome:
    report = asyncio.run(
        migrate(
            _database_url(arguments),
            schema=arguments.schema,
            to=arguments.to,
            limits=_limits(arguments),
            catalog=catalog,
            on_applied=reporter.applied,
        )
    )
    seconds = round(report.duration.total_seconds(), 3)
    text = (
        f'schema "{arguments.schema}" is at version {report.to_version}'
        f" (was {report.from_version}; {len(report.applied)} applied in {seconds:.2f} s)"
    )
    return text, {
        "from": report.from_version,
        "to": report.to_version,
        "applied": report.applied,
        "schemaVersion": report.to_version,
        "seconds": seconds,
    }


def _status(arguments: argparse.Namespace, catalog: Catalog, _: _Reporter) -> _Outcome:
    found = asyncio.run(
        status(
            _database_url(arguments),
            arguments.schema,
            limits=_limits(arguments),
            catalog=catalog,
        )
    )
    where = f"is at version {found.current}" if found.current else "does not exist yet"
    text = f'schema "{arguments.schema}" {where}; this package has {found.latest}'
    if found.pending:
        text += f"; to apply: {', '.join(map(str, found.pending))}"
    if found.ahead:
        text += f"; applied by a later release: {', '.join(map(str, found.ahead))}"
    return text, {
        "current": found.current,
        "latest": found.latest,
        "pending": found.pending,
        "ahead": found.ahead,
    }


def _sql(arguments: argparse.Namespace, catalog: Catalog, _: _Reporter) -> _Outcome:
    schema = SchemaName(arguments.schema)
    to = catalog.checked_version(arguments.to)
    after = 0 if arguments.after in (None, 0) else catalog.checked_version(arguments.after)
    if after >= to:
        raise UsageError(f"--from {after} is not below --to {to}: there is nothing to print")
    script = Scripts.load(schema).by_hand(catalog, after, to)
    return script.rstrip("\n"), {"from": after, "to": to, "sql": script}


_COMMANDS: dict[str, Callable[[argparse.Namespace, Catalog, _Reporter], _Outcome]] = {
    "up": _up,
    "status": _status,
    "sql": _sql,
}


def _database_url(arguments: argparse.Namespace) -> str:
    if not arguments.database_url:
        raise UsageError("which database? Give --database-url or set AWA_DATABASE_URL")
    return str(arguments.database_url)


def _limits(arguments: argparse.Namespace) -> Limits:
    given = {
        name: value
        for name in ("lock", "lock_attempts", "statement", "other_migrator")
        if (value := getattr(arguments, f"limit_{name}", None)) is not None
    }
    return replace(DEFAULT_LIMITS, **given)


class _Parser(argparse.ArgumentParser):
    """Reports usage errors with the exit code that belongs to them."""

    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        self.exit(ExitCode.USAGE, f"{self.prog}: {message}\n")


def _parser(environment: Mapping[str, str]) -> argparse.ArgumentParser:
    parser = _Parser(prog="python -m awa_migrations", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True, metavar="up|status|sql")
    up = commands.add_parser("up", help="apply what is pending")
    state = commands.add_parser("status", help="say where the schema is")
    sql = commands.add_parser("sql", help="print the SQL, for psql")
    for command in (up, state, sql):
        _add_common(command, environment)
    for command in (up, state):
        command.add_argument(
            "--database-url",
            default=environment.get("AWA_DATABASE_URL"),
            help="postgresql://… (default: AWA_DATABASE_URL)",
        )
    for command in (up, sql):
        command.add_argument("--to", type=int, metavar="N", help="stop at this version")
    sql.add_argument(
        "--from",
        dest="after",
        type=int,
        metavar="N",
        help="the version the schema is at (default: there is none yet)",
    )
    _add_limits(up)
    return parser


def _add_common(command: argparse.ArgumentParser, environment: Mapping[str, str]) -> None:
    command.add_argument(
        "--schema",
        default=environment.get("AWA_SCHEMA") or "awa",
        help="schema name (default: AWA_SCHEMA, else awa)",
    )
    command.add_argument("--json", action="store_true", help="print one line of JSON")
    command.add_argument(
        "--termination-log",
        type=Path,
        default=environment.get("AWA_TERMINATION_LOG") or None,
        metavar="PATH",
        help="also write that line to this file, whether it worked or not "
        "(default: AWA_TERMINATION_LOG, else none)",
    )


def _add_limits(up: argparse.ArgumentParser) -> None:
    up.add_argument("--lock-attempts", dest="limit_lock_attempts", type=_count, metavar="N",
                    help="how often to ask for a lock in all (default: 3)")  # fmt: skip
    for limit, text in {
        "lock": "how long to wait for a lock (default: the role's lock_timeout, else 2)",
        "statement": "how long one statement may take (default: 3600)",
        "other_migrator": "how long to wait for another migrator (default: 60)",
    }.items():
        option = f"--{limit.replace('_', '-')}-timeout"
        up.add_argument(option, dest=f"limit_{limit}", type=_seconds, metavar="SECONDS", help=text)


def _seconds(text: str) -> timedelta:
    seconds = float(text)
    # PostgreSQL counts in milliseconds, in 32 bits.
    if not 0.001 <= seconds <= 2_000_000:
        raise argparse.ArgumentTypeError("must be between 0.001 and 2000000 seconds")
    return timedelta(seconds=seconds)


def _count(text: str) -> int:
    if not 1 <= (count := int(text)) <= 1000:
        raise argparse.ArgumentTypeError("must be between 1 and 1000")
    return count


if __name__ == "__main__":
    sys.exit(main())
