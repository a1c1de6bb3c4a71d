"""Write the reference page of the Queue resource, or check that it is up to date.

python -m awa.manifest docs/reference/queue.md
python -m awa.manifest --check docs/reference/queue.md
"""

import argparse
import sys
from pathlib import Path

from awa.manifest.reference import COMMAND, render_reference


def main(arguments: list[str] | None = None) -> int:
    """Return 0 when the page is written or up to date, 1 when `--check` finds it is not."""
    parser = argparse.ArgumentParser(prog=COMMAND, description="Write docs/reference/queue.md.")
    parser.add_argument("page", type=Path, help="the page to write")
    parser.add_argument("--check", action="store_true", help="change nothing, fail if it differs")
    asked = parser.parse_args(arguments)
    page = render_reference()
    if not asked.check:
        asked.page.write_text(page, encoding="utf-8")
        return 0
    if asked.page.is_file() and asked.page.read_text(encoding="utf-8") == page:
        return 0
    sys.stderr.write(f"{asked.page} differs from the models; run: {COMMAND} {asked.page}\n")
    return 1


if __name__ == "__main__":
    sys.exit(main())
