"""The randomised proof, for a minute. `make soak` runs it for as long as one likes."""

import random
import shutil

import pytest

from support.soak.faults import FAULTS
from support.soak.run import Plan, soak


@pytest.mark.slow
@pytest.mark.timeout(1500)
async def test_every_promise_is_kept_while_each_kind_of_fault_happens(test_run, postgres_binaries):
    seed = random.SystemRandom().randrange(10**6)
    folder = test_run.new_path("soak")
    folder.mkdir()
    test_run.ensure_keeper()
    verdict = await soak(Plan(seed=seed, seconds=45, fault_every=0.3), folder, postgres_binaries)
    assert verdict["broken"] == [], (folder / "verdict.txt").read_text()
    assert verdict["figures"]["committed"] > 500
    assert verdict["faults"].keys() == {fault.__name__ for fault in FAULTS}
    shutil.rmtree(folder)
