"""Every command of `awa`: one module each, registered here."""

from typing import Annotated

import typer

from awa import __version__
from awa.cli import job, queue
from awa.cli.demo import demo
from awa.cli.enqueue import enqueue
from awa.cli.migrate import migrate_schema
from awa.cli.up import up
from awa.cli.worker import worker

app = typer.Typer(
    help="Awa: a PostgreSQL-native job queue.",
    no_args_is_help=True,
    # Values of variables may be addresses with passwords, or what a job was given.
    pretty_exceptions_show_locals=False,
)
app.command("up")(up)
app.command("demo")(demo)
app.command("migrate")(migrate_schema)
app.command("worker")(worker)
app.command("enqueue")(enqueue)
app.add_typer(job.app, name="job")
app.add_typer(queue.app, name="queue")


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"awa {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _root(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """Awa: a PostgreSQL-native job queue."""
