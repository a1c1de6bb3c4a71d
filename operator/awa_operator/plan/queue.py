"""The plan of one Queue: the stages in their order."""

from datetime import datetime

from awa_operator.actions import Plan
from awa_operator.observed import Observed


def plan_queue(observed: Observed, now: datetime) -> Plan:
    """Return what to do and what to report now. Pure: the same arguments, the same plan."""
    raise NotImplementedError
