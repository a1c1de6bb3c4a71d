"""The `awa` command. What takes long to import comes after the signals are caught."""

import sys

from awa.cli.signals import catch_stop_signals
from awa.environment import conflict

EXIT_USAGE = 2


def main() -> None:
    """Run the command line (entry point of the distribution)."""
    if (problem := conflict()) is not None:
        print(problem, file=sys.stderr)
        sys.exit(EXIT_USAGE)
    if sys.argv[1:2] in (["worker"], ["up"], ["demo"]):
        catch_stop_signals()
    from awa.cli.app import app  # noqa: PLC0415 - see above
    from awa.cli.output import writes_anything  # noqa: PLC0415

    writes_anything()
    app()
