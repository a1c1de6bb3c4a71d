"""Whether the signals of a container can reach this process."""

import os
from pathlib import Path

_SHELLS = {"sh", "ash", "bash", "dash", "ksh", "mksh", "zsh", "busybox"}


def hidden_behind_shell(proc: Path = Path("/proc")) -> str | None:
    """Return the name of the shell that is PID 1 here and runs us as a command, else None.

    On a machine PID 1 is an init. A shell in its place means a container, whose stop signal goes to
    PID 1 alone, and a shell does not pass it on. An interactive shell is somebody at a terminal.
    """
    if os.getpid() == 1:
        return None
    try:
        name = (proc / "1" / "comm").read_text().strip()
        words = (proc / "1" / "cmdline").read_bytes().split(b"\0")[:-1]
    except OSError:
        return None
    is_command = any(not word.startswith(b"-") for word in words[1:])
    return name if name in _SHELLS and is_command else None
