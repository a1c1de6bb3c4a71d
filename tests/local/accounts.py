"""Run programs of this environment as another user, when the tests run as root.

An interpreter below a closed folder (a private home) cannot be run by others. Then the command
runs in a mount namespace of its own, in which that folder is replaced by one that holds nothing
but the interpreter: the same paths, and really another user.
"""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

OPEN_AND_RUN = """
set -eu
base=$1 closed=$2 user=$3
shift 3
stage=$(mktemp -d)
mount --bind "$base" "$stage"
mount -t tmpfs -o mode=755 none "$closed"
mkdir -p "$base"
mount --bind "$stage" "$base"
umount "$stage"
rmdir "$stage"
exec setpriv --reuid="$user" --regid="$(id -g "$user")" --clear-groups "$@"
"""


def require_root() -> None:
    """Fail where a test needs root's rights to act as several users."""
    if os.geteuid() != 0:
        raise AssertionError("this test acts as several users: run it as root")


def as_user(user: str, argv: Sequence[str]) -> list[str]:
    """Return the command that runs `argv`, a program of this interpreter, as `user`."""
    require_root()
    base = Path(sys.base_prefix)
    closed = next((each for each in reversed(base.parents) if not _may_enter(user, each)), None)
    if closed is None:
        group = subprocess.run(["id", "-g", user], capture_output=True, text=True, check=True)
        switch = f"--reuid={user}", f"--regid={group.stdout.strip()}", "--clear-groups"
        return ["setpriv", *switch, *argv]
    return [
        "unshare", "--mount", "sh", "-c", OPEN_AND_RUN, "sh", str(base), str(closed), user, *argv,
    ]  # fmt: skip


def _may_enter(user: str, folder: Path) -> bool:
    entered = subprocess.run(
        ["setpriv", f"--reuid={user}", "--clear-groups", "--regid=65534", "test", "-x", folder],
        check=False,
    )
    return entered.returncode == 0
