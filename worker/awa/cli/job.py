"""`awa job`: look at jobs, stop them, run them again."""

import json
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Any

import typer
from rich.text import Text

from awa.cli.database import Call, at_database
from awa.cli.exits import CommandError, complain
from awa.cli.output import print_json, print_table, print_text, state_text
from awa.cli.text import span, visible, visible_json
from awa.client import MAX_LISTED
from awa.errors import AwaError, JobNotFound
from awa.job import Job, JobState

app = typer.Typer(help="Look at jobs, stop them, run them again.", no_args_is_help=True)

State = StrEnum("State", [(state.name, str(state)) for state in JobState])  # type: ignore[misc]
"""The states, as the command line takes them."""

Ids = Annotated[list[int], typer.Argument(metavar="ID...", help="Numbers of jobs.")]
_HEADS = (">ID", "STATE", "KIND", "QUEUE", ">ATTEMPT", ">WHEN", "DETAIL")


@app.command("list")
@at_database
async def list_jobs(
    call: Call,
    state: Annotated[State | None, typer.Option(help="Only jobs in this state.")] = None,
    kind: Annotated[str | None, typer.Option(help="Only jobs of this kind.")] = None,
    queue: Annotated[str | None, typer.Option(help="Only jobs of this queue.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=MAX_LISTED, help="How many at most.")] = 50,
) -> None:
    """List jobs: what is next first, of those that have ended the newest.

    Without --state: running ones, then those that wait, then those that have ended.
    """
    jobs = await call.client.list_jobs(None if state is None else str(state), kind, queue, limit)
    if call.as_json:
        print_json([_listed(job) for job in jobs])
    elif jobs:
        print_table(_HEADS, map(_row, jobs))
        if len(jobs) == limit:
            print_text(Text(f"The first {limit}; there may be more: --limit.", style="dim"))
    else:
        print_text("No jobs.")


@app.command("show")
@at_database
async def show_job(
    call: Call, job_id: Annotated[int, typer.Argument(metavar="ID", help="Number of a job.")]
) -> None:
    """Show all there is about a job: its args, its output, its errors."""
    job = await call.client.get_job(job_id)
    if call.as_json:
        print_json(job.to_dict())
    else:
        print_text(Text("\n").join(_described(job)))


@app.command("cancel")
@at_database
async def cancel_jobs(call: Call, job_ids: Ids) -> None:
    """Cancel jobs that have not ended.

    A running one is told to stop at once, and what it still does does not count.
    """
    await _for_each(call, job_ids, _cancel)


@app.command("retry")
@at_database
async def retry_jobs(call: Call, job_ids: Ids) -> None:
    """Run failed or cancelled jobs again from their first attempt, or waiting ones now."""
    await _for_each(call, job_ids, _retry)


async def _cancel(call: Call, job_id: int) -> str:
    found = await call.client.database.value("cancel", job_id)
    if found is None:
        raise JobNotFound(job_id)
    if JobState.parse(found).is_terminal:
        raise CommandError(f"job {job_id} has already {_ENDED[found]}")
    told = "; its worker has been told to stop" if found == "running" else ""
    return f"Cancelled job {job_id}, which was {found}{told}."


async def _retry(call: Call, job_id: int) -> str:
    await call.client.retry(job_id)
    return f"Job {job_id} runs again as soon as a worker has a place for it."


async def _for_each(call: Call, job_ids: list[int], act: Any) -> None:
    """Do something to each job; the others go on when one is refused, and the exit code tells."""
    done: list[dict[str, Any]] = []
    refusals: list[AwaError | CommandError] = []
    for job_id in job_ids:
        try:
            said = await act(call, job_id)
        except (JobNotFound, CommandError) as refusal:
            refusals.append(refusal)
        except AwaError as refusal:
            if type(refusal) is not AwaError:
                raise
            refusals.append(refusal)
        else:
            if call.as_json:
                done.append(_listed(await call.client.get_job(job_id)))
            else:
                print_text(said)
    if call.as_json:
        print_json(done)
    for earlier in refusals[:-1]:
        complain(str(earlier))
    if refusals:
        raise refusals[-1]


def _listed(job: Job[Any]) -> dict[str, Any]:
    """Return a job as JSON values without its output, which lists do not load."""
    return {name: value for name, value in job.to_dict().items() if name != "output"}


def _row(job: Job[Any]) -> tuple[Text | str, ...]:
    return (
        str(job.id), state_text(job.state), job.kind, job.queue,
        f"{job.attempt}/{job.max_attempts}", _when(job, datetime.now(UTC)), _detail(job),
    )  # fmt: skip


def _when(job: Job[Any], now: datetime) -> str:
    if job.state.is_terminal:
        return f"{span(now - (job.finalized_at or job.run_at))} ago"
    if job.state is JobState.Running:
        return f"for {span(now - (job.attempted_at or now))}"
    if job.state is JobState.Available:
        return f"for {span(max(now - job.run_at, now - now))}"
    return f"in {span(job.run_at - now)}" if job.run_at > now else "now"


def _detail(job: Job[Any]) -> str:
    if job.errors and job.state is not JobState.Completed:
        return str(job.errors[-1].get("error", "")).partition("\n")[0]
    if job.progress:
        return _progress(job.progress)
    return ", ".join(job.tags)


def _progress(progress: dict[str, Any]) -> str:
    message = progress.get("message")
    return f"{progress.get('percent', 0):g} %" + (f" {message}" if message else "")


def _described(job: Job[Any]) -> list[Text]:
    lines = [
        Text.assemble((f"Job {job.id}", "bold"), f"  {visible(job.kind)}  ", state_text(job.state)),
        _line("queue", f"{job.queue}, priority {job.priority}"),
        _line("attempt", f"{job.attempt} of {job.max_attempts}"),
    ]
    times = (
        ("enqueued", job.created_at), ("due", job.run_at), ("claimed", job.attempted_at),
        ("ended", job.finalized_at), ("deadline", job.deadline),
    )  # fmt: skip
    lines += [_line(name, _time(at)) for name, at in times if at is not None]
    if job.attempted_at and job.finalized_at:
        lines.append(_line("took", span(job.finalized_at - job.attempted_at)))
    if job.tags:
        lines.append(_line("tags", ", ".join(job.tags)))
    if job.progress:
        lines.append(_line("progress", _progress(job.progress)))
    values = job.to_dict()
    for name in ("metadata", "args", "output"):
        if values[name] or name != "metadata":
            lines += _value(name, values[name])
    return lines + [line for entry in job.errors for line in _error(entry)]


def _line(name: str, value: str) -> Text:
    return Text.assemble((f"  {name:<9} ", "dim"), visible(value))


def _value(name: str, value: Any) -> list[Text]:
    """Return a JSON value on one line where it fits, else on several."""
    if value is None:
        return [_line(name, "none")]
    text = json.dumps(value, ensure_ascii=False)
    if len(text) > 66:
        text = json.dumps(value, ensure_ascii=False, indent=2)
    first, *others = visible_json(text).splitlines()
    head = Text.assemble((f"  {name:<9} ", "dim"), first)
    return [head, *(Text(" " * 12 + other) for other in others)]


def _error(entry: dict[str, Any]) -> list[Text]:
    at, attempt = entry.get("at"), entry.get("attempt")
    head = f"  error     attempt {attempt}" + (f", {visible(str(at))}" if at else "")
    if entry.get("terminal"):
        head += ", final"
    told = str(entry.get("error", "")).splitlines() or [""]
    return [Text(head, style="red"), *(Text(" " * 12 + visible(line)) for line in told)]


def _time(at: datetime) -> str:
    return at.astimezone().strftime("%Y-%m-%d %H:%M:%S.%f")[:-3] + at.astimezone().strftime(" %z")


_ENDED = {"completed": "completed", "failed": "failed", "cancelled": "been cancelled"}
