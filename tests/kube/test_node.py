"""A node of the tests' own: faults, company, and that nothing of it stays."""

import os
import signal
from datetime import timedelta
from pathlib import Path

import psutil
import pytest

from cluster.errors import ClusterError, CommandFailed
from cluster.handle import Cluster
from cluster.place import Place, sweep_abandoned
from cluster.rest import ApiServer
from cluster.settings import PAUSE_IMAGE
from cluster.source import Owner
from support.waiting import eventually_sync

pytestmark = pytest.mark.timeout(300)
LIMIT = timedelta(seconds=60)
MACHINE_SETTINGS = ("kernel/panic", "kernel/panic_on_oops", "vm/overcommit_memory")


def machine_settings():
    return {name: Path("/proc/sys", name).read_text() for name in MACHINE_SETTINGS}


def keeper_of(cluster):
    verdict = str(cluster.home.parent / "cluster-verdict.json")
    found = [
        process
        for process in psutil.process_iter(["cmdline", "create_time"])
        if verdict in (process.info["cmdline"] or ())
    ]
    # What it starts is its copy for a moment, until it becomes another program.
    return min(found, key=lambda process: process.info["create_time"]).pid


def states_below(process):
    return {child.status() for child in process.children()}


@pytest.fixture(scope="module")
def own_cluster(make_cluster):
    return make_cluster()


@pytest.fixture
def api(own_cluster):
    return ApiServer.of(own_cluster.kubeconfig)


def test_two_clusters_run_side_by_side(cluster, own_cluster, namespace):
    assert own_cluster.server != cluster.server
    with pytest.raises(CommandFailed, match="not found"):
        own_cluster.kubectl("get", "namespace", namespace.name)


def test_a_frozen_api_server_answers_when_it_is_let_go(own_cluster, api):
    with own_cluster.part("kube-apiserver").frozen():
        assert not api.is_ready()
    eventually_sync(api.is_ready, LIMIT)


def test_a_stopped_api_server_comes_back_with_what_it_knew(own_cluster, api):
    own_cluster.kubectl("create", "configmap", "kept")
    with own_cluster.part("kube-apiserver").stopped():
        assert not api.is_ready()
    eventually_sync(api.is_ready, LIMIT)
    assert "kept" in own_cluster.kubectl("get", "configmap", "kept", "-o", "name")


def test_a_killed_part_starts_again(own_cluster, api):
    own_cluster.part("kubelet").kill()
    own_cluster.part("kubelet").start()
    assert api.is_node_ready("node1")


def test_a_node_that_is_cut_off_is_not_reached(own_cluster, api):
    with own_cluster.cut_off():
        assert not api.is_ready()
    eventually_sync(api.is_ready, LIMIT)


def test_no_ended_process_of_a_container_stays(own_cluster):
    words = (f"--image={PAUSE_IMAGE}", "--image-pull-policy=Never")
    own_cluster.kubectl("run", "passing", *words)
    own_cluster.kubectl("wait", "pod/passing", "--for=condition=Ready", "--timeout=60s")
    own_cluster.kubectl("delete", "pod", "passing", "--grace-period=1")

    keeper = psutil.Process(keeper_of(own_cluster))
    eventually_sync(lambda: psutil.STATUS_ZOMBIE not in states_below(keeper), LIMIT)


def test_an_unknown_part_is_an_error(own_cluster):
    with pytest.raises(ClusterError, match="no part is named kube-dns"):
        own_cluster.part("kube-dns").freeze()


@pytest.fixture
def begin(test_run, pytestconfig, make_cluster):
    """Begin a node with a running pod, which the test ends: its owner, and the cluster."""

    def begin_one():
        folder = test_run.new_path("ending")
        folder.mkdir()
        minor = pytestconfig.getoption("--kubernetes")
        owner = Owner(folder, test_run.folder / "alive", minor)
        cluster = Cluster(owner.begin(), folder / "kube-home")
        cluster.kubectl("run", "holding", f"--image={PAUSE_IMAGE}", "--image-pull-policy=Never")
        cluster.kubectl("wait", "pod/holding", "--for=condition=Ready", "--timeout=60s")
        return owner, cluster

    return begin_one


def test_nothing_is_left_of_a_node_that_has_ended(begin):
    before = machine_settings()
    owner, cluster = begin()
    assert machine_settings() == before

    assert owner.end() == []

    assert not Path(cluster.facts.folder).exists()
    assert machine_settings() == before


def test_a_node_whose_keeper_was_killed_is_swept_by_the_next(begin):
    _, cluster = begin()
    keeper = keeper_of(cluster)
    assert Place(int(cluster.facts.folder[-1])).processes() != []
    os.kill(keeper, signal.SIGKILL)

    def swept():
        sweep_abandoned()
        return not Path(cluster.facts.folder).exists()

    eventually_sync(swept, LIMIT)
    assert Place(int(cluster.facts.folder[-1])).leftovers() == []
