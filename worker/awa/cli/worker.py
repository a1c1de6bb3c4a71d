"""`awa worker`: run handlers."""

import asyncio
import logging
import os
import socket
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Annotated

import typer

from awa import logs
from awa._runtime.exits import Exit
from awa._runtime.pid_one import hidden_behind_shell
from awa._runtime.state_folder import open_state_folder
from awa._runtime.supervisor import Plan, Supervisor
from awa.cli.exits import CommandError, ExitCode, complain, told
from awa.cli.signals import catch_stop_signals, deliver_stop_signals
from awa.errors import ValidationError
from awa.health import HealthPages, servers
from awa.settings import load_database_settings, load_worker_settings

log = logging.getLogger("awa.cli")

Modules = Annotated[
    list[str],
    typer.Argument(
        metavar="MODULE[:CLIENT]...",
        help="Modules whose client has handlers, such as app.handlers or app.work:client.",
        show_default=False,
    ),
]
Queues = Annotated[
    list[str] | None,
    typer.Option(
        "--queue",
        "-q",
        metavar="NAME[:N]",
        help="Serve this queue, N jobs at once in each process; may be repeated. Default: "
        "AWA_QUEUES, else the queues that handlers name, else `default`.",
    ),
]
Processes = Annotated[
    int | None,
    typer.Option(
        "--processes", "-p", min=1, help="How many processes work. Default: AWA_PROCESSES, else 1."
    ),
]
DatabaseUrl = Annotated[
    str | None,
    typer.Option(
        "--database-url",
        metavar="URL",
        help="Address of the database. Default: AWA_DATABASE_URL, which the process list of the "
        "machine does not show.",
    ),
]
Schema = Annotated[
    str | None,
    typer.Option(
        "--schema", metavar="NAME", help="Schema of the engine. Default: AWA_SCHEMA, else awa."
    ),
]
StateFolder = Annotated[
    Path | None,
    typer.Option(
        "--state-folder",
        metavar="FOLDER",
        help="Where the next start finds what a crash left open. Default: AWA_STATE_FOLDER, else "
        "one of this user's own.",
    ),
]
HealthAddress = Annotated[
    str | None,
    typer.Option(
        "--health-address",
        metavar="HOST:PORT",
        help="Where to serve /healthz, /readyz and /metrics, `off` for nowhere. Default: "
        "AWA_HEALTH_ADDRESS, else 127.0.0.1:8321 if that is free.",
    ),
]
Name = Annotated[
    str | None,
    typer.Option("--name", help="Name of the worker. Default: AWA_WORKER_NAME, else the host's."),
]


def worker(
    modules: Modules,
    queue: Queues = None,
    processes: Processes = None,
    database_url: DatabaseUrl = None,
    schema: Schema = None,
    state_folder: StateFolder = None,
    health_address: HealthAddress = None,
    name: Name = None,
) -> None:
    """Run handlers until SIGTERM or Ctrl-C; then let running jobs finish, and exit.

    A second signal stops at once. Every other knob of a worker is a variable, such as
    AWA_DRAIN_TIMEOUT_SECONDS.

    Exit codes: 0 drained; 1 a process crashed at its start, or jobs had to be cut off; 2 wrong
    usage; 78 the configuration cannot be used.
    """
    catch_stop_signals()
    given = {
        "AWA_QUEUES": _queues(queue or []),
        "AWA_PROCESSES": None if processes is None else str(processes),
        "AWA_DATABASE_URL": database_url,
        "AWA_SCHEMA": schema,
        "AWA_STATE_FOLDER": None if state_folder is None else str(state_folder),
        "AWA_HEALTH_ADDRESS": health_address,
        "AWA_WORKER_NAME": name,
    }
    environ = {**os.environ, **{key: value for key, value in given.items() if value is not None}}
    with told():
        code = asyncio.run(_supervise(_plan(tuple(modules), environ)))
    raise typer.Exit(code)


def _queues(wanted: list[str]) -> str | None:
    if any("," in one for one in wanted):
        raise typer.BadParameter("a queue whose name has a comma cannot be served this way")
    return ",".join(wanted) or None


def _plan(modules: tuple[str, ...], environ: dict[str, str]) -> Plan:
    """Check everything that can be checked before a process is started."""
    try:
        logs.configure(environ)
        settings = load_worker_settings(environ)
        database = load_database_settings(environ)
        wanted = environ.get("AWA_STATE_FOLDER", "").strip()
        folder = open_state_folder(Path(wanted) if wanted else None, environ)
    except ValidationError as error:
        raise CommandError(str(error), ExitCode.CONFIGURATION) from None
    environ["AWA_STATE_FOLDER"] = str(folder)
    if not environ.get("AWA_WORKER_NAME", "").strip():
        environ["AWA_WORKER_NAME"] = socket.gethostname()
    return Plan(
        modules=modules,
        settings=settings,
        database=database,
        state_folder=folder,
        environ=environ,
    )


async def _supervise(plan: Plan) -> Exit:
    supervisor = Supervisor(plan)
    deliver_stop_signals(asyncio.get_running_loop(), supervisor.ask_to_stop)
    if (shell := hidden_behind_shell()) is not None:
        log.warning(
            "PID 1 of this container is a shell, which passes no signals on: jobs are cut off when "
            "the container stops. Start the worker with `exec awa worker`, or in exec form",
            extra={"pid_1": shell},
        )
    async with AsyncExitStack() as stack:
        await _serve_health(supervisor, plan, stack)
        code = await supervisor.run()
    if supervisor.problem is not None:
        complain(supervisor.problem)
    return code


async def _serve_health(supervisor: Supervisor, plan: Plan, stack: AsyncExitStack) -> None:
    pages = HealthPages(supervisor, plan.settings)
    try:
        wanted = servers(pages, plan.settings)
    except ValidationError as error:
        raise CommandError(str(error), ExitCode.CONFIGURATION) from None
    for address, server, was_asked_for in wanted:
        try:
            host, port = await server.start(address.host, address.port)
        except OSError as error:
            if was_asked_for:
                raise CommandError(
                    f"cannot listen on {address.host}:{address.port} ({error.strerror}); give "
                    "another address with --health-address or AWA_METRICS_ADDRESS, or `off`",
                    ExitCode.CONFIGURATION,
                ) from None
            log.info("no health pages: the usual address is taken; see --health-address")
            continue
        stack.callback(server.close)
        log.info("serving health pages", extra={"host": host, "port": port})
