"""The scaling planner: how many replicas a queue should have now, and why.

`decide` is the door; everything else is what goes in and comes out. Pure: no clock, no I/O, and
nothing of Awa beside this package, so that `awa up` and the operator share it.
"""

from awa.scaling.history import History, Pending, Sample, Step
from awa.scaling.planner import Decision, decide
from awa.scaling.reasons import Limit, Reason
from awa.scaling.signals import Signals, Unknown
from awa.scaling.spec import DOWN, UP, PolicyType, RatePolicy, RateRules, ScalingSpec, SelectPolicy

__all__ = [
    "DOWN",
    "UP",
    "Decision",
    "History",
    "Limit",
    "Pending",
    "PolicyType",
    "RatePolicy",
    "RateRules",
    "Reason",
    "Sample",
    "ScalingSpec",
    "SelectPolicy",
    "Signals",
    "Step",
    "Unknown",
    "decide",
]
