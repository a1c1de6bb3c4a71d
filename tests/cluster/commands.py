"""Running the commands that the cluster is made with."""

import os
import subprocess
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path

from cluster.errors import ClusterError, CommandFailed

LIMIT = timedelta(minutes=2)


def run(
    *command: str | Path,
    limit: timedelta = LIMIT,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    stdin: str | None = None,
) -> str:
    """Return what a command printed. Raises CommandFailed, and ClusterError at the limit.

    `env` is added to the environment of this process.
    """
    words = [str(word) for word in command]
    try:
        done = subprocess.run(
            words, check=False, capture_output=True, text=True, cwd=cwd, input=stdin or "",
            env={**os.environ, **(env or {})}, timeout=limit.total_seconds(),
        )  # fmt: skip
    except FileNotFoundError as error:
        raise ClusterError(f"{words[0]} is not installed: .ci/system-packages does it") from error
    except subprocess.TimeoutExpired as error:
        raise ClusterError(f"{' '.join(words)} has not ended within {limit}") from error
    if done.returncode:
        raise CommandFailed(words, done.returncode, done.stdout, done.stderr)
    return done.stdout
