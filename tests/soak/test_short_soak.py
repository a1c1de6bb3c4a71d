"""The randomised proof, for a minute. `make soak` runs it for as long as one likes."""

import random
import shutil

import pytest

from support.soak.run import Plan, soak


@pytest.mark.slow
@pytest.mark.timeout(400)
async def test_nothing_is_lost_and_nothing_runs_to_its_end_twice(test_run, postgres_binaries):
    seed = random.SystemRandom().randrange(10**6)
    folder = test_run.new_path("soak")
    folder.mkdir()
    test_run.ensure_keeper()
    verdict = await soak(Plan(seed=seed, seconds=45), folder, postgres_binaries)
    assert verdict["broken"] == [], verdict
    assert verdict["committed"] > 1000
    shutil.rmtree(folder)
