"""Where the cluster of a run comes from; the first that applies.

1. AWA_TEST_KUBECONFIG names one that runs. It needs AWA_TEST_HOST_ADDRESS, this machine as its
   pods reach it, and AWA_TEST_LOAD_IMAGE, a command that gives it an image archive, such as
   `minikube image load {archive}`.
2. The programs of a node have been built before: a node starts here, in seconds. Needs root.
3. kind and a Docker that runs.
4. Go, or a wheel with it: the programs are built, once, then as 2. Needs root.
"""

import fcntl
import json
import os
import secrets
import shlex
import shutil
import subprocess
import sys
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from typing import IO

from cluster.builds import are_built, find_go, minors, node_binaries, version_of
from cluster.cache import say
from cluster.commands import run
from cluster.errors import ClusterError, CommandFailed
from cluster.faults import Warden
from cluster.handle import Facts
from cluster.place import Place
from cluster.settings import NodeFiles
from support.waiting import eventually_sync

TESTS = Path(__file__).parents[1]
KIND_LIMIT = timedelta(minutes=10)
END_LIMIT = timedelta(seconds=60)
NO_WAY = (
    "no Kubernetes for the tests: set AWA_TEST_KUBECONFIG to that of a cluster, or run as root"
    " with Go 1.26 or newer installed, or as root where a run has built the programs before,"
    " or install kind and start Docker"
)


def choose(minor: str) -> str:
    """Return given, node or kind; what takes long is not done yet. Raises ClusterError."""
    if os.environ.get("AWA_TEST_KUBECONFIG"):
        return "given"
    may_start_node = os.geteuid() == 0 and sys.platform == "linux"
    if may_start_node and are_built(minor):
        return "node"
    if _kind_works():
        return "kind"
    if may_start_node:
        find_go()
        return "node"
    raise ClusterError(NO_WAY)


def prepare(minor: str) -> None:
    """Do now what takes minutes, so that no test has to wait for it."""
    if choose(minor) == "node":
        node_binaries(minor)


class Owner:
    """Begins and ends the cluster of a run, in the folder of the run.

    Whoever holds the lock on `alive` owns a node: when that is released, it goes.
    """

    def __init__(self, folder: Path, alive: Path, minor: str) -> None:
        self._folder = folder
        self._alive = alive
        self._minor = minor
        self._verdict = folder / "cluster-verdict.json"
        self._facts = folder / "cluster-facts.json"

    def begin(self) -> Facts:
        """Return when the cluster is usable. Raises ClusterError."""
        source = choose(self._minor)
        begin = {"given": self._given, "kind": self._kind, "node": self._node}[source]
        facts = begin()
        self._facts.write_text(json.dumps(asdict(facts)))
        return facts

    def end(self) -> list[str]:
        """End what was begun; return what is left of it on this machine, which is to be nothing."""
        if not self._facts.exists():
            return []
        facts = json.loads(self._facts.read_text())
        if facts["source"] == "kind":
            run("kind", "delete", "cluster", "--name", facts["name"], limit=KIND_LIMIT)
        if facts["source"] != "node":
            return []
        if not self._verdict.exists():
            _ask_to_end(Path(facts["folder"]))
        with (self._folder / "cluster-warden.lock").open() as lock:
            eventually_sync(lambda: _is_free(lock), END_LIMIT, what="the node's keeper ends")
        left: list[str] = json.loads(self._verdict.read_text())
        return left

    def _given(self) -> Facts:
        kubeconfig, address = os.environ["AWA_TEST_KUBECONFIG"], "AWA_TEST_HOST_ADDRESS"
        if not os.environ.get(address):
            raise ClusterError(f"set {address} to this machine's address as pods reach it")
        load = tuple(shlex.split(os.environ.get("AWA_TEST_LOAD_IMAGE", "")))
        say(f"using the cluster of {kubeconfig}")
        return Facts("given", kubeconfig, os.environ[address], load=load)

    def _kind(self) -> Facts:
        name = f"awa-tests-{secrets.token_hex(3)}"
        kubeconfig = self._folder / "kind.kubeconfig"
        say(f"starting kind cluster {name}")
        run(
            "kind", "create", "cluster", "--name", name, "--kubeconfig", kubeconfig,
            "--image", f"kindest/node:{version_of(self._minor)}", "--wait", "3m",
            limit=KIND_LIMIT,
        )  # fmt: skip
        load = ("kind", "load", "image-archive", "{archive}", "--name", name)
        return Facts("kind", str(kubeconfig), _gateway_of_kind(), load=load, name=name)

    def _node(self) -> Facts:
        lock = (self._folder / "cluster-warden.lock").open("w")
        fcntl.flock(lock, fcntl.LOCK_EX)
        with lock, (self._folder / "cluster-warden.log").open("wb") as log:
            # The lock goes with the descriptor that it inherits: it is free when it has ended.
            warden = subprocess.Popen(
                [sys.executable, "-m", "cluster.warden", self._minor, self._alive, self._verdict],
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, text=True,
                start_new_session=True, cwd=TESTS, pass_fds=[lock.fileno()],
                env={**os.environ, "PYTHONPATH": str(TESTS)},
            )  # fmt: skip
        assert warden.stdout is not None
        line = warden.stdout.readline()
        warden.stdout.close()
        # It outlives this process; nobody here may report it as forgotten.
        warden.returncode = 0
        said = json.loads(line or "{}")
        if "ready" not in said:
            words = (self._folder / "cluster-warden.log").read_text()[-2000:]
            raise ClusterError(f"the node did not start: {said.get('failed', words)}")
        files = NodeFiles(Place(said["ready"]))
        return Facts(
            "node", str(files.kubeconfig("admin")), files.place.host_address, str(files.folder)
        )


def newest() -> str:
    """Return the newest Kubernetes minor that can be had."""
    return minors()[-1]


def _ask_to_end(folder: Path) -> None:
    try:
        Warden(folder).ask("end")
    except OSError as error:
        raise ClusterError(f"the node's keeper does not answer: {error}") from error


def _is_free(lock: IO[str]) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _kind_works() -> bool:
    if shutil.which("kind") is None or shutil.which("docker") is None:
        return False
    try:
        run("docker", "info", limit=timedelta(seconds=10))
    except CommandFailed:
        return False
    return True


def _gateway_of_kind() -> str:
    (network,) = json.loads(run("docker", "network", "inspect", "kind"))
    gateways: list[str] = [one.get("Gateway", "") for one in network["IPAM"]["Config"]]
    return next(address for address in gateways if "." in address)
