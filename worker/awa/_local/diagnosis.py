"""Why a server or initdb has ended, read from what it said."""

import re
from pathlib import Path

from awa._local.errors import LocalPostgresError, NoSpace, PortTaken, ServerFailed
from awa._local.place import free_bytes

NO_SPACE = "No space left on device"
ADDRESS_TAKEN = ("Address already in use", "could not create any TCP/IP sockets")
COMPLAINT = re.compile(r"(?:FATAL|PANIC|initdb: error|ERROR|error while loading)[^\n]*")


def diagnose(said: str, what: str, port: int, log: Path) -> LocalPostgresError:
    """Return the error that fits what `what` (PostgreSQL or initdb) wrote to `log` last."""
    if NO_SPACE in said:
        return NoSpace(log.parent, free_bytes(log.parent))
    if any(sign in said for sign in ADDRESS_TAKEN):
        return PortTaken(port)
    complaints = COMPLAINT.findall(said)
    reason = f": {complaints[-1].strip()}" if complaints else ""
    return ServerFailed(f"{what} ended before it was ready{reason}", log)
