"""Fail when a file names a folder of somebody's machine or the host of a package registry.

Either would work for one person and break for the next.
"""

import re
import sys

from tracked import ROOT, files

FORBIDDEN = {
    "machine path": re.compile(r"/(?:work|root|farm)/|/tmp/[a]wa\b"),
    "registry host": re.compile(
        r"\b(?:pypi[.]org|pythonhosted[.]org|registry[.]npmjs[.]org|crates[.]io"
        r"|proxy[.]golang[.]org|maven[.](?:org|apache[.]org)|deb[.]debian[.]org)\b"
    ),
}


def main() -> int:
    """Print every finding; 1 if there is one."""
    found = False
    for path in files():
        for number, line in enumerate(path.read_text(errors="ignore").splitlines(), start=1):
            for what, pattern in FORBIDDEN.items():
                if pattern.search(line):
                    found = True
                    print(f"{path.relative_to(ROOT)}:{number}: {what}: {line.strip()[:80]}")
    return int(found)


if __name__ == "__main__":
    sys.exit(main())
