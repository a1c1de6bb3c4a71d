"""`awa up` runs as many workers as the work needs, and takes none from under a running job."""

from contextlib import suppress
from pathlib import Path

import psutil

from acceptance.commands import LIMIT
from acceptance.manifests import fixed, scaled
from support.waiting import eventually


async def ended(client, count, state="completed"):
    async def look():
        return len(await client.list_jobs(state, limit=1000)) == count

    await eventually(look, LIMIT, what=f"{count} jobs {state}")


def started(place: Path) -> dict[int, str]:
    """Return which job runs on which worker."""
    return {
        int(file.name.split("-")[1]): file.read_text()
        for file in place.glob("started-*")
        if file.read_text()
    }


async def until_started(place: Path, count: int) -> dict[int, str]:
    await eventually(lambda: len(started(place)) == count, LIMIT, what=f"{count} jobs started")
    return started(place)


def told_to_drain(said: str) -> set[str]:
    """Return the workers whose supervisors say that they drain."""
    return {
        line.partition(" │")[0]
        for line in said.splitlines()
        if " │ " in line and "awa.supervisor: draining" in line
    }


def workers_of(pid: int) -> list[psutil.Process]:
    """Return the processes below a command that are workers."""
    found = []
    for child in psutil.Process(pid).children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            if "worker" in child.cmdline():
                found.append(child)
    return found


async def test_a_queue_wakes_from_zero_grows_under_load_and_falls_asleep_again(
    start, make_project, client_of, workplace
):
    project = make_project(scaled())
    up = start("up", folder=project).until_said("look, in another terminal")
    async with client_of(project) as client:
        await client.insert_many([{"place": str(workplace)}] * 6, kind="hold", queue="work")
        workers = set((await until_started(workplace, 6)).values())
        assert workers == {"work-1", "work-2", "work-3"}
        assert workers_of(up.pid)
        (workplace / "release-all").touch()
        await ended(client, 6)
        up.until_said("work: 1 → 0 workers (idle)")
        # Until it is gone it may still take a job, and nobody has to be woken.
        up.until(lambda: not workers_of(up.pid), "the last worker is gone")
        await client.insert({}, kind="quick", queue="work")
        await ended(client, 7)
    assert up.said.count("work: 0 → ") == 2


async def test_a_job_that_is_due_soon_wakes_a_worker_in_time(start, make_project, client_of):
    project = make_project(scaled())
    start("up", folder=project).until_said("look, in another terminal")
    async with client_of(project) as client:
        job = await client.insert({}, kind="quick", queue="work", run_at="2000-01-01T00:00:00Z")
        assert str(job.state) == "scheduled"
        await ended(client, 1)


async def test_the_worker_with_work_in_hand_stays(start, make_project, client_of, workplace):
    project = make_project(scaled(least=1))
    up = start("up", folder=project).until_said("look, in another terminal")
    async with client_of(project) as client:
        await client.insert_many([{"place": str(workplace)}] * 6, kind="hold", queue="work")
        places = await until_started(workplace, 6)
        # Not the oldest, which every rule without an eye on running jobs would keep.
        busy = {job for job, worker in places.items() if worker == "work-3"}
        for job in places.keys() - busy:
            (workplace / f"release-{job}").touch()
        up.until(lambda: told_to_drain(up.said) == {"work-1", "work-2"}, "the idle ones go")
        assert started(workplace) == places
        (workplace / "release-all").touch()
        await ended(client, 6)
        finished = await client.list_jobs("completed", limit=10)
        assert {job.attempt for job in finished} == {1}


async def test_a_fixed_count_is_kept(start, make_project, client_of, workplace):
    project = make_project(fixed(replicas=2))
    start("up", folder=project).until_said("look, in another terminal")
    async with client_of(project) as client:
        await client.insert_many([{"place": str(workplace)}] * 4, kind="hold", queue="work")
        assert set((await until_started(workplace, 4)).values()) == {"work-1", "work-2"}
        (workplace / "release-all").touch()
        await ended(client, 4)


async def test_every_queue_of_a_manifest_has_workers_of_its_own(start, make_project, client_of):
    project = make_project(scaled("red"), scaled("blue"))
    start("up", folder=project).until_said("look, in another terminal")
    async with client_of(project) as client:
        for queue in ("red", "blue"):
            await client.insert({}, kind="quick", queue=queue)
        await ended(client, 2)
        jobs = [await client.get_job(job.id) for job in await client.list_jobs("completed")]
    assert {job.queue: job.output for job in jobs} == {
        "red": {"worker": "red-1", "greeting": "hello from red"},
        "blue": {"worker": "blue-1", "greeting": "hello from blue"},
    }
