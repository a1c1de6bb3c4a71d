"""What one stage adds to a plan."""

from dataclasses import dataclass, field
from datetime import datetime

from awa_operator.actions import Action, Waiting


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """Actions in their order, why no more is done, and when to look again.

    `progressing` makes the Queue Reconciling and `stalled` makes it Stalled; both name the reason
    and are among what is waited for.
    """

    actions: tuple[Action, ...] = ()
    progressing: Waiting | None = None
    stalled: Waiting | None = None
    noted: tuple[Waiting, ...] = field(default=())
    due: datetime | None = None

    @property
    def waiting(self) -> tuple[Waiting, ...]:
        """Everything that this stage waits for."""
        named = tuple(one for one in (self.stalled, self.progressing) if one is not None)
        return (*named, *self.noted)


def earliest(*moments: datetime | None) -> datetime | None:
    """Return the first of the moments that are there."""
    return min((moment for moment in moments if moment is not None), default=None)
