"""What Argo CD is told of a Queue: its health script, run on statuses that the planner writes."""

from lupa import lua51  # type: ignore[import-untyped]

from awa.manifest import ConditionType
from support.charts import ROOT
from support.planning.world import World

SCRIPT = ROOT / "deploy" / "argo-cd-health.lua"


def health(world: World, name: str = "email") -> dict[str, str]:
    """Return what the script says of a Queue."""
    queue = world.queues[name].model_dump(mode="json", by_alias=True, exclude_none=True)
    lua = lua51.LuaRuntime()
    lua.globals().obj = lua.table_from(queue, recursive=True)
    return dict(lua.execute(SCRIPT.read_text()))


def test_a_queue_that_nobody_has_looked_at_is_on_its_way(world: World):
    assert health(world)["status"] == "Progressing"


def test_a_queue_that_migrates_and_rolls_out_is_on_its_way_until_it_is_ready(world: World):
    world.settle()
    told = health(world)
    assert told["status"] == "Progressing"
    assert "Job" in told["message"]
    world.end_job()
    world.settle()
    assert health(world)["status"] == "Healthy"
    world.edit(worker={"image": "app:2"})
    # The status is of the spec before.
    assert health(world)["status"] == "Progressing"


def test_a_queue_that_needs_somebody_is_degraded_and_says_why(ready_world: World):
    ready_world.edit(worker={"image": "app:2"})
    ready_world.settle()
    ready_world.end_job(code=64, message="no")
    ready_world.settle()
    told = health(ready_world)
    assert told["status"] == "Degraded"
    assert told["message"] == ready_world.condition(ConditionType.STALLED).message


def test_a_suspended_queue_is_suspended(ready_world: World):
    ready_world.edit(suspend=True)
    ready_world.settle()
    assert health(ready_world)["status"] == "Suspended"
