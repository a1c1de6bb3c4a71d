"""What producers, workers and the manager wrote down, job by job, without the database."""

from collections.abc import Iterator
from pathlib import Path

from support.soak.journal import read_journal, read_journals

ENDS = {"Completed", "Cancelled", "TerminallyFailed"}
COMMITTED, UNKNOWN, ROLLED_BACK = "committed", "unknown", "rolled back"


class Run:
    """One call of the handler. `ended_at` is None when the handler did not come to its end.

    `claimed_at` is the time of its claim as the worker was told it, by the database's clock: a
    worker that stood still may begin a run whose claim it has lost long ago.
    """

    __slots__ = ("began_at", "claimed_at", "ended_at", "token")

    def __init__(self, token: str, began_at: float, claimed_at: float) -> None:
        self.token = token
        self.began_at = began_at
        self.claimed_at = claimed_at
        self.ended_at: float | None = None


class Story:
    """Everything that was noted of one job."""

    __slots__ = (
        "accepted", "cancel_tried_at", "cancelled_at", "committed_at", "due_at", "fate", "key",
        "mode", "retries", "runs", "seen", "stale", "unique", "unwritten",
    )  # fmt: skip

    def __init__(self, key: str, mode: str) -> None:
        self.key = key
        self.mode = mode
        self.fate = UNKNOWN
        self.committed_at = 0.0
        self.due_at: float | None = None
        self.unique: str | None = None
        self.runs: list[Run] = []
        self.accepted: list[tuple[float, str, str]] = []
        self.stale = 0
        self.retries = 0
        self.cancel_tried_at: float | None = None
        self.cancelled_at: float | None = None
        self.seen: list[str] = []
        self.unwritten = False

    def run(self, token: str) -> Run | None:
        """Return the run that drew a token."""
        return next((run for run in self.runs if run.token == token), None)

    @property
    def ended(self) -> bool:
        """Whether somebody was told that the job had ended."""
        return self.cancelled_at is not None or any(word in ENDS for _, _, word in self.accepted)


def read_stories(folder: Path) -> dict[str, Story]:
    """Read every journal of a soak."""
    stories: dict[str, Story] = {}
    for at, word, key, *rest in read_journals(folder, "producer"):
        _produced(stories, float(at), word, key, rest)
    for at, word, key, *rest in read_journals(folder, "worker"):
        # A job that nobody noted to have tried is a story of its own: it must not have run.
        _worked(stories.setdefault(key, Story(key, "?")), float(at), word, rest)
    for at, word, key, *rest in read_journals(folder, "manager"):
        if key in stories:
            _managed(stories[key], float(at), word, rest)
    return stories


def read_begins(folder: Path) -> dict[int, list[float]]:
    """Return when each process began its jobs, in order."""
    return {
        int(path.name.split(".")[1]): [
            float(at) for at, word, *_ in read_journal(path) if word == "started"
        ]
        for path in folder.glob("worker.*.journal")
    }


def _produced(stories: dict[str, Story], at: float, word: str, key: str, rest: list[str]) -> None:
    if word == "tried":
        story = stories[key] = Story(key, rest[0])
        match rest[1:]:
            case ["due", due]:
                story.due_at = float(due)
            case ["unique", bucket]:
                story.unique = bucket
            case _:
                pass
        return
    story = stories[key]
    story.fate = COMMITTED if word == "committed" else ROLLED_BACK
    story.committed_at = at


def _worked(story: Story, at: float, word: str, rest: list[str]) -> None:
    token = rest[0]
    if word == "started":
        story.runs.append(Run(token, at, float(rest[2])))
    elif word == "ended":
        if (run := story.run(token)) is not None:
            run.ended_at = at
    elif word == "accepted":
        story.accepted.append((at, token, rest[1]))
    else:
        story.stale += 1
    if rest[-1] == "Unwritten":
        story.unwritten = True


def _managed(story: Story, at: float, word: str, rest: list[str]) -> None:
    match word:
        case "cancelling":
            story.cancel_tried_at = story.cancel_tried_at or at
        case "cancelled" if rest[0] == "cancelled":
            story.cancelled_at = story.cancelled_at or at
        case "retrying":
            story.retries += 1
        case "seen":
            story.seen.append(rest[0])
        case _:
            pass


def lines_of(folder: Path, keys: set[str]) -> Iterator[tuple[str, float, str]]:
    """Yield key, time and words of every line about some jobs."""
    for name in ("producer", "worker", "manager", "observer"):
        for at, word, key, *rest in read_journals(folder, name):
            if key in keys:
                yield key, float(at), " ".join((name, word, *rest))
