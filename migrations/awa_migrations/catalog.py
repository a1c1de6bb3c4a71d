"""The numbered migration files: read once, checked as a whole, believed afterwards.

A file is `NNNN_name.sql`. It opens with a comment block that holds three keys, each once:

    -- kind: expand              (adds; the previous release runs on it) or contract (takes away)
    -- locks: …                  (its lock budget: what is locked, how strongly, for how long)
    -- previous release: …       (what release N-1 does with the result)

A value may go on over the comment lines below it, until another key or an empty comment line. A
file runs inside one transaction that belongs to the runner, so it may not begin or end one.
"""

import functools
import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Self

from awa_migrations.errors import CatalogInvalid, UnknownVersion
from awa_migrations.schema_name import SchemaName

_FILE = re.compile(r"(?P<version>\d{4})_(?P<name>[a-z0-9]+(?:_[a-z0-9]+)*)\.sql")
_KEY = re.compile(r"--\s*(?P<key>kind|locks|previous release):\s*(?P<value>.*)")
_KEYS = ("kind", "locks", "previous release")
# `end` is left out: it closes blocks of PL/pgSQL as well.
_TRANSACTION_CONTROL = re.compile(
    r"^[ \t]*(?P<word>(?:begin|start)(?:[ \t]+(?:transaction|work)|[ \t]*(?=;))"
    r"|commit|rollback|abort)\b[^;\n]*;",
    re.IGNORECASE | re.MULTILINE,
)


class Kind(StrEnum):
    """What a migration does to the release before it."""

    EXPAND = "expand"
    CONTRACT = "contract"


@dataclass(frozen=True, slots=True)
class Migration:
    """One migration file. `checksum` is the SHA-256 of its text, whatever the line ends."""

    version: int
    name: str
    kind: Kind
    locks: str
    previous_release: str
    checksum: str
    text: str

    @classmethod
    def parse(cls, file_name: str, text: str) -> Self:
        """Check one file. Raises CatalogInvalid, naming the file."""
        if not (match := _FILE.fullmatch(file_name)):
            raise CatalogInvalid(f"{file_name}: the name must be like 0043_queues_and_lanes.sql")
        text = text.replace("\r\n", "\n")
        if control := _TRANSACTION_CONTROL.search(text):
            raise CatalogInvalid(f"{file_name}: {control['word']!r} would end the transaction")
        header = _header(file_name, text)
        try:
            kind = Kind(header["kind"])
        except ValueError:
            raise CatalogInvalid(f"{file_name}: kind must be expand or contract") from None
        return cls(
            version=int(match["version"]),
            name=match["name"],
            kind=kind,
            locks=header["locks"],
            previous_release=header["previous release"],
            checksum=hashlib.sha256(text.encode()).hexdigest(),
            text=text,
        )

    @property
    def file_name(self) -> str:
        """The file's name inside its folder."""
        return f"{self.version:04d}_{self.name}.sql"

    def render(self, schema: SchemaName) -> str:
        """Return the SQL for one schema."""
        return schema.render(self.text)


@dataclass(frozen=True, slots=True)
class Catalog:
    """Every migration there is, in order and without a gap. The first need not be number one."""

    migrations: tuple[Migration, ...]

    def __post_init__(self) -> None:
        if not self.migrations:
            raise CatalogInvalid("there is no migration file: the package is incomplete")
        for before, after in zip(self.migrations, self.migrations[1:], strict=False):
            if after.version == before.version:
                raise CatalogInvalid(f"{after.file_name}: number taken by {before.file_name}")
            if after.version != before.version + 1:
                raise CatalogInvalid(
                    f"{after.file_name}: {before.version + 1:04d} is missing before it"
                )

    @classmethod
    def read(cls, folder: Traversable) -> Self:
        """Read all `*.sql` of a folder. Raises CatalogInvalid on the first thing that is wrong."""
        found = [
            Migration.parse(file.name, file.read_text(encoding="utf-8"))
            for file in folder.iterdir()
            if file.name.endswith(".sql")
        ]
        return cls(tuple(sorted(found, key=lambda migration: migration.file_name)))

    @property
    def first(self) -> int:
        """The oldest version."""
        return self.migrations[0].version

    @property
    def latest(self) -> int:
        """The newest version."""
        return self.migrations[-1].version

    def checked_version(self, version: int | None) -> int:
        """Return the version itself, or the latest for None. Raises UnknownVersion."""
        if version is None:
            return self.latest
        if not self.first <= version <= self.latest:
            raise UnknownVersion(version, self.first, self.latest)
        return version

    def after(self, version: int, to: int) -> tuple[Migration, ...]:
        """Return the migrations above `version`, up to and including `to`."""
        return tuple(m for m in self.migrations if version < m.version <= to)

    def __iter__(self) -> Iterator[Migration]:
        return iter(self.migrations)


@functools.cache
def packaged_catalog() -> Catalog:
    """Return the catalog this package ships."""
    return Catalog.read(files("awa_migrations") / "sql")


def _header(file_name: str, text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    key = None
    for line in text.split("\n"):
        if not line.startswith("--"):
            break
        if match := _KEY.fullmatch(line):
            key = match["key"]
            if key in found:
                raise CatalogInvalid(f"{file_name}: the header says {key!r} twice")
            found[key] = match["value"].strip()
        elif rest := line.removeprefix("--").strip():
            if key is not None:
                found[key] = f"{found[key]} {rest}".strip()
        else:
            key = None
    for key in _KEYS:
        if not found.get(key):
            raise CatalogInvalid(
                f"{file_name}: the header must open the file and say `-- {key}: …`"
            )
    return found
