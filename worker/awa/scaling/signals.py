"""What one look at the database says about a queue, or that it said nothing."""

from dataclasses import dataclass, replace
from datetime import timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class Signals:
    """Counts of one queue at one moment, and the age of its oldest claimable job.

    `ready` are claimable now (0 while the queue is paused) and `running` are claimed. The other
    four are work that nobody counts as ready yet but that needs a worker to become so: deferred
    jobs due before a woken worker could start, attempts whose worker is gone, callbacks past
    their time, and cron schedules past theirs. `set_aside` are jobs whose kind no worker that has
    run knew; they count only for handlers that have not been tried.
    """

    ready: int = 0
    running: int = 0
    oldest_ready_age: timedelta = timedelta(0)
    due_soon: int = 0
    orphaned: int = 0
    expired_callbacks: int = 0
    due_cron: int = 0
    set_aside: int = 0

    def before_new_handlers(self) -> "Signals":
        """Return the signals for handlers that have not run yet, which may know what was set aside.

        Such a job counts as due: a worker that knows it makes it ready.
        """
        return replace(self, due_soon=self.due_soon + self.set_aside)

    @property
    def demand(self) -> int:
        """Jobs that need a place to run, counting those that have one."""
        return self.ready + self.running

    @property
    def waking(self) -> int:
        """Everything that a worker at zero replicas would have to be woken for."""
        return self.ready + self.due_soon + self.orphaned + self.expired_callbacks + self.due_cron

    @property
    def is_idle(self) -> bool:
        """Nothing waits, nothing is due, nothing runs."""
        return self.waking == 0 and self.running == 0

    @property
    def lag(self) -> timedelta:
        """The age of the oldest claimable job; zero when none is claimable."""
        return max(self.oldest_ready_age, timedelta(0)) if self.ready > 0 else timedelta(0)


@dataclass(frozen=True, slots=True)
class Unknown:
    """The queue could not be read. Never to be taken for an empty queue."""
