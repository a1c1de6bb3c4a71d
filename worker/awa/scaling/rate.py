"""How far the replica count may move now, given how far it moved lately."""

from datetime import datetime

from awa.scaling.history import History
from awa.scaling.spec import PolicyType, RatePolicy, RateRules, SelectPolicy

_PERCENT = 100


def highest(rules: RateRules, history: History, current: int, now: datetime) -> int:
    """Return the largest count that the rules for rising allow; never below `current`."""
    if rules.select is SelectPolicy.DISABLED:
        return current
    bounds = [_upper_bound(policy, history, now) for policy in rules.policies]
    chosen = max(bounds) if rules.select is SelectPolicy.MAX else min(bounds)
    return max(current, chosen)


def lowest(rules: RateRules, history: History, current: int, now: datetime) -> int:
    """Return the smallest count that the rules for falling allow; never above `current`."""
    if rules.select is SelectPolicy.DISABLED:
        return current
    bounds = [_lower_bound(policy, history, now) for policy in rules.policies]
    chosen = min(bounds) if rules.select is SelectPolicy.MAX else max(bounds)
    return min(current, chosen)


def _upper_bound(policy: RatePolicy, history: History, now: datetime) -> int:
    start = history.replicas_at(now - policy.period)
    if policy.type is PolicyType.PODS:
        return start + policy.value
    return -(-start * (_PERCENT + policy.value) // _PERCENT)


def _lower_bound(policy: RatePolicy, history: History, now: datetime) -> int:
    start = history.replicas_at(now - policy.period)
    if policy.type is PolicyType.PODS:
        return max(0, start - policy.value)
    return max(0, start * (_PERCENT - policy.value) // _PERCENT)
