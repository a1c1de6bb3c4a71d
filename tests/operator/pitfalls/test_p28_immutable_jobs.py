"""P28: a changed migration is another Job; the newest wins and none is interrupted."""

from awa.manifest import ConditionType
from awa_operator.conditions import Reason
from support.planning.world import World


def test_p28_two_quick_changes_run_the_newest_only_and_record_the_first_as_superseded(
    ready_world: World,
):
    world = ready_world
    world.edit(migration={"args": ["--lane-pool", "300"]})
    world.settle()
    world.edit(migration={"args": ["--lane-pool", "400"]})
    world.settle()
    world.edit(migration={"args": ["--lane-pool", "500"]})
    world.settle()
    assert len(world.jobs_made) == 2, "a running Job is left alone, and none runs beside it"
    assert world.condition(ConditionType.SCHEMA_MIGRATED).reason == Reason.SUPERSEDED
    world.end_job()
    world.settle()
    assert len(world.jobs_made) == 3
    newest = world.jobs[world.jobs_made[-1]].manifest["spec"]["template"]["spec"]["containers"][0]
    assert newest["args"] == ["--lane-pool", "500"]
    world.end_job()
    world.settle()
    outcomes = [one.outcome for one in world.migration().history]
    assert outcomes == ["Succeeded", "Superseded", "Succeeded"]
    assert not world.violations
