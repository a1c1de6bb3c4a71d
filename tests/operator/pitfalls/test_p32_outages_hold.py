"""P32: an unreadable queue is held: never taken for an empty one."""

import pytest

from awa.manifest import ConditionType
from awa.scaling import Unknown
from support.planning.stories import count, look, native


@pytest.mark.parametrize(("jobs", "fallback", "expected"), [(70, None, 7), (70, 3, 7), (0, 1, 1)])
def test_p32_an_outage_only_holds_and_a_fallback_only_raises(
    jobs: int, fallback: int | None, expected: int
):
    world = native(jobs, fallback={"replicas": fallback} if fallback else {})
    before = count(world)
    assert before == (7 if jobs else 0)
    for _ in range(60):
        world.lose_database()
        look(world, Unknown())
        assert count(world) >= before
    assert count(world) == expected
    assert world.condition(ConditionType.SCALING_ACTIVE).status == "Unknown"
