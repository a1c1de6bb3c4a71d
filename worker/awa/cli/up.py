"""`awa up`: a queue's manifest, run on this machine."""

import asyncio
import os
from pathlib import Path
from typing import Annotated

import typer

from awa._fleet.home import hold
from awa._fleet.run import LocalRun, Order
from awa._fleet.stop import Stop, Stopped
from awa._local.postgres import DEFAULT_FOLDER
from awa.cli.exits import ExitCode, told
from awa.cli.screen import Screen
from awa.cli.signals import catch_stop_signals, deliver_stop_signals
from awa.manifest import load_queues

MANIFEST = Path("queue.yaml")

File = Annotated[
    Path,
    typer.Option("--file", "-f", metavar="FILE", help="The manifest, with one Queue or several."),
]
RunFolder = Annotated[
    Path,
    typer.Option(
        "--dir",
        metavar="FOLDER",
        help="Where the embedded PostgreSQL has its data, and workers their state.",
    ),
]
RunDatabase = Annotated[
    str | None,
    typer.Option(
        "--database-url",
        metavar="URL",
        help="Use this database, and migrate it, instead of the embedded PostgreSQL.",
    ),
]

MetricsAddress = Annotated[
    str | None,
    typer.Option(
        "--metrics-address",
        metavar="HOST:PORT",
        help="Serve /metrics of all workers, /healthz and /readyz here. Default: nowhere.",
    ),
]


def up(
    file: File = MANIFEST,
    folder: RunFolder = DEFAULT_FOLDER,
    database_url: RunDatabase = None,
    metrics_address: MetricsAddress = None,
) -> None:
    """Run a queue's manifest here: its database, its schema, and as many workers as it needs.

    The workers run in the folder of the manifest, so handlers beside it are found. Ctrl-C lets
    running jobs finish, and stops; a second Ctrl-C cuts them off, to run again later. The data
    stay.
    """
    catch_stop_signals()
    with told():
        order = Order(
            queues=load_queues(file),
            manifest_folder=file.absolute().parent,
            folder=folder,
            database_url=database_url,
            pages=metrics_address,
        )
        code = asyncio.run(_run(order))
    raise typer.Exit(code)


async def _run(order: Order) -> ExitCode:
    stop = Stop()
    deliver_stop_signals(asyncio.get_running_loop(), stop.ask)
    screen = Screen()
    screen.take_logs()
    run = LocalRun(order, screen.tell, stop)
    with hold(order.folder, "awa up"):
        _say_what_is_not_used(screen, order)
        async with screen.shown():
            try:
                await run.start()
                _say_how_to_look(screen, run, order)
                await run.wait()
            except Stopped:
                pass
            finally:
                await run.end()
    screen.say("Stopped." if order.database_url else f"Stopped. The data stay in {order.folder}.")
    return ExitCode.INTERRUPTED if stop.at_once.is_set() else ExitCode.DONE


def _say_what_is_not_used(screen: Screen, order: Order) -> None:
    if order.database_url is None and os.environ.get("AWA_DATABASE_URL", "").strip():
        screen.say(
            "AWA_DATABASE_URL is set and not used: awa up runs a database of its own. To use that "
            "one, give --database-url.",
            "yellow",
        )


def _say_how_to_look(screen: Screen, run: LocalRun, order: Order) -> None:
    where = "" if order.folder == DEFAULT_FOLDER else f" --dir {order.folder}"
    if order.database_url is not None:
        where = " --database-url …"
    screen.say(f"  look, in another terminal: awa queue list{where}, awa job list{where}", "dim")
    if run.server is not None:
        screen.say(f"  or: {run.server.psql_command}", "dim")
