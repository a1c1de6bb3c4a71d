"""`python -m awa_migrations.snapshot`: schema.sql, the sum of all migrations, for readers.

Needs a server on which it may create a scratch database (`--database-url`, else
AWA_DATABASE_URL) and PostgreSQL's client programs. Without an option it compares; `--write`
renews the file. Nothing is ever installed from schema.sql.
"""

import argparse
import asyncio
import contextlib
import difflib
import os
import re
import secrets
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

from awa_migrations.errors import ConfigurationError, ExitCode, MigrationsError, PermanentError
from awa_migrations.runner import migrate

SNAPSHOT = Path(__file__).with_name("schema.sql")
_HEAD = """\
-- The newest schema as a whole, for readers. Generated from sql/ by
-- `python -m awa_migrations.snapshot --write`; databases are made by the migrations alone.
"""
# What differs between runs, servers and releases of pg_dump, and says nothing about the schema.
_NOISE = re.compile(r"\\(un)?restrict |SET |SELECT pg_catalog\.set_config|--$|-- (Dumped|Postgre)")
# PostgreSQL 18 names these constraints; the names follow from the columns'.
_NAMED_NOT_NULL = re.compile(r" CONSTRAINT \w+(?= NOT NULL)")
_BLOCK = re.compile(r"^(?=-- Name: )", re.MULTILINE)
_NUMBER = re.compile(r"(?<=_)\d+(?=\b|_)|(?<=IN \(')\d+(?='\))")


async def dump(dsn: str, schema: str, programs: Path | None = None) -> str:
    """Return the definition of one schema as pg_dump prints it, without what varies by chance.

    `programs` is the folder of pg_dump; None takes it from PATH. Raises ConfigurationError.
    """
    text = await _run(programs, "pg_dump", "--schema-only", "--no-owner", f"--schema={schema}", dsn)
    lines = [_NAMED_NOT_NULL.sub("", ln) for ln in text.splitlines() if not _NOISE.match(ln)]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip() + "\n"


async def make_snapshot(dsn: str, programs: Path | None = None) -> str:
    """Migrate a scratch database next to the one of `dsn` and return its dump."""
    async with _scratch_database(dsn, programs) as scratch:
        await migrate(scratch)
        return f"{_HEAD}\n{condensed(await dump(scratch, 'awa', programs))}"


def condensed(text: str) -> str:
    """Show one of each group of definitions that differ in their numbers only, and count the rest.

    Slots and pooled sequences make up most of a dump. One that is not like the others is kept.
    """
    counts: dict[str, int] = {}
    shown: dict[str, str] = {}
    for block in _BLOCK.split(text):
        pattern = _NUMBER.sub("N", block)
        counts[pattern] = counts.get(pattern, 0) + 1
        shown.setdefault(pattern, block)
    return "".join(
        f"-- One of {counts[pattern]} that differ in their numbers only.\n{block}"
        if counts[pattern] > 1
        else block
        for pattern, block in shown.items()
    )


def difference(expected: str, found: str) -> str:
    """Return a diff, empty when both are equal."""
    lines = difflib.unified_diff(
        expected.splitlines(), found.splitlines(), "schema.sql", "migrations", lineterm=""
    )
    return "\n".join(lines)


@contextlib.asynccontextmanager
async def _scratch_database(dsn: str, programs: Path | None) -> AsyncIterator[str]:
    name = f"awa_snapshot_{secrets.token_hex(6)}"
    await _run(programs, "createdb", f"--maintenance-db={dsn}", "--template=template0", name)
    try:
        yield urlunsplit(urlsplit(dsn)._replace(path=f"/{name}"))
    finally:
        await _run(programs, "dropdb", f"--maintenance-db={dsn}", "--if-exists", "--force", name)


async def _run(programs: Path | None, program: str, *arguments: str) -> str:
    try:
        process = await asyncio.create_subprocess_exec(
            str(programs / program) if programs else program, *arguments, stdout=PIPE, stderr=PIPE
        )
    except FileNotFoundError:
        raise ConfigurationError(
            f"{program} is not there: install PostgreSQL's client programs or give --programs"
        ) from None
    out, error = await process.communicate()
    if process.returncode:
        raise ConfigurationError(f"{program} failed: {error.decode().strip()}")
    return out.decode()


async def _check_or_write(dsn: str, programs: Path | None, *, write: bool) -> None:
    made = await make_snapshot(dsn, programs)
    if write:
        SNAPSHOT.write_text(made, encoding="utf-8")
        return
    kept = SNAPSHOT.read_text(encoding="utf-8") if SNAPSHOT.exists() else ""
    if changes := difference(kept, made):
        raise PermanentError(
            f"schema.sql is not what the migrations make; renew it with --write:\n{changes}"
        )


def main(argv: list[str] | None = None) -> int:
    """Compare, or write. Returns 0 when schema.sql is what the migrations make."""
    parser = argparse.ArgumentParser(prog="python -m awa_migrations.snapshot", description=__doc__)
    parser.add_argument("--write", action="store_true", help="renew schema.sql")
    parser.add_argument("--check", action="store_true", help="compare (the default)")
    parser.add_argument("--programs", type=Path, help="folder of pg_dump (default: PATH)")
    parser.add_argument("--database-url", default=os.environ.get("AWA_DATABASE_URL"))
    arguments = parser.parse_args(argv)
    if not arguments.database_url or (arguments.write and arguments.check):
        parser.error("give --database-url (or AWA_DATABASE_URL), and --write or --check, not both")
    try:
        asyncio.run(
            _check_or_write(arguments.database_url, arguments.programs, write=arguments.write)
        )
    except MigrationsError as error:
        sys.stderr.write(f"snapshot: {error}\n")
        return error.exit_code
    return ExitCode.DONE


if __name__ == "__main__":
    sys.exit(main())
