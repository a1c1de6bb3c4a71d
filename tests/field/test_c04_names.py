"""C04: a name, a host or a process number that comes back protects nobody's jobs."""

import os
import socket
from datetime import timedelta

from support.fleet.tasks import QUEUE, Task
from support.waiting import eventually


async def test_a_new_process_of_the_same_name_does_not_shield_the_old_ones_jobs(fleet):
    await fleet.client.insert(Task("a", "gate"), queue=QUEUE)
    first = await fleet.process("pod-0")
    await fleet.known_started("a")
    await first.kill()
    fleet.open_gate()
    await fleet.process("pod-0")
    await fleet.quiet()
    assert [(run.worker, run.attempt) for run in fleet.runs()] == [("pod-0", 1), ("pod-0", 2)]
    assert fleet.ends() == [("a", "pod-0", "Completed")]


async def test_jobs_of_a_worker_whose_row_is_gone_are_rescued(fleet, engine):
    await fleet.client.insert(Task("a", "gate"), queue=QUEUE)
    first = await fleet.process("w1")
    await fleet.started("a")
    await first.kill()
    gone = await engine.admin.execute("delete from awa.runtime_instances where name = 'w1'")
    assert gone == "DELETE 1"
    fleet.open_gate()
    await fleet.embedded("w2")
    await eventually(fleet.ends, timedelta(seconds=20))
    # Nothing says any more that the first attempt had started, so it does not count.
    assert [(run.worker, run.attempt) for run in fleet.runs()] == [("w1", 1), ("w2", 1)]
    assert fleet.ends() == [("a", "w2", "Completed")]


async def test_the_same_name_host_and_process_number_are_another_worker(fleet, engine):
    await fleet.client.insert(Task("a", "gate"), queue=QUEUE)
    first = await fleet.process("pod-0")
    await fleet.known_started("a")
    await first.kill()
    # As in two containers in which the worker is process 1: the next one's row looks the same.
    await engine.admin.execute(
        "update awa.runtime_instances set pid = $1 where name = 'pod-0'", os.getpid()
    )
    fleet.open_gate()
    await fleet.embedded("pod-0")
    same = await engine.admin.fetch(
        "select worker_id from awa.runtime_instances"
        " where name = 'pod-0' and host = $1 and pid = $2",
        socket.gethostname(), os.getpid(),
    )  # fmt: skip
    assert len({row["worker_id"] for row in same}) == 2
    await fleet.quiet()
    assert [run.attempt for run in fleet.runs()] == [1, 2]
    await eventually(lambda: fleet.ends() == [("a", "pod-0", "Completed")])
