"""A module that takes long to import, and tells when it has begun."""

import os
import signal
import time
from pathlib import Path

from awa import AsyncClient

client = AsyncClient()

if os.environ.get("TEST_DEAF"):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
(Path(os.environ["TEST_FOLDER"]) / "importing").touch()
time.sleep(20)


@client.task(dict, kind="quick")
async def quick(_: object) -> None:
    """End at once."""
