"""What the command line exits with, and how an error is told: one text on standard error."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum

import typer

from awa._demo.example import ExampleMissing
from awa._fleet.fleet import WorkersFailed
from awa._fleet.home import FolderUnusable
from awa._fleet.pages import PagesUnavailable
from awa._local.errors import LocalPostgresError, ServerAlreadyRunning, ServerFailed
from awa.cli.text import visible
from awa.errors import (
    AwaError,
    DatabaseTooOld,
    DatabaseUnreachable,
    PermissionMissing,
    SchemaNotMigrated,
)
from awa.manifest import ManifestError
from awa_migrations.errors import ExitCode as MigrationsExit
from awa_migrations.errors import MigrationsError


class ExitCode(IntEnum):
    """Exit codes of every `awa` command; the large ones are those of sysexits.h."""

    DONE = 0
    REFUSED = 1
    """Not found, or not possible in the state that things are in."""
    USAGE = 2
    """The command was not written as it must be; nothing was done."""
    UNREACHABLE = 75
    """The database did not answer; the same command may work later."""
    CONFIGURATION = 78
    """Somebody has to change an address, a right, a schema, a manifest or a machine first."""
    INTERRUPTED = 130
    """Ended by Ctrl-C."""


class CommandError(Exception):
    """Ends a command with a message and an exit code."""

    def __init__(self, message: str, code: ExitCode = ExitCode.REFUSED) -> None:
        super().__init__(message)
        self.code = code


# A password or a database name does not become right by waiting.
_WRONG_ADDRESS = {"28000", "28P01", "3D000"}
_OF_CONFIGURATION = (
    DatabaseTooOld,
    ExampleMissing,
    FolderUnusable,
    LocalPostgresError,
    ManifestError,
    PagesUnavailable,
    PermissionMissing,
    SchemaNotMigrated,
    WorkersFailed,
)
_OF_MIGRATIONS = {
    MigrationsExit.USAGE: ExitCode.CONFIGURATION,
    MigrationsExit.PERMANENT: ExitCode.CONFIGURATION,
    MigrationsExit.CONFIGURATION: ExitCode.CONFIGURATION,
    MigrationsExit.TRY_AGAIN: ExitCode.UNREACHABLE,
}


def exit_code(error: BaseException) -> ExitCode:
    """Return the exit code that an error of ours stands for."""
    if isinstance(error, CommandError):
        return error.code
    if isinstance(error, MigrationsError):
        return _OF_MIGRATIONS[error.exit_code]
    if isinstance(error, DatabaseUnreachable) and error.sqlstate in _WRONG_ADDRESS:
        return ExitCode.CONFIGURATION
    if isinstance(error, DatabaseUnreachable | ServerAlreadyRunning | ServerFailed):
        return ExitCode.UNREACHABLE
    if isinstance(error, WorkersFailed) and not error.is_configuration:
        return ExitCode.REFUSED
    if isinstance(error, _OF_CONFIGURATION):
        return ExitCode.CONFIGURATION
    return ExitCode.REFUSED


def complain(message: str) -> None:
    """Say on standard error what is wrong."""
    lines = "\n".join(visible(line) for line in message.splitlines())
    print(f"awa: {lines}", file=sys.stderr)


@contextmanager
def told() -> Iterator[None]:
    """Turn errors of ours into a message and an exit code; others are faults and go on."""
    try:
        yield
    except (AwaError, CommandError, ManifestError, MigrationsError) as error:
        complain("\n".join([str(error), *getattr(error, "__notes__", [])]))
        raise typer.Exit(exit_code(error)) from None
