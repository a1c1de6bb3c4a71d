"""Write docs/reference/settings.md from the declarations of the knobs; `--check` compares only."""

import dataclasses
import sys
from pathlib import Path

from awa.knobs import Knob, parts_of, required, shown, variable_of
from awa.queue_settings import QueueSettings
from awa.settings import DatabaseSettings, WorkerSettings

PAGE = Path(__file__).resolve().parent.parent / "docs" / "reference" / "settings.md"

HEAD = """\
# Settings

Made by `python tools/settings_page.py` from the code; do not edit.

Durations are `timedelta` in Python and seconds in the environment. An empty variable counts as not
set. A value outside its bounds is refused with the name of the knob before anything starts.
"""
SECTIONS = [
    ("The database", DatabaseSettings, True),
    ("The worker", WorkerSettings, True),
    ("Each queue", QueueSettings, False),
]


def page() -> str:
    """Return the whole page."""
    return HEAD + "".join(section(*parts) for parts in SECTIONS)


def section(title: str, settings: type, has_variables: bool) -> str:
    """Return the table of one kind of settings."""
    lines = [f"\n## {title}: `{settings.__name__}`\n", "| knob | default | takes | what and why |"]
    lines.append("|---|---|---|---|")
    for declared in dataclasses.fields(settings):
        _, knob = parts_of(declared)
        name = f"`{declared.name}`"
        if has_variables:
            name += f"<br>`{variable_of(declared)}`"
        lines.append(f"| {name} | {default_of(declared)} | {bounds(knob)} | {knob.why} |")
    return "\n".join(lines) + "\n"


def default_of(declared: dataclasses.Field[object]) -> str:
    """Return a knob's default as the table shows it."""
    if required(declared):
        return "required"
    if declared.default_factory is not dataclasses.MISSING:
        return "`default`"
    return shown(declared.default)


def bounds(knob: Knob) -> str:
    """Return the accepted range, empty when there is none."""
    if knob.least is None and knob.most is None:
        return ""
    if knob.most is None:
        return f"{shown(knob.least)} or more"
    return f"{shown(knob.least)} to {shown(knob.most)}"


def main() -> int:
    """Write the page, or with `--check` return 1 when it is not up to date."""
    if "--check" in sys.argv[1:]:
        is_fresh = PAGE.exists() and PAGE.read_text() == page()
        if not is_fresh:
            print("docs/reference/settings.md is stale: run python tools/settings_page.py")
        return int(not is_fresh)
    PAGE.parent.mkdir(parents=True, exist_ok=True)
    PAGE.write_text(page())
    return 0


if __name__ == "__main__":
    sys.exit(main())
