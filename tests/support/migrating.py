"""Migration files made up for a test, and the command line that runs on them."""

import asyncio
import json
import os
import subprocess
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import asyncpg

from awa_migrations import Catalog

type WriteFiles = Callable[..., Path]
type MakeCatalog = Callable[..., Catalog]
type Run = Callable[..., Awaitable["Ended"]]
type Begin = Callable[..., Awaitable[Process]]
type Hold = Callable[[str], Awaitable[asyncpg.Connection]]
type Waiting = Callable[..., Awaitable[int]]
type Leftovers = Callable[[], Awaitable[list[asyncpg.Record]]]

# What `python -m awa_migrations` does, on files of the test's own.
COMMAND = """
import sys
from pathlib import Path
from awa_migrations.__main__ import main
from awa_migrations.catalog import Catalog
sys.exit(main(sys.argv[2:], catalog=lambda: Catalog.read(Path(sys.argv[1]))))
"""

THREE_STEPS = {
    "0007_make_shelf": "create table {schema}.shelf (id integer primary key);",
    "0008_add_label": "alter table {schema}.shelf add column label text;",
    "0009_add_book": (
        "create table {schema}.book (shelf integer references {schema}.shelf);\n"
        "create function {schema}.shelf_count() returns bigint language sql\n"
        "as $$ select count(*) from {schema}.shelf $$;\n"
        "insert into {schema}.shelf (id, label) values (1, '{schema_name}');"
    ),
}


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def line(self) -> dict[str, Any]:
        """The one line of JSON on standard output."""
        (line,) = self.out.splitlines()
        fields: dict[str, Any] = json.loads(line)
        return fields


def header(kind: str = "expand") -> str:
    return f"-- kind: {kind}\n-- locks: none to speak of\n-- previous release: does not mind\n\n"


async def begin_command(*arguments: str, folder: Path | None, **environment: str) -> Process:
    """Start `python -m awa_migrations`, on the packaged files or on those of `folder`."""
    program = ["-c", COMMAND, str(folder)] if folder else ["-m", "awa_migrations"]
    return await asyncio.create_subprocess_exec(
        sys.executable, *program, *arguments,
        stdin=subprocess.DEVNULL, stdout=PIPE, stderr=PIPE,
        env={"PATH": os.environ["PATH"], **environment},
    )  # fmt: skip


async def end(process: Process) -> Ended:
    """Wait for a command to end."""
    async with asyncio.timeout(60):
        out, err = await process.communicate()
    return Ended(process.returncode or 0, out.decode(), err.decode())
