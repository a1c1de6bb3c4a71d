"""Where the processes of a supervisor keep what their successors need: a private folder.

It must outlive the supervisor and be found by the next one, so its place is fixed: the one that was
asked for (in a pod an emptyDir, which outlives a container), else one of this user's own.
"""

import fcntl
import os
import stat
import tempfile
from collections.abc import Mapping
from pathlib import Path

from awa.errors import ValidationError

VARIABLE = "AWA_STATE_FOLDER"


def open_state_folder(wanted: Path | None, environ: Mapping[str, str]) -> Path:
    """Return the state folder, made if need be. Raises `ValidationError` when it cannot be used."""
    folder = _default(environ) if wanted is None else wanted.absolute()
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if wanted is None:
            _require_private(folder)
        _require_locks(folder)
    except OSError as error:
        raise ValidationError(
            f"the state folder {folder} cannot be used ({error.strerror}); name another one with "
            f"--state-folder or {VARIABLE}"
        ) from None
    return folder


def _default(environ: Mapping[str, str]) -> Path:
    if runtime := environ.get("XDG_RUNTIME_DIR"):
        return Path(runtime) / "awa"
    return Path(tempfile.gettempdir()) / f"awa-{os.geteuid()}"


def _require_private(folder: Path) -> None:
    """Refuse a folder that another user may have put there, or can write to."""
    found = folder.lstat()
    if (
        not stat.S_ISDIR(found.st_mode)
        or found.st_uid != os.geteuid()
        or stat.S_IMODE(found.st_mode) & 0o077
    ):
        raise ValidationError(
            f"the state folder {folder} is not this user's alone; remove it, or name another one "
            f"with --state-folder or {VARIABLE}"
        )


def _require_locks(folder: Path) -> None:
    """Make sure that files can be written and locked there: locks tell who lives."""
    probe = folder / f".probe-{os.getpid()}-{os.urandom(4).hex()}"
    with probe.open("wb") as opened:
        try:
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        finally:
            probe.unlink()
