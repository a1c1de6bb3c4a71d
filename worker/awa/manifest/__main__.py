"""Write what follows from the models of the Queue resource, or check that it is up to date.

python -m awa.manifest docs/reference/queue.md
python -m awa.manifest --crd crds/queue.yaml
python -m awa.manifest --crd charts/awa-crds/templates/queue.yaml --keep

`--check` changes nothing and fails if the file differs. Without a file the text is printed.
"""

import argparse
import sys
from pathlib import Path

from awa.manifest import crd, reference

KEEP = {"helm.sh/resource-policy": "keep"}


def main(arguments: list[str] | None = None) -> int:
    """Return 0 when the file is written or up to date, 1 when `--check` finds it is not."""
    asked = _parser().parse_args(arguments)
    command = crd.COMMAND if asked.crd else reference.COMMAND
    suffix = " --keep" if asked.crd and asked.keep else ""
    text = _text(asked.crd, asked.keep)
    if asked.file is None:
        sys.stdout.write(text)
        return 0
    file: Path = asked.file
    if not asked.check:
        file.write_text(text, encoding="utf-8")
        return 0
    if file.is_file() and file.read_text(encoding="utf-8") == text:
        return 0
    sys.stderr.write(f"{file} differs from the models; run: {command} {file}{suffix}\n")
    return 1


def _text(is_crd: bool, keep: bool) -> str:
    return crd.render_crd(KEEP if keep else None) if is_crd else reference.render_reference()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=reference.COMMAND, description="Write the reference page or the CRD of the Queue."
    )
    parser.add_argument("file", type=Path, nargs="?", help="the file to write; printed if none")
    parser.add_argument("--crd", action="store_true", help="the CRD instead of the page")
    parser.add_argument(
        "--keep", action="store_true", help="for a chart: Helm keeps the CRD when it is uninstalled"
    )
    parser.add_argument("--check", action="store_true", help="change nothing, fail if it differs")
    return parser


if __name__ == "__main__":
    sys.exit(main())
