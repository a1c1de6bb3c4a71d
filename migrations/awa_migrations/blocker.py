"""Who holds a lock that a migration waits for: facts for an error message, never query text."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Self


@dataclass(frozen=True, slots=True)
class Blocker:
    """A session that holds, or queues ahead for, a lock.

    `pid` 0 stands for a prepared transaction, which has no session. `state` and `age` (of its
    transaction) are None when this role may not see them.
    """

    pid: int
    application_name: str
    state: str | None
    age: timedelta | None

    @classmethod
    def of(cls, row: Mapping[str, object]) -> Self:
        """Read a row of the query `blockers`."""
        age = row["age_seconds"]
        return cls(
            pid=int(str(row["pid"])),
            application_name=str(row["application_name"] or ""),
            state=None if row["state"] is None else str(row["state"]),
            age=timedelta(seconds=float(age)) if isinstance(age, int | float) else None,
        )

    def __str__(self) -> str:
        if self.pid == 0:
            return "a prepared transaction (see pg_prepared_xacts)"
        name = f"application {self.application_name!r}" if self.application_name else "unnamed"
        if self.state is None or self.age is None:
            return f"pid {self.pid} ({name}, state visible to pg_read_all_stats only)"
        return f"pid {self.pid} ({name}, {self.state}, {self.age.total_seconds():.1f} s old)"
