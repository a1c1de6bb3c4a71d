"""Commands run in the test's own process."""

import asyncio
import json
from dataclasses import dataclass
from typing import Any

from typer.testing import CliRunner

from awa.cli.app import app


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    code: int
    output: str
    errors: str

    @property
    def document(self) -> Any:
        """The one JSON document of the output; nothing was said beside it."""
        assert (self.code, self.errors) == (0, "")
        return json.loads(self.output)


async def run_awa(*words: str, given: str | None = None, **environ: str) -> Ended:
    """Run `awa` in a thread: it has an event loop of its own."""

    def run() -> Ended:
        environment: dict[str, str | None] = {"COLUMNS": "100", **environ}
        done = CliRunner().invoke(app, words, input=given, env=environment, prog_name="awa")
        if done.exception is not None and not isinstance(done.exception, SystemExit):
            raise done.exception
        return Ended(done.exit_code, done.stdout, done.stderr)

    return await asyncio.to_thread(run)
