"""A place for one node: a number nobody else uses, and the names and addresses that follow from it.

Everything a node leaves on the machine is named after its place, so the next one who takes the
place can remove what a killed predecessor left.
"""

import contextlib
import fcntl
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil

from cluster.errors import ClusterError

PLACES = 8
CGROUPS = Path("/sys/fs/cgroup")
SWEEP_SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class Place:
    """The names and addresses of one node."""

    number: int

    @property
    def name(self) -> str:
        """Name of its cgroups and of the host's end of its cable."""
        return f"awa{self.number}"

    @property
    def folder(self) -> Path:
        """Its folder."""
        return Path(tempfile.gettempdir()) / f"awa-cluster-{self.number}"

    @property
    def host_address(self) -> str:
        """The host, as pods see it."""
        return f"10.77.{self.number}.1"

    @property
    def node_address(self) -> str:
        """The node, as the host sees it."""
        return f"10.77.{self.number}.2"

    @property
    def pod_network(self) -> str:
        """The addresses of pods; only the node knows them."""
        return f"10.88.{self.number}.0/24"

    @property
    def cgroups(self) -> list[Path]:
        """Its cgroup in every hierarchy of the machine, whether made or not."""
        if (CGROUPS / "cgroup.controllers").exists():
            return [CGROUPS / self.name]
        return [one / self.name for one in sorted(CGROUPS.iterdir()) if one.is_dir()]

    def processes(self) -> list[psutil.Process]:
        """Return every process of the node: in its cgroups, or told about its folder."""
        found = {pid for group in self.cgroups for pid in _members(group)}
        mark = f"{self.folder}/"
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
                if any(mark in word for word in process.cmdline()):
                    found.add(process.pid)
        found.discard(os.getpid())
        alive = []
        for pid in sorted(found):
            with contextlib.suppress(psutil.NoSuchProcess):
                alive.append(psutil.Process(pid))
        return alive

    def leftovers(self) -> list[str]:
        """Say what is left of the node on this machine; nothing when it has ended well."""
        left = [f"process {one.pid}: {_line(one)}" for one in self.processes()]
        left += [f"cgroup {group}" for group in self.cgroups if group.exists()]
        left += [f"mount {point}" for point in _mounts() if f"{self.folder}/" in f"{point}/"]
        if Path(f"/sys/class/net/{self.name}").exists():
            left.append(f"network device {self.name}")
        if self.folder.exists():
            left.append(f"folder {self.folder}")
        return left

    def sweep(self) -> None:
        """Remove everything of the node from this machine; what cannot be removed stays."""
        limit = time.monotonic() + SWEEP_SECONDS
        while (left := self.processes()) and time.monotonic() < limit:
            for process in left:
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.send_signal(signal.SIGKILL)
            psutil.wait_procs(left, timeout=0.5)
        if Path(f"/sys/class/net/{self.name}").exists():
            subprocess.run(["ip", "link", "delete", self.name], check=False, capture_output=True)
        for group in self.cgroups:
            while group.exists() and time.monotonic() < limit and not _remove_group(group):
                time.sleep(0.02)
        shutil.rmtree(self.folder, ignore_errors=True)


@contextlib.contextmanager
def taken_place() -> Iterator[Place]:
    """Hold a free place. Raises ClusterError when there is none."""
    sweep_abandoned()
    for place in map(Place, range(PLACES)):
        with _held(place) as is_ours:
            if is_ours:
                if left := place.leftovers():
                    raise ClusterError(f"an earlier cluster cannot be removed: {'; '.join(left)}")
                yield place
                return
    raise ClusterError(f"{PLACES} clusters run on this machine already")


def sweep_abandoned() -> None:
    """Remove what killed keepers have left at their places."""
    for place in map(Place, range(PLACES)):
        if place.folder.exists():
            with _held(place) as is_ours:
                if is_ours:
                    place.sweep()


@contextlib.contextmanager
def _held(place: Place) -> Iterator[bool]:
    """Hold a place for a while; False when somebody else does."""
    with Path(f"{place.folder}.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True


def _members(group: Path) -> Iterator[int]:
    for file in group.rglob("cgroup.procs"):
        with contextlib.suppress(OSError):
            yield from (int(line) for line in file.read_text().split())


def _remove_group(group: Path) -> bool:
    """Remove a cgroup and those in it; whether all of them are gone."""
    for folder in sorted(group.rglob("*/"), key=lambda path: len(path.parts), reverse=True):
        with contextlib.suppress(OSError):
            folder.rmdir()
    with contextlib.suppress(OSError):
        group.rmdir()
    return not group.exists()


def _mounts() -> list[str]:
    return [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]


def _line(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())[:200]
    except psutil.Error:
        return "?"
