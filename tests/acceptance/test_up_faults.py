"""What goes wrong under `awa up` is put right, or said so that it can be."""

import os
import signal
import urllib.error
import urllib.request

import psutil
import pytest

from acceptance.commands import LIMIT
from acceptance.manifests import fixed, scaled
from acceptance.test_up_scales import ended, until_started
from support.waiting import eventually


async def test_a_worker_process_that_dies_costs_one_attempt(start, make_project, client_of):
    project = make_project(scaled())
    start("up", folder=project).until_said("look, in another terminal")
    async with client_of(project) as client:
        job = await client.insert({}, kind="die_once", queue="work")
        await ended(client, 1)
        found = await client.get_job(job.id)
        assert (found.attempt, found.output) == (2, {"attempt": 2})
        assert "worker process died" in found.errors[0]["error"]


async def test_a_worker_that_is_killed_is_replaced_and_its_job_runs_again(
    start, make_project, client_of, workplace
):
    project = make_project(fixed())
    up = start("up", folder=project).until_said("look, in another terminal")
    async with client_of(project) as client:
        job = await client.insert({"place": str(workplace)}, kind="hold", queue="work")
        await until_started(workplace, 1)
        (worker,) = [
            one for one in psutil.Process(up.pid).children() if os.getpgid(one.pid) == one.pid
            and "worker" in one.cmdline()
        ]  # fmt: skip
        processes = worker.children(recursive=True)
        worker.kill()
        # Only when the process that runs the job is gone too may the job be let go.
        assert psutil.wait_procs(processes, timeout=30)[1] == []
        (workplace / "release-all").touch()
        await ended(client, 1)
        assert (await client.get_job(job.id)).attempt == 2
    assert "work-1 ended with signal SIGKILL" in up.said


async def test_when_postgresql_ends_everything_ends(
    start, make_project, client_of, workplace, nothing_left
):
    project = make_project(fixed(drain=1))
    up = start("up", folder=project).until_said("worker started")
    (data,) = (project / ".awa").glob("postgres/*/data")
    os.kill(int((data / "postmaster.pid").read_text().splitlines()[0]), signal.SIGQUIT)
    assert up.code() == 75
    assert "PostgreSQL has ended by itself" in up.said
    assert "server.log" in up.said
    nothing_left()


def test_a_second_one_in_the_folder_says_who_runs_it(start, run, make_project):
    project = make_project(scaled())
    up = start("up", folder=project).until_said("look, in another terminal")
    second = run("up", folder=project)
    assert (second.returncode, second.stdout) == (1, "")
    assert f"awa up (process {up.pid}) runs in .awa already" in second.stderr
    assert "--dir" in second.stderr
    assert not up.has_ended


def test_a_short_command_that_has_the_server_is_waited_for(start, run, make_project, environ):
    project = make_project(scaled())
    owner = start("job", "list", folder=project)
    up = start("up", folder=project)
    up.until_said("look, in another terminal")
    assert owner.code() in (0, 75)


@pytest.mark.parametrize(
    ("command", "code", "reason"),
    [
        ("[awa, worker, no_such_module]", 78, "there is no module no_such_module"),
        ("[awa, worker, broken]", 1, "the handlers cannot be imported"),
        ("[no-such-program]", 78, "'no-such-program' cannot be started"),
        ("[sh, -c, 'echo out of order; exit 3']", 1, "exit code 3"),
    ],
)
def test_workers_that_cannot_start_end_the_run_with_the_reason(
    start, make_project, nothing_left, command, code, reason
):
    project = make_project(fixed(command=command))
    (project / "broken.py").write_text("raise RuntimeError('broken')\n")
    up = start("up", folder=project)
    assert up.code() == code
    assert reason in up.said
    assert "Traceback" not in up.said.partition("Draining")[2]
    nothing_left()


@pytest.mark.parametrize(
    ("manifest", "reason"),
    [
        (None, "there is no such file"),
        ("kind: Deployment\n", "there is no Queue"),
        (scaled().replace("minReplicas", "minReplica"), "did you mean minReplicas"),
        (scaled().replace("    command: [awa, worker, handlers]\n", ""), "spec.worker.command"),
    ],
)
def test_a_manifest_that_cannot_be_used_stops_before_anything_starts(
    run, workplace, manifest, reason, nothing_left
):
    if manifest is not None:
        (workplace / "queue.yaml").write_text(manifest)
    ended = run("up")
    assert (ended.returncode, ended.stdout) == (78, "")
    assert reason in ended.stderr
    assert not (workplace / ".awa").exists()
    nothing_left()


def test_fields_for_a_cluster_are_named_and_passed_over(start, make_project):
    up = start("up", folder=make_project(scaled())).until_said("only for a cluster")
    assert "spec.worker.image" in up.said
    assert "spec.database.connectionSecretRef" in up.said
    assert "spec.scaling" not in up.said


async def test_a_given_database_is_migrated_and_used(start, workplace, empty_database, connect):
    (workplace / "queue.yaml").write_text(fixed())
    source = make_handlers(workplace)
    up = start("up", "--database-url", empty_database.dsn).until_said("worker started")
    assert source.exists()
    session = await connect(empty_database.dsn)
    assert await session.fetchval("select count(*) from awa.runtime_instances") == 1
    assert not (workplace / ".awa" / "postgres").exists()
    up.signal_group(signal.SIGINT)
    assert up.code() == 0
    assert (
        await session.fetchval("select count(*) from awa.runtime_instances where dead_at is null")
        == 0
    )


def test_a_database_in_the_environment_is_not_touched(start, make_project, empty_database):
    up = start("up", folder=make_project(scaled()), AWA_DATABASE_URL=empty_database.dsn)
    up.until_said("look, in another terminal")
    assert "AWA_DATABASE_URL is set and not used" in up.said
    with empty_database.server.admin():
        pass
    assert empty_database.dsn not in up.said


async def test_metrics_of_all_workers_are_served_as_one(start, make_project, client_of):
    project = make_project(fixed(replicas=2))
    up = start("up", "--metrics-address", "127.0.0.1:0", folder=project)
    up.until_said("worker started", times=2)
    base = up.said.partition("http://")[2].partition("/")[0]

    def get(page):
        try:
            with urllib.request.urlopen(f"http://{base}/{page}", timeout=30) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as refusal:
            with refusal:
                return refusal.code, refusal.read().decode()

    assert get("healthz")[0] == 200
    await eventually(lambda: get("readyz")[0] == 200, LIMIT, what="ready")
    async with client_of(project) as client:
        await client.insert_many([{}] * 5, kind="quick", queue="work")
        await ended(client, 5)
    done = 'awa_job_outcome="completed",awa_job_queue="work"} 5.0'
    await eventually(lambda: done in get("metrics")[1], LIMIT, what="five jobs are counted")
    assert 'awa_queue_workers_ready{awa_job_queue="work"} 2.0' in get("metrics")[1]


def test_an_address_for_metrics_that_is_taken_is_said(start, run, make_project, nothing_left):
    project = make_project(scaled())
    first = start("up", "--metrics-address", "127.0.0.1:0", folder=project)
    first.until_said("look, in another terminal")
    taken = first.said.partition("http://")[2].partition("/")[0]
    other = make_project(scaled(), name="other")
    second = run("up", "--metrics-address", taken, folder=other)
    assert second.returncode == 78
    assert "give another --metrics-address" in second.stderr


def make_handlers(folder):
    target = folder / "handlers.py"
    target.write_text(
        "import awa\nclient = awa.AsyncClient()\nclient.task(dict, kind='quick')(print)\n"
    )
    return target
