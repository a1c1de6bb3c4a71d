"""`awa enqueue`: one job from the command line."""

import json
import re
import sys
from datetime import datetime, timedelta
from typing import Annotated, Any

import typer

from awa.cli.database import Call, at_database
from awa.cli.exits import CommandError, ExitCode
from awa.cli.output import print_json, print_text
from awa.cli.text import visible
from awa.errors import AwaError, ValidationError
from awa.limits import (
    HIGHEST_PRIORITY,
    LOWEST_PRIORITY,
    MAX_ATTEMPTS_LIMIT,
    check_name,
    parse_time,
)
from awa.options import (
    DEFAULT_MAX_ATTEMPTS,
    DEFAULT_PRIORITY,
    DEFAULT_QUEUE,
    parse_new_job,
)

type JsonObject = dict[str, Any]

_FROM_NOW = re.compile(r"\+(\d{1,9})(s|m|h|d)")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


def _args(text: str) -> dict[str, Any]:
    if text == "-":
        text = sys.stdin.read()
    try:
        value = json.loads(text)
    except ValueError as error:
        raise typer.BadParameter(
            f"""this is not JSON ({error}); it looks like '{{"path": "cat.png"}}'"""
        ) from None
    if not isinstance(value, dict):
        raise typer.BadParameter('args are a JSON object, as in \'{"path": "cat.png"}\'')
    _checked(lambda: parse_new_job(value, kind="any"))
    return value


def _time(text: str) -> datetime | timedelta:
    if found := _FROM_NOW.fullmatch(text):
        return timedelta(**{_UNITS[found[2]]: int(found[1])})
    try:
        return parse_time("the time", text)
    except ValidationError as error:
        raise typer.BadParameter(
            f"{str(error).partition(';')[0]}; write 2030-01-31T09:00:00+01:00, or +90s, +10m, +2h, "
            "+1d from now"
        ) from None


async def _from_now(call: Call, distance: timedelta) -> datetime:
    """Return a time of the database's clock, by which jobs become due; ours may be wrong."""
    now: datetime = await call.client.database.value("clock")
    try:
        return now + distance
    except OverflowError:
        raise CommandError("--at: this is too far away", ExitCode.USAGE) from None


def _name(text: str) -> str:
    _checked(lambda: check_name("a name", text))
    return text


def _checked(check: Any) -> None:
    try:
        check()
    except AwaError as error:
        raise typer.BadParameter(visible(str(error))) from None


@at_database
async def enqueue(
    call: Call,
    kind: Annotated[
        str, typer.Argument(parser=_name, metavar="KIND", help="Kind of the job's handler.")
    ],
    args: Annotated[
        JsonObject,
        typer.Argument(
            parser=_args, metavar="JSON", help="Args, a JSON object; - reads standard input."
        ),
    ] = "{}",  # type: ignore[assignment]  # typer parses defaults too
    queue: Annotated[
        str, typer.Option(parser=_name, metavar="NAME", help="Queue of the job.")
    ] = DEFAULT_QUEUE,
    priority: Annotated[
        int, typer.Option(min=HIGHEST_PRIORITY, max=LOWEST_PRIORITY, help="1 is the highest.")
    ] = DEFAULT_PRIORITY,
    at: Annotated[
        Any,  # a datetime, or a timedelta from now
        typer.Option(
            parser=_time,
            metavar="TIME",
            help="When it is due: 2030-01-31T09:00:00+01:00, or +90s, +10m, +2h, +1d from now.",
        ),
    ] = None,
    max_attempts: Annotated[
        int,
        typer.Option(min=1, max=MAX_ATTEMPTS_LIMIT, help="After so many attempts it has failed."),
    ] = DEFAULT_MAX_ATTEMPTS,
) -> None:
    """Enqueue a job.

    For example: awa enqueue thumbnail '{"path": "cat.png"}' --queue images
    """
    if isinstance(at, timedelta):
        at = await _from_now(call, at)
    job = await call.client.insert(
        args, kind=kind, queue=queue, priority=priority, run_at=at, max_attempts=max_attempts
    )
    if call.as_json:
        print_json((await call.client.get_job(job.id)).to_dict())
    else:
        due = "" if at is None else f", due {at.astimezone().isoformat(' ', 'seconds')}"
        print_text(f"Enqueued job {job.id} in queue {visible(queue)}{due}.")
