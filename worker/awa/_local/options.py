"""What can be chosen about an embedded server, with defaults that fit `awa up`."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Self


@dataclass(frozen=True, slots=True)
class LaunchOptions:
    """How to start the server of a folder. The environment variable, if any, is in brackets."""

    binaries: Path | None = None
    """Folder that holds `postgres` and `initdb`; None looks for them [AWA_POSTGRES_BIN]."""
    store: Path = Path("/var/lib/awa")
    """Where data lie that cannot lie in the folder itself, see `place` [AWA_POSTGRES_STORE]."""
    port: int | None = None
    """Port of 127.0.0.1; None takes the one of the last start if it is free, else any free one."""
    reuse: bool = True
    """Use a server that another process runs for the folder; False refuses it with an error."""
    start_limit: timedelta = timedelta(minutes=2)
    """Longest wait until connections are accepted, recovery after a crash included."""
    stop_limit: timedelta = timedelta(seconds=30)
    """Longest wait for a fast shutdown; after it the server is ended as in a crash (no loss)."""
    free_bytes_needed: int = 128 << 20
    """Free space without which no new database is made."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """Further server settings, name to value; they win over ours."""

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> Self:
        """Return the defaults with what the environment variables say."""
        binaries = environment.get("AWA_POSTGRES_BIN")
        store = environment.get("AWA_POSTGRES_STORE")
        return cls(
            binaries=Path(binaries) if binaries else None,
            store=Path(store) if store else Path("/var/lib/awa"),
        )
