"""Write docs/reference/cli.md from the commands themselves; `--check` compares only."""

import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer.main

from awa.cli.app import app
from awa.cli.exits import ExitCode

PAGE = Path(__file__).resolve().parent.parent / "docs" / "reference" / "cli.md"

HEAD = """\
# The command line

Made by `python tools/cli_page.py` from the code; do not edit.

Tables are for people, `--json` prints one JSON document with states as in SQL and times in RFC
3339. Errors go to standard error and say what to do. `awa --install-completion` lets the shell
complete commands and options.

Commands that look at a database take, in this order: `--database-url`; the embedded server of
`--dir`; `AWA_DATABASE_URL`; the embedded server of `.awa`, where `awa up` or `awa demo` has run.
An embedded server that nobody runs is started for the command.

## Exit codes

| code | meaning |
|---|---|
"""
MEANINGS = {
    ExitCode.DONE: "done",
    ExitCode.REFUSED: "not found, not possible in this state, or a worker failed",
    ExitCode.USAGE: "the command was not written as it must be; nothing was done",
    ExitCode.UNREACHABLE: "the database did not answer; the same command may work later",
    ExitCode.CONFIGURATION: "an address, a right, a schema or a manifest has to be changed first",
    ExitCode.INTERRUPTED: "ended by Ctrl-C before it was done",
}


def page() -> str:
    """Return the whole page."""
    codes = "".join(f"| {int(code)} | {MEANINGS[code]} |\n" for code in ExitCode)
    return HEAD + codes + "".join(_sections(typer.main.get_command(app), "awa"))


def _sections(command: Any, name: str) -> Iterator[str]:
    children = getattr(command, "commands", None)
    if children is None:
        yield _section(command, name)
        return
    for child in sorted(children):
        yield from _sections(children[child], f"{name} {child}")


def _section(command: Any, name: str) -> str:
    text = inspect.cleandoc(command.help or "").replace("\f", "")
    parameters = [one for one in command.params if not getattr(one, "hidden", False)]
    words = [_argument(one) for one in parameters if one.param_type_name == "argument"]
    lines = [f"\n## {name}\n", f"    {' '.join([name, *words, '[OPTIONS]'])}\n", text]
    rows = [_row(one) for one in parameters if one.name != "help"]
    if rows:
        lines += ["", "| | default | |", "|---|---|---|", *rows]
    return "\n".join(lines) + "\n"


def _argument(parameter: Any) -> str:
    name = str(parameter.metavar or parameter.name.upper())
    return name if parameter.required else f"[{name}]"


def _row(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        names = f"`{parameter.metavar or parameter.name.upper()}`"
    else:
        value = "" if parameter.is_flag else f" {_value(parameter)}"
        names = ", ".join(f"`{one}{value}`" for one in parameter.opts)
    text = re.sub(r"\s+", " ", parameter.help or "").replace("|", "\\|")
    return f"| {names} | {_default(parameter)} | {text} |"


def _value(parameter: Any) -> str:
    """Return what an option is followed by."""
    kind = parameter.type_descriptor
    if parameter.metavar:
        return str(parameter.metavar)
    if choices := getattr(kind, "choices", None):
        return "\\|".join(str(getattr(choice, "value", choice)) for choice in choices)
    is_number = parameter.min is not None or isinstance(parameter.default, int)
    return "N" if is_number else "TEXT"


def _default(parameter: Any) -> str:
    default = parameter.default
    if parameter.required:
        return "required"
    plain = isinstance(default, str | int | Path) and not isinstance(default, bool)
    return f"`{default}`" if plain and str(default) else ""


def main(arguments: list[str]) -> int:
    """Write the page, or say whether it is stale."""
    text = page()
    if "--check" in arguments:
        if PAGE.exists() and PAGE.read_text(encoding="utf-8") == text:
            return 0
        print(f"{PAGE.name} is stale: run python tools/cli_page.py", file=sys.stderr)
        return 1
    PAGE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
