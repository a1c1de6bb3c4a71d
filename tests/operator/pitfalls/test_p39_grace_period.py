"""P39: a pod may end longer than it drains."""

from awa_operator.render.deployment import render_pod_template
from support.planning.queues import make_queue
from support.planning.world import World


def test_p39_pods_may_end_longer_than_they_drain_and_an_override_is_warned_of(world: World):
    pod = render_pod_template(make_queue(spec={"worker": {"drainTimeoutSeconds": 300}}), None)
    assert pod["spec"]["terminationGracePeriodSeconds"] == 310
    overlay = {"spec": {"terminationGracePeriodSeconds": 5}}
    world.edit(worker={"podTemplate": overlay})
    world.settle()
    warned = [one for _, one in world.events if one.reason == "GracePeriodTooShort"]
    assert len(warned) == 1
    assert warned[0].is_warning
