"""Import modules one by one, each in a process of its own, with nothing to lean on.

A script for test_imports.py: its argument is JSON with the lists `modules`, `blocked` and
`preload`. It prints what failed. Imports of `blocked` packages fail as if they were not
installed; a connection, a question to a name server or a new process is an error. `preload` is
imported once, before the others part ways, because it takes long.
"""

import json
import os
import sys
import traceback
import warnings
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

FORBIDDEN_EVENTS = {
    "socket.connect", "socket.bind", "socket.getaddrinfo", "socket.gethostbyname",
    "subprocess.Popen", "os.system", "os.exec", "os.posix_spawn",
}  # fmt: skip


class NotInstalled(MetaPathFinder):
    """Makes chosen top-level packages impossible to import."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = frozenset(names)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Refuse a blocked name and leave the others to the next finder."""
        if fullname.partition(".")[0] in self._names:
            raise ModuleNotFoundError(f"No module named {fullname!r} (not a dependency)")
        return None


def refuse(event: str, _: tuple[object, ...]) -> None:
    """Audit hook: an import has no business with the network or with processes."""
    if event in FORBIDDEN_EVENTS:
        raise AssertionError(f"importing caused {event}")


def import_alone(module: str) -> bool:
    """Import a module in a forked process; say whether that went well."""
    if (child := os.fork()) != 0:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    status = 1
    try:
        sys.addaudithook(refuse)
        import_module(module)
        status = 0
    except BaseException:  # noqa: BLE001 -- whatever it is, it is reported and ends this child
        sys.stdout.write(f"{module}: {traceback.format_exc()}\n")
        sys.stdout.flush()
    finally:
        os._exit(status)


def main() -> int:
    """Import every module; 1 when one failed."""
    order = json.loads(sys.argv[1])
    sys.meta_path.insert(0, NotInstalled(order["blocked"]))
    warnings.simplefilter("error")
    for name in order["preload"]:
        import_module(name)
    # A list, so that one failure does not hide the others.
    went_well = [import_alone(module) for module in order["modules"]]
    return int(not all(went_well))


if __name__ == "__main__":
    sys.exit(main())
