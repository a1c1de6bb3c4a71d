"""P25: a slow migration is not killed, and its deadline can be moved."""

from support.planning.world import World


def test_p25_a_deadline_that_is_edited_meanwhile_counts_and_nothing_runs_twice(world: World):
    world.settle()
    job = next(iter(world.jobs.values()))
    assert job.manifest["spec"]["activeDeadlineSeconds"] == 3600
    world.edit(migration={"activeDeadlineSeconds": 7200})
    world.settle()
    assert job.manifest["spec"]["activeDeadlineSeconds"] == 7200
    assert len(world.jobs_made) == 1
