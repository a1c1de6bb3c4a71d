"""Fail on content that does not belong into the repository.

Folders of somebody's machine and hosts of package registries work for one person and break for
the next. Private keys, conflict markers, trailing blanks and large files are accidents.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

from tracked import ROOT, files

LARGEST_BYTES = 512 * 1024

FORBIDDEN = {
    "machine path": re.compile(r"/(?:work|root|farm)/|/tmp/[a]wa\b"),
    "registry host": re.compile(
        r"\b(?:pypi[.]org|pythonhosted[.]org|registry[.]npmjs[.]org|crates[.]io"
        r"|proxy[.]golang[.]org|maven[.](?:org|apache[.]org)|deb[.]debian[.]org)\b"
    ),
    "private key": re.compile(r"-----BEGIN (?:\w+ )*PRIVATE KEY-----"),
    "conflict marker": re.compile(r"^(?:<{7}|>{7}|={7})(?: |$)"),
    "trailing blank": re.compile(r"[ \t]+$"),
}


def findings(path: Path) -> Iterator[str]:
    """Yield what is wrong with one file."""
    content = path.read_bytes()
    name = path.relative_to(ROOT)
    if len(content) > LARGEST_BYTES:
        yield f"{name}: {len(content)} bytes, limit {LARGEST_BYTES}"
    if b"\0" in content:
        return
    for number, line in enumerate(content.decode(errors="replace").splitlines(), start=1):
        for what, pattern in FORBIDDEN.items():
            if pattern.search(line):
                yield f"{name}:{number}: {what}: {line.strip()[:80]}"


def main() -> int:
    """Print every finding; 1 if there is one."""
    found = [finding for path in files() for finding in findings(path)]
    print("".join(f"{finding}\n" for finding in found), end="")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
