"""How to call this command again, as texts for people."""

import shlex
import shutil
import sys
from pathlib import Path

from awa._local.postgres import DEFAULT_FOLDER


def own_command() -> str:
    """Return what to type to run `awa` in this folder."""
    program = Path(sys.argv[0])
    if program.name == "__main__.py":
        return f"{shlex.quote(sys.executable)} -m awa"
    found = shutil.which("awa")
    if found is not None and Path(found).resolve() == program.resolve():
        return "awa"
    return shlex.quote(str(program))


def for_folder(folder: Path) -> str:
    """Return the option that names a folder, empty for the default one."""
    return "" if folder == DEFAULT_FOLDER else f" --dir {shlex.quote(str(folder))}"
