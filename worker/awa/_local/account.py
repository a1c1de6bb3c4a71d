"""The user that runs the server: PostgreSQL refuses to run as root.

As an ordinary user we run it ourselves and `ServerUser` is None everywhere. As root we run it as
an account that exists already; no account is ever made. Whether that account can enter a folder
or run a program is asked of the kernel by trying it as that account, because permission bits are
only a part of the answer (access lists, mounts, containers).
"""

import errno
import os
import pwd
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from awa._local.errors import DataUnreachable, ServerUserMissing

CANDIDATES = ("postgres", "nobody")
TRIAL_LIMIT_SECONDS = 30.0
# Where a program finds its libraries: an interpreter or a server may need it to run at all.
LIBRARY_PATHS = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "DYLD_FALLBACK_LIBRARY_PATH")


@dataclass(frozen=True, slots=True)
class ServerUser:
    """An unprivileged account."""

    name: str
    uid: int
    gid: int


def running_as_root() -> bool:
    """Say whether this process has root's rights."""
    return os.geteuid() == 0


def clean_environment() -> dict[str, str]:
    """Return the environment for the server: nothing of ours, whose PG… variables change it."""
    kept = {name: os.environ[name] for name in LIBRARY_PATHS if name in os.environ}
    return {"PATH": "/usr/bin:/bin", "LC_ALL": "C", **kept}


def default_user() -> ServerUser:
    """Return the account for new data: `postgres` if there is one, else `nobody`. For root only.

    Raises ServerUserMissing when there is neither, or when this process may not become that user.
    """
    for name in CANDIDATES:
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        user = ServerUser(entry.pw_name, entry.pw_uid, entry.pw_gid)
        _require_switch(user)
        return user
    raise ServerUserMissing(
        "PostgreSQL refuses to run as root and there is neither a user `postgres` nor `nobody`; "
        "run this command as an ordinary user"
    )


def owner_of(path: Path) -> ServerUser:
    """Return the account that owns `path`, to run the server on it as before. For root only."""
    uid = path.stat().st_uid
    try:
        entry = pwd.getpwuid(uid)
    except KeyError as error:
        raise DataUnreachable(
            f"{path} belongs to user {uid}, who has no account here; give it to an existing user"
        ) from error
    user = ServerUser(entry.pw_name, entry.pw_uid, entry.pw_gid)
    _require_switch(user)
    return user


def run_as(user: ServerUser | None, argv: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """Run a short command as `user` (None: as ourselves) in a clean environment.

    Raises OSError when it cannot be executed and subprocess.TimeoutExpired after half a minute.
    """
    return subprocess.run(  # noqa: S603 - fixed programs, and binaries that the user chose
        argv,
        capture_output=True,
        text=True,
        check=False,
        cwd="/",
        env=clean_environment(),
        stdin=subprocess.DEVNULL,
        timeout=TRIAL_LIMIT_SECONDS,
        user=None if user is None else user.uid,
        group=None if user is None else user.gid,
        extra_groups=None if user is None else [],
    )


def can_enter(user: ServerUser, folder: Path) -> bool:
    """Say whether `user` can reach and enter `folder`."""
    return run_as(user, ["/bin/sh", "-c", 'cd -- "$1"', "sh", str(folder)]).returncode == 0


def _require_switch(user: ServerUser) -> None:
    try:
        run_as(user, ["/bin/sh", "-c", ":"])
    except PermissionError as error:
        if error.errno != errno.EPERM:
            raise
        raise ServerUserMissing(
            f"PostgreSQL refuses to run as root and this process may not become user {user.name} "
            "(it lacks the capabilities SETUID and SETGID); run it as an ordinary user"
        ) from error
