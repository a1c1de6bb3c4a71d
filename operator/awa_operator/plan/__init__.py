"""All decisions of the operator: pure functions of what was observed and of the time."""

from awa_operator.plan.queue import plan_queue

__all__ = ["plan_queue"]
