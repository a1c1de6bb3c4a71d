"""What moves between the store and the runtime: claims, and attempts that have ended.

`SealedAttempt` is the only thing that can be finished. It is frozen, so a write that is repeated
after a lost connection carries the same outcome and the same output.
"""

from dataclasses import dataclass
from typing import NamedTuple, assert_never

from awa.outcome import COMPLETED, Cancelled, Completed, Failed, Outcome, RetryRequested, Snoozed
from awa.running import ClaimedItem, ClaimHead

OUTPUT_BATCH_BYTES = 64 * 1024
"""A batch row takes no further item once its outputs exceed this many bytes of JSON text."""


@dataclass(frozen=True, slots=True)
class GivenBack:
    """The attempt did not get to its end here: the job runs again at once, uncounted."""


GIVEN_BACK = GivenBack()


@dataclass(slots=True, eq=False)
class Claim:
    """One claim row and the bodies that came with it. `claim_id` is the attempts' run lease."""

    claim_id: int
    worker_id: int
    slot: int
    token: int
    head: ClaimHead
    seqs: list[int]
    items: list[ClaimedItem]
    args: list[str]
    kind: str | None
    """The kind of all its jobs, None when they are of several."""

    def kind_at(self, seq: int) -> str:
        """Return the kind of the job at a place of this claim."""
        first = self.seqs[0]
        at = seq - first
        if not (at < len(self.seqs) and self.seqs[at] == seq):
            at = self.seqs.index(seq)
        return self.items[at][1]


class Place(NamedTuple):
    """Where the database has an open attempt: the slot of its claim, the claim, and which of it."""

    slot: int
    claim_id: int
    seq: int


class SealedAttempt(NamedTuple):
    """One attempt with its final outcome. A tuple: nothing changes it, and it is cheap."""

    claim: Claim
    seq: int
    outcome: Outcome | GivenBack
    output: str | None = None
    progress: str | None = None


class Flush:
    """The arrays of one finish call: sealed attempts of one worker, always sent unchanged."""

    def __init__(self, sealed: list[SealedAttempt]) -> None:
        self.sealed = sealed
        self.worker_id = sealed[0].claim.worker_id
        by_claim: dict[int, list[SealedAttempt]] = {}
        group: list[SealedAttempt] = []
        last = None
        for attempt in sealed:
            claim = attempt[0]
            if claim is not last:
                last = claim
                group = by_claim.setdefault(claim.claim_id, [])
            group.append(attempt)
        self.groups = list(by_claim.values())
        self.claims: list[Claim] = []
        self.plain = 0
        """How many are successes without an output."""
        self.done_of: list[int] = []
        self.done_lo: list[int] = []
        self.done_hi: list[int] = []
        self.done_batch: list[int] = []
        self.output_of: list[int] = []
        self.output_seqs: list[int] = []
        self.outputs: list[str] = []
        self.end_of: list[int] = []
        self.end_seqs: list[int] = []
        self.end_outcomes: list[str] = []
        self.end_delays: list[float | None] = []
        self.end_errors: list[str | None] = []
        self.end_outputs: list[str | None] = []
        self.end_progress: list[str | None] = []
        for position, claim_id in enumerate(sorted(by_claim), start=1):
            group = by_claim[claim_id]
            self.claims.append(group[0].claim)
            self._add_claim(position, group)

    @property
    def has_outputs(self) -> bool:
        """Whether a success recorded an output."""
        return bool(self.outputs)

    def without_outputs(self) -> list[object]:
        """Arguments after the worker's number, for schemas or flushes without outputs."""
        claims = self.claims
        return [
            [claim.slot for claim in claims],
            [claim.claim_id for claim in claims],
            [claim.token for claim in claims],
            self.done_of,
            self.done_lo,
            self.done_hi,
            self.end_of,
            self.end_seqs,
            self.end_outcomes,
            self.end_delays,
            self.end_errors,
            self.end_outputs,
            self.end_progress,
        ]

    def with_outputs(self) -> list[object]:
        """Arguments after the worker's number, outputs included."""
        return [
            *self.without_outputs(),
            self.done_batch,
            self.output_of,
            self.output_seqs,
            self.outputs,
        ]

    def _add_claim(self, position: int, group: list[SealedAttempt]) -> None:
        done: list[int] = []
        outputs: dict[int, str] = {}
        for attempt in group:
            _, seq, outcome, output, _ = attempt
            if outcome is COMPLETED:
                done.append(seq)
                if output is not None:
                    outputs[seq] = output
            else:
                self._add_end(position, attempt)
        self.plain += len(done) - len(outputs)
        if done:
            done.sort()
            if outputs:
                self._add_with_outputs(position, done, outputs)
            else:
                self._add_ranges(position, done, 1)

    def _add_ranges(self, position: int, seqs: list[int], batch: int) -> None:
        low = seqs[0]
        if seqs[-1] - low + 1 == len(seqs):
            self._add_range(position, low, seqs[-1] + 1, batch)
            return
        high = low
        for seq in seqs:
            if seq > high:
                self._add_range(position, low, high, batch)
                low = seq
            high = seq + 1
        self._add_range(position, low, high, batch)

    def _add_range(self, position: int, low: int, high: int, batch: int) -> None:
        self.done_of.append(position)
        self.done_lo.append(low)
        self.done_hi.append(high)
        self.done_batch.append(batch)

    def _add_with_outputs(self, position: int, seqs: list[int], outputs: dict[int, str]) -> None:
        batch, size, start = 1, 0, 0
        for at, seq in enumerate(seqs):
            output = outputs.get(seq)
            if output is None:
                continue
            if size > OUTPUT_BATCH_BYTES:
                self._add_ranges(position, seqs[start:at], batch)
                batch, size, start = batch + 1, 0, at
            size += len(output.encode())
            self.output_of.append(position)
            self.output_seqs.append(seq)
            self.outputs.append(output)
        self._add_ranges(position, seqs[start:], batch)

    def _add_end(self, position: int, attempt: SealedAttempt) -> None:
        word, delay, error = _ending(attempt.outcome)
        self.end_of.append(position)
        self.end_seqs.append(attempt.seq)
        self.end_outcomes.append(word)
        self.end_delays.append(delay)
        self.end_errors.append(error)
        self.end_outputs.append(attempt.output if _keeps_output(attempt.outcome) else None)
        self.end_progress.append(attempt.progress)


def _ending(outcome: Outcome | GivenBack) -> tuple[str, float | None, str | None]:
    match outcome:
        case Failed(error=error, terminal=terminal):
            return ("fail" if terminal else "retry"), None, error
        case RetryRequested(delay=delay):
            return "retry_after", delay.total_seconds(), outcome.delay_text
        case Snoozed(delay=delay):
            return "snooze", delay.total_seconds(), None
        case Cancelled():
            return "cancel", None, outcome.error
        case GivenBack():
            return "give_back", None, None
        case Completed():
            raise TypeError("a success is not an ending of this kind")
        case _:
            assert_never(outcome)


def _keeps_output(outcome: Outcome | GivenBack) -> bool:
    return not isinstance(outcome, Snoozed | GivenBack)
