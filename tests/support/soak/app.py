"""What `awa worker` runs in a soak: the same handlers as in the other workers."""

import os
from pathlib import Path

from awa import AsyncClient
from support.soak.handlers import register
from support.soak.journal import TimedJournal, note_offset

FOLDER = Path(os.environ["SOAK_FOLDER"])

client = AsyncClient()
note_offset(FOLDER)
register(client.registry, TimedJournal(FOLDER, "worker"))
