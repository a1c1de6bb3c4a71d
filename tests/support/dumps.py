"""Dumps of a database, and what is made of them elsewhere."""

import subprocess
from dataclasses import dataclass
from pathlib import Path

from support.postgres import Database


@dataclass(frozen=True)
class Dump:
    """A dump of one database, with everything in it."""

    file: Path
    binaries: Path

    def restore(self, database: Database, *, sequences: bool = True) -> None:
        """Load it into an empty database; without `sequences` these stay where they start."""
        listed = self._run("pg_restore", "--list", str(self.file)).splitlines()
        wanted = [line for line in listed if sequences or "SEQUENCE SET" not in line]
        contents = self.file.with_name(f"{database.name}.list")
        contents.write_text("\n".join(wanted))
        self._run(
            "pg_restore", "--dbname", database.dsn, "--use-list", str(contents),
            "--exit-on-error", "--single-transaction", str(self.file),
        )  # fmt: skip

    def _run(self, *words: str) -> str:
        return _run(self.binaries, *words)


def dump(database: Database, file: Path) -> Dump:
    """Dump a database as it is, whatever writes to it."""
    binaries = database.server.binaries
    _run(binaries, "pg_dump", "--format", "custom", "--file", str(file), database.dsn)
    return Dump(file, binaries)


def _run(binaries: Path, program: str, *words: str) -> str:
    done = subprocess.run([binaries / program, *words], capture_output=True, text=True, check=False)
    if done.returncode:
        raise AssertionError(f"{program} failed ({done.returncode}):\n{done.stderr[-4000:]}")
    return done.stdout
