"""C29: pods that are stopped lose no job, and busy ones are not chosen."""

import asyncio
import time
from datetime import timedelta

import pytest

import awa
from support.definitions import queue_definition
from support.holding import HOLD, Call, has_ended
from support.operating import site, took
from support.sizes import sized
from support.stories import LIMIT, WORKERS, apply, image, pods, until_ready

__all__ = ["apply", "image", "queue_definition", "site"]

pytestmark = [pytest.mark.timeout(420), pytest.mark.kubernetes]

PODS, BUSY = sized((4, 2), (10, 3))
SLOW_IMPORT = f"{HOLD}\n\nasyncio.run(call())\n"


async def test_a_pod_that_is_deleted_during_its_imports_is_gone_at_once_and_claims_nothing(
    site, image, apply, board, pod_client
):
    await site.start().until_leads()
    slow = image(1, SLOW_IMPORT, "c29-import")
    apply(worker={"image": slow, "env": board.environment}, replicas=1)
    (call,) = await board.until(1)
    job = await pod_client.insert({}, kind="hold", queue="mail")
    began = time.monotonic()
    await asyncio.to_thread(site.namespace.kubectl, "delete", f"pod/{call.pod}")
    # Its grace period is half a minute and more; that is how long a lost signal would take.
    assert took(began) < timedelta(seconds=5)
    found = await pod_client.get_job(job.id)
    assert (found.state, found.attempt) == (awa.JobState.Available, 0)


async def test_a_worker_behind_a_shell_says_that_signals_do_not_reach_it(site, image, apply):
    await site.start().until_leads()
    behind = ["sh", "-c", "awa worker handlers; exit $?"]
    apply(worker={"image": image(1, HOLD, "hold"), "command": behind}, replicas=1)
    await until_ready(site, "mail")
    (pod,) = site.list("pods", WORKERS)
    said = site.namespace.kubectl("logs", pod["metadata"]["name"])
    assert "PID 1 of this container is a shell" in said


async def test_fewer_pods_are_the_idle_ones_gone_and_no_job_is_interrupted(
    site, image, apply, board, pod_client
):
    await site.start().until_leads()
    scales(apply, image(1, HOLD, "hold"), board)
    calls = await each_pod_has_a_job(site, board, pod_client)
    # The oldest pod is the last one that Kubernetes would take of itself.
    born = {
        one["metadata"]["name"]: one["metadata"]["creationTimestamp"]
        for one in site.list("pods", WORKERS)
    }
    by_age = sorted(calls, key=lambda call: born[call.pod])
    idle, busy = by_age[:-BUSY], by_age[-BUSY:]
    await end(idle, pod_client)

    def only_they_are_left() -> bool:
        return len(pods(site)) == BUSY

    await site.until(only_they_are_left, LIMIT, "idle pods are gone")
    left = {
        one["metadata"]["name"]
        for one in site.list("pods", WORKERS)
        if "deletionTimestamp" not in one["metadata"]
    }
    assert left == {call.pod for call in busy}
    await end(busy, pod_client)
    assert board.calls == calls


async def test_fewer_pods_in_the_middle_of_a_rollout_interrupt_no_job(
    site, image, apply, board, pod_client
):
    await site.start().until_leads()
    first, second = image(1, HOLD, "hold"), image(2, HOLD, "hold")
    scales(apply, first, board)
    calls = await each_pod_has_a_job(site, board, pod_client)
    scales(apply, second, board)

    def has_begun() -> bool:
        return second in pods(site).values()

    await site.until(has_begun, LIMIT, "new pods come")
    idle, busy = calls[:-BUSY], calls[-BUSY:]
    await end(idle, pod_client)

    def only_new_ones_are_left() -> bool:
        found = site.get("deployment", "mail-worker")
        wanted, status = found["spec"]["replicas"], found["status"]
        return wanted == BUSY == status.get("readyReplicas") and set(pods(site).values()) == {
            second
        }

    await site.until(only_new_ones_are_left, LIMIT, "new pods serve, the old ones end")
    assert [call.ended for call in busy] == [None] * BUSY
    await end(busy, pod_client)
    assert board.calls == calls


def scales(apply, image: str, board) -> None:
    """Apply a Queue with as many workers as jobs, up to `PODS`, that are given time to end."""
    at_once = {"stabilizationWindowSeconds": 0, "policies": [
        {"type": "Percent", "value": 100, "periodSeconds": 1}
    ]}  # fmt: skip
    scaling = {
        "mode": "Native", "minReplicas": 1, "maxReplicas": PODS, "targetJobsPerReplica": 1,
        "pollIntervalSeconds": 1, "behavior": {"scaleDown": at_once, "scaleUp": at_once},
    }  # fmt: skip
    worker = {
        "image": image, "concurrency": 1, "drainTimeoutSeconds": 300, "env": board.environment,
    }  # fmt: skip
    apply(worker=worker, scaling=scaling, replicas=None)


async def each_pod_has_a_job(site, board, client) -> list[Call]:
    """Have `PODS` ready pods with a job each; return what they run."""
    await until_ready(site, "mail")
    for _ in range(PODS):
        await client.insert({}, kind="hold", queue="mail")
    calls: list[Call] = await board.until(PODS)
    assert len({call.pod for call in calls}) == PODS, "each of them has one"

    def are_ready() -> bool:
        return site.get("deployment", "mail-worker")["status"].get("readyReplicas") == PODS

    # Kubernetes takes pods that are not ready first, whatever their cost.
    await site.until(are_ready, LIMIT, "all are ready")
    return calls


async def end(calls: list[Call], client) -> None:
    """Let handlers go on; their jobs are done by the pods that began them."""
    for call in calls:
        call.release()
        assert (await has_ended(client, call.job)).output == {"pod": call.pod}
