"""One set of metrics for the processes of a supervisor, whichever of them live.

Counters and histograms are sums over every process there has been: what a process counted before
it died stays counted, so no sum ever falls. Gauges are sums, or what `GAUGE_RULES` says, over the
processes that live; one that nobody reports any more is 0, and those beyond the first hundreds are
one, `other`. So the set of series follows what is worked, never which processes work.
"""

from collections.abc import Hashable, Iterable

from awa.metrics import GAUGE_RULES, MAX_LABEL_VALUES, OTHER, Family

type _Key = tuple[str, tuple[tuple[str, str], ...]]


class Totals:
    """The metrics of all processes, merged."""

    def __init__(self) -> None:
        self._latest: dict[Hashable, list[Family]] = {}
        self._retired: dict[str, Family] = {}
        self._gauges: dict[str, Family] = {}

    def report(self, process: Hashable, found: list[Family]) -> None:
        """Take what a process has counted since it started."""
        self._latest[process] = found
        for family in found:
            if family.kind == "gauge":
                known = self._gauges.setdefault(
                    family.name, Family(family.name, family.kind, family.text, {})
                )
                for key in family.samples:
                    known.samples.setdefault(_capped(known, key), 0.0)

    def retire(self, process: Hashable) -> None:
        """Keep what a process counted; its gauges go with it."""
        for family in self._latest.pop(process, ()):
            if family.kind != "gauge":
                _add(self._retired, family)

    def families(self) -> list[Family]:
        """Return the merged metrics."""
        sums = {name: _copy(family) for name, family in self._retired.items()}
        gauges: dict[str, dict[_Key, list[float]]] = {}
        for found in self._latest.values():
            for family in found:
                if family.kind != "gauge":
                    _add(sums, family)
                    continue
                values, known = gauges.setdefault(family.name, {}), self._gauges[family.name]
                for key, value in family.samples.items():
                    values.setdefault(_capped(known, key), []).append(value)
        return [*sums.values(), *self._merged(gauges)]

    def _merged(self, gauges: dict[str, dict[_Key, list[float]]]) -> Iterable[Family]:
        for name, known in self._gauges.items():
            merged = _copy(known)
            rule = GAUGE_RULES.get(name, sum)
            for key, values in gauges.get(name, {}).items():
                merged.samples[key] = float(rule(values))
            yield merged


def _capped(known: Family, key: _Key) -> _Key:
    """Return a key as it is, or with labels `other` when the gauge has had too many."""
    if key in known.samples or len(known.samples) < MAX_LABEL_VALUES:
        return key
    name, labels = key
    return (name, tuple((label, OTHER) for label, _ in labels))


def _add(sums: dict[str, Family], family: Family) -> None:
    total = sums.get(family.name)
    if total is None:
        sums[family.name] = _copy(family)
        return
    for key, value in family.samples.items():
        total.samples[key] = total.samples.get(key, 0.0) + value


def _copy(family: Family) -> Family:
    return Family(family.name, family.kind, family.text, dict(family.samples))
