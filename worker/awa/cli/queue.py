"""`awa queue`: exact counts of queues, and pausing them."""

from dataclasses import asdict
from datetime import UTC, datetime
from typing import Annotated, Any

import typer
from rich.text import Text

from awa._store.counts import QueueCounts
from awa.cli.database import Call, at_database
from awa.cli.exits import CommandError
from awa.cli.output import print_json, print_table, print_text
from awa.cli.text import span, visible

app = typer.Typer(help="Count what queues hold; pause and resume them.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(metavar="QUEUE", help="Name of a queue.")]
_HEADS = (
    "QUEUE", ">AVAILABLE", ">RUNNING", ">SCHEDULED", ">RETRYABLE", ">COMPLETED", ">FAILED",
    ">CANCELLED", ">OLDEST", "NOTE",
)  # fmt: skip


@app.command("list")
@at_database
async def list_queues(call: Call) -> None:
    """List the queues with exact counts of their jobs.

    OLDEST is how long the oldest available job has waited; NOTE says when a queue is paused, and
    which kinds of job wait because no worker of the queue has a handler for them.
    """
    queues = await call.client.queue_counts()
    if call.as_json:
        print_json([_as_json(queue) for queue in queues])
    elif queues:
        print_table(_HEADS, map(_row, queues))
    else:
        print_text("No queues yet; the first job of a queue makes it.")


@app.command("pause")
@at_database
async def pause_queue(
    call: Call,
    queue: Name,
    by: Annotated[str | None, typer.Option(help="Who pauses it, for others to see.")] = None,
) -> None:
    """Let no worker take jobs of a queue until it is resumed; running jobs go on."""
    was_paused = (await _known(call, queue)).paused
    await call.client.pause_queue(queue, by)
    said = "was paused already" if was_paused else "is paused; running jobs go on"
    _answer(call, queue, f"Queue {visible(queue)} {said}.", paused=True, changed=not was_paused)


@app.command("resume")
@at_database
async def resume_queue(call: Call, queue: Name) -> None:
    """End the pause of a queue."""
    await _known(call, queue)
    changed = bool(await call.client.database.value("resume_queue", queue))
    said = "goes on" if changed else "was not paused"
    _answer(call, queue, f"Queue {visible(queue)} {said}.", paused=False, changed=changed)


async def _known(call: Call, queue: str) -> QueueCounts:
    """Return the queue; refuse a name that no queue has, which is most likely a mistyped one."""
    found = await call.client.queue_counts(queue)
    if found:
        return found[0]
    names = ", ".join(each.queue for each in await call.client.queue_counts())
    known = f"there are: {names}" if names else "there are none yet"
    raise CommandError(f"there is no queue {queue!r}; {known}")


def _answer(call: Call, queue: str, said: str, *, paused: bool, changed: bool) -> None:
    if call.as_json:
        print_json({"queue": queue, "paused": paused, "changed": changed})
    else:
        print_text(said)


def _as_json(queue: QueueCounts) -> dict[str, Any]:
    oldest = queue.oldest_available_at
    return {
        **asdict(queue),
        "oldest_available_at": oldest and oldest.astimezone(UTC).isoformat().replace("+00:00", "Z"),
        "unknown_kinds": list(queue.unknown_kinds or ()),
    }


def _row(queue: QueueCounts) -> tuple[Text | str, ...]:
    oldest = queue.oldest_available_at
    counts = (
        queue.available, queue.running, queue.scheduled, queue.retryable, queue.completed,
        queue.failed, queue.cancelled,
    )  # fmt: skip
    return (
        queue.queue,
        *(Text(f"{number:,}", style="" if number else "dim") for number in counts),
        "" if oldest is None else span(datetime.now(UTC) - oldest),
        Text("; ".join(_notes(queue)), style="yellow"),
    )


def _notes(queue: QueueCounts) -> list[str]:
    notes = ["paused"] if queue.paused else []
    if queue.waiting_external:
        notes.append(f"{queue.waiting_external:,} wait for a callback")
    if queue.unknown_kinds:
        kinds = ", ".join(visible(kind) for kind in queue.unknown_kinds)
        notes.append(f"no handler for {kinds}")
    return notes
