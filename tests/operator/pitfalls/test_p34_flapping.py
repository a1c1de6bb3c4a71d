"""P34: no flapping, and no cliff to zero."""

import itertools

from awa.scaling import Signals
from support.planning.stories import count, look, native


def test_p34_a_square_wave_turns_at_most_once_in_a_window():
    world = native(50)
    turns, last, direction = [], count(world), 0
    for step in range(120):
        wave = 100 if (step // 6) % 2 else 0
        look(world, Signals(ready=wave))
        now = count(world)
        if now != last:
            new = 1 if now > last else -1
            turns += [step * 10] if direction and new != direction else []
            direction, last = new, now
    assert direction, "the count never moved"
    assert all(late - early >= 300 for early, late in itertools.pairwise(turns))


def test_p34_never_to_zero_in_one_step():
    world = native(70)
    seen = [count(world)]
    for _ in range(300):
        look(world, Signals())
        if count(world) != seen[-1]:
            seen.append(count(world))
    assert seen[-2:] == [1, 0]
