"""`python -m awa_migrations.checksums`: the checked-in list that freezes released files.

`checksums.txt` holds a line `released N` and one line per file. Without an option the list is
compared with the files. `--write` records new files and changed ones above N; up to N a file never
changes, so a difference there is an error. `--release` then freezes everything there is.
"""

import argparse
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from awa_migrations.catalog import Catalog, packaged_catalog
from awa_migrations.errors import CatalogInvalid, ExitCode

LIST = Path(__file__).with_name("checksums.txt")
_HEAD = """\
# SHA-256 of every migration file; kept by `python -m awa_migrations.checksums`.
# Files up to the released version are frozen: correct them with a new file.
"""


@dataclass(frozen=True, slots=True)
class ChecksumList:
    """The list: the last released version (0: none) and a checksum per file name."""

    released: int
    checksums: Mapping[str, str]

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read the list. Raises CatalogInvalid when it is not one."""
        lines = [line.split() for line in text.splitlines() if line and not line.startswith("#")]
        if not lines or any(len(line) != 2 for line in lines) or lines[0][0] != "released":
            raise CatalogInvalid("checksums.txt: expected `released N`, then `<file> <checksum>`")
        return cls(int(lines[0][1]), dict(lines[1:]))

    def __str__(self) -> str:
        rows = "".join(f"{name} {checksum}\n" for name, checksum in self.checksums.items())
        return f"{_HEAD}released {self.released}\n{rows}"

    def broken_by(self, catalog: Catalog) -> list[str]:
        """Name the released files that changed or went."""
        present = _by_name(catalog)
        return [
            f"{name} is released and must not change"
            for name, checksum in self.checksums.items()
            if int(name[:4]) <= self.released and present.get(name) != checksum
        ]

    def stale_for(self, catalog: Catalog) -> list[str]:
        """Name everything in which list and files differ."""
        present = _by_name(catalog)
        names = sorted(present.keys() | self.checksums.keys())
        changed = [name for name in names if present.get(name) != self.checksums.get(name)]
        return self.broken_by(catalog) + [f"{name} differs from the list" for name in changed]

    def renewed(self, catalog: Catalog, *, release: bool) -> "ChecksumList":
        """Return the list for these files. Raises CatalogInvalid when a released one changed."""
        if broken := self.broken_by(catalog):
            raise CatalogInvalid("; ".join(broken))
        return ChecksumList(catalog.latest if release else self.released, _by_name(catalog))


def _by_name(catalog: Catalog) -> dict[str, str]:
    return {migration.file_name: migration.checksum for migration in catalog}


def main(argv: list[str] | None = None) -> int:
    """Compare, or write. Returns 0 when list and files agree."""
    parser = argparse.ArgumentParser(prog="python -m awa_migrations.checksums", description=__doc__)
    parser.add_argument("--write", action="store_true", help="record files that are not released")
    parser.add_argument("--release", action="store_true", help="record all and freeze them")
    arguments = parser.parse_args(argv)
    try:
        catalog = packaged_catalog()
        text = LIST.read_text(encoding="utf-8") if LIST.exists() else "released 0\n"
        listed = ChecksumList.parse(text)
        if arguments.write or arguments.release:
            renewed = listed.renewed(catalog, release=arguments.release)
            LIST.write_text(str(renewed), encoding="utf-8")
        elif stale := listed.stale_for(catalog):
            raise CatalogInvalid("; ".join(stale))
    except CatalogInvalid as error:
        sys.stderr.write(f"checksums: {error}\n")
        return ExitCode.PERMANENT
    return ExitCode.DONE


if __name__ == "__main__":
    sys.exit(main())
