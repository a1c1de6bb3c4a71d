"""Make a folder with an embedded database that is migrated: `prepare.py FOLDER STORE`."""

import asyncio
import sys
from pathlib import Path

import awa_migrations
from awa._local.options import LaunchOptions
from awa._local.postgres import EmbeddedPostgres


async def main(folder: Path, store: Path) -> None:
    async with EmbeddedPostgres(folder, LaunchOptions(store=store)) as server:
        await awa_migrations.migrate(server.dsn, schema="awa")


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), Path(sys.argv[2])))
