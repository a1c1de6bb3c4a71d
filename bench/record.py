"""What one measured run leaves behind."""

import statistics
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Self


@dataclass(frozen=True, slots=True)
class Sample:
    """The figures of one contender in one case of one repetition.

    `foreign_cores` is how many cores anything outside this benchmark used meanwhile.
    """

    scenario: str
    case: str
    contender: str
    version: str
    repetition: int
    foreign_cores: float
    figures: Mapping[str, float]

    def as_json(self) -> dict[str, object]:
        figures = {name: round(value, 4) for name, value in self.figures.items()}
        return {"record": "run", **asdict(self), "figures": figures}


@dataclass(frozen=True, slots=True)
class Spread:
    """Median and range of one figure over the repetitions."""

    median: float
    low: float
    high: float
    count: int

    @classmethod
    def of(cls, values: Iterable[float]) -> Self | None:
        """Summarise `values`; None when there are none."""
        known = sorted(values)
        if not known:
            return None
        return cls(statistics.median(known), known[0], known[-1], len(known))
