"""P37: work that is due wakes a queue from zero."""

import pytest

from awa.scaling import Signals
from support.planning.stories import count, look, native


@pytest.mark.parametrize("signal", ["due_soon", "due_cron", "orphaned", "expired_callbacks"])
def test_p37_due_work_of_every_kind_wakes_from_zero_at_the_next_poll(signal):
    world = native(0)
    look(world, Signals())
    assert count(world) == 0
    look(world, Signals(**{signal: 1}))
    assert count(world) == 1
