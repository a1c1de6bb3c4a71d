"""One Kubernetes node on this machine: network and mount namespace of its own, every part a child.

Nothing of the machine changes outside of the namespaces except one network device and the node's
cgroups. Settings of the kernel that the kubelet wants to change for the whole machine are covered
by files; folders that programs insist on are covered by empty ones.
"""

import contextlib
import ctypes
import os
import signal
import subprocess
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import psutil

from cluster.archive import write_image
from cluster.builds import Binaries
from cluster.certificates import make_certificates
from cluster.commands import run
from cluster.errors import ClusterError
from cluster.parts import API_SERVER, CONTAINERD, ETCD, command_lines
from cluster.place import Place
from cluster.rest import ApiServer
from cluster.settings import (
    KUBERNETES_ADDRESS,
    NODE_NAME,
    PAUSE_IMAGE,
    NodeFiles,
    is_cgroup_v2,
)

START_LIMIT = timedelta(minutes=4)
LOAD_LIMIT = timedelta(minutes=5)
STOP_LIMIT = timedelta(seconds=20)
LOOK_SECONDS = 0.05
PR_SET_CHILD_SUBREAPER = 36
NODE_END = "node0"

# Settings that the kubelet writes for the whole machine.
MACHINE_SETTINGS = (
    "kernel/panic", "kernel/panic_on_oops", "kernel/keys/root_maxbytes",
    "kernel/keys/root_maxkeys", "vm/overcommit_memory",
)  # fmt: skip
# Folders that programs write to, whatever they are told.
FIXED_FOLDERS = ("/run", "/var/lib/cni", "/var/log/containers")

HOLD = """
set -e
mount --make-rshared /
for folder in {folders}; do
    mkdir -p $folder
    mount -t tmpfs -o mode=755 tmpfs $folder
done
mkdir -p /run/netns {folder}/settings
for setting in {settings}; do
    if [ -e /proc/sys/$setting ]; then
        cover={folder}/settings/$(basename $setting)
        cat /proc/sys/$setting >$cover
        mount --bind $cover /proc/sys/$setting
    fi
done
echo held
exec sleep infinity
"""


class Node:
    """A node at a place. Its parts may be stopped, started, frozen and cut off one by one."""

    def __init__(self, place: Place, programs: Binaries) -> None:
        self.place = place
        self.files = NodeFiles(place)
        self._programs = programs
        self._lines = command_lines(self.files, programs)
        self._parts: dict[str, subprocess.Popen[bytes]] = {}
        self._holder: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Return when the node takes pods. Raises ClusterError, and leaves the rest to `stop`."""
        # Containers outlive their parents; they come to this process, so none is lost.
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        folder = self.place.folder
        folder.mkdir(mode=0o755)
        make_certificates(folder, [self.place.node_address, KUBERNETES_ADDRESS, "127.0.0.1"])
        self.files.write()
        self._hold()
        self._make_cgroups()
        self._connect()
        self.start_part(CONTAINERD)
        self.start_part(ETCD)
        self._until(lambda: self._can_connect("127.0.0.1", 2379), "etcd listens", ETCD)
        self.start_part(API_SERVER)
        self._load_pause()
        api = ApiServer.of(self.files.kubeconfig("admin"))
        self._until(api.is_ready, "the API server is ready", API_SERVER)
        for name in self._lines:
            if name not in self._parts:
                self.start_part(name)
        self._until(lambda: api.is_node_ready(NODE_NAME), "the node is ready", *self._lines)
        # The controllers give up when the API server goes while they start.
        self._until(api.has_service_account, "the controllers work", *self._lines)

    def start_part(self, name: str) -> None:
        """Start a part; nothing happens when it runs."""
        if self._running(name):
            return
        # It goes with this process, even when that is killed.
        line = ["setpriv", "--pdeathsig", "KILL", *self._inside(), *self._lines[name]]
        with (self.place.folder / f"{name}.log").open("ab") as log:
            self._parts[name] = subprocess.Popen(
                line, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
                env={
                    "PATH": f"{self._programs.path}:{os.environ['PATH']}:/usr/sbin:/sbin",
                    "HOME": str(self.place.folder), "TMPDIR": str(self.place.folder),
                    # Memory is cheap here and processors are not: collect it less often.
                    "GOGC": "400",
                },
            )  # fmt: skip

    def end_part(self, name: str, how: signal.Signals = signal.SIGTERM) -> None:
        """End a part and wait for it; a frozen one is let go first."""
        part = self._part(name)
        if part.poll() is None:
            part.send_signal(how)
            part.send_signal(signal.SIGCONT)
        try:
            part.wait(STOP_LIMIT.total_seconds())
        except subprocess.TimeoutExpired:
            part.kill()
            part.wait(STOP_LIMIT.total_seconds())

    def freeze_part(self, name: str) -> None:
        """Stop a part where it is: it keeps its connections and says nothing."""
        self._part(name).send_signal(signal.SIGSTOP)

    def thaw_part(self, name: str) -> None:
        """Let a frozen part go on."""
        self._part(name).send_signal(signal.SIGCONT)

    def cut(self) -> None:
        """Cut the cable between the node and the host: packets are lost in both directions."""
        run("ip", "link", "set", self.place.name, "down")

    def mend(self) -> None:
        """Mend the cable."""
        run("ip", "link", "set", self.place.name, "up")

    def stop(self) -> None:
        """End everything and remove it; whatever state it is in."""
        for name in ("kubelet", CONTAINERD):
            if self._running(name):
                self._parts[name].kill()
                self._parts[name].wait(STOP_LIMIT.total_seconds())
        limit = time.monotonic() + STOP_LIMIT.total_seconds()
        while (rest := psutil.Process().children(recursive=True)) and time.monotonic() < limit:
            for process in rest:
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.kill()
            self._reap(rest)
        self.place.sweep()

    def take_note_of_ends(self) -> None:
        """Let go of processes that have ended: parts, and orphans of containers."""
        known = {one.pid: one for one in (*self._parts.values(), *filter(None, [self._holder]))}
        with contextlib.suppress(ChildProcessError):
            while ended := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT):
                if ended.si_pid in known:
                    known[ended.si_pid].poll()
                else:
                    os.waitpid(ended.si_pid, os.WNOHANG)

    def _reap(self, children: list[psutil.Process]) -> None:
        """Take note of the ends of children, adopted ones too."""
        known = [*self._parts.values(), *filter(None, [self._holder])]
        for one in known:
            one.poll()
        psutil.wait_procs(children, timeout=LOOK_SECONDS)
        for process in children:
            if process.pid not in {one.pid for one in known}:
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(process.pid, os.WNOHANG)

    def _part(self, name: str) -> subprocess.Popen[bytes]:
        if name not in self._parts:
            raise ClusterError(f"no part is named {name}, but {', '.join(self._lines)}")
        return self._parts[name]

    def _running(self, name: str) -> bool:
        return name in self._parts and self._parts[name].poll() is None

    def _inside(self) -> list[str]:
        """What a command line starts with to run in the node's namespaces."""
        assert self._holder is not None
        return ["nsenter", "-t", str(self._holder.pid), "-m", "-n", "--"]

    def _hold(self) -> None:
        script = HOLD.format(
            folder=self.place.folder, folders=" ".join(FIXED_FOLDERS),
            settings=" ".join(MACHINE_SETTINGS),
        )  # fmt: skip
        self._holder = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", "unshare", "--net", "--mount", "--propagation",
             "private", "bash", "-c", script, str(self.place.folder / "holder")],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            start_new_session=True,
        )  # fmt: skip
        assert self._holder.stdout is not None
        assert self._holder.stderr is not None
        if self._holder.stdout.readline() != b"held\n":
            raise ClusterError(f"no namespaces: {self._holder.stderr.read().decode()}")

    def _make_cgroups(self) -> None:
        for group in self.place.cgroups:
            group.mkdir()
            for setting in ("cpuset.cpus", "cpuset.mems"):
                if not is_cgroup_v2() and (group / setting).exists():
                    (group / setting).write_text((group.parent / setting).read_text())

    def _connect(self) -> None:
        assert self._holder is not None
        place, inside = self.place, self._inside()
        run("ip", "link", "add", place.name, "type", "veth", "peer", "name", NODE_END,
            "netns", str(self._holder.pid))  # fmt: skip
        run("ip", "address", "add", f"{place.host_address}/24", "dev", place.name)
        run("ip", "link", "set", place.name, "up")
        for words in (
            ("ip", "link", "set", "lo", "up"),
            ("ip", "address", "add", f"{place.node_address}/24", "dev", NODE_END),
            ("ip", "link", "set", NODE_END, "up"),
            ("ip", "route", "add", "default", "via", place.host_address),
            ("sh", "-c", "echo 1 >/proc/sys/net/ipv4/ip_forward"),
        ):
            run(*inside, *words)

    def _load_pause(self) -> None:
        archive = self.place.folder / "pause.tar"
        write_image(archive, PAUSE_IMAGE, self._programs.pause / "pause", "/pause")
        self._until(self.files.containerd_socket.exists, "containerd listens", CONTAINERD)
        self.load(archive)

    def load(self, archive: Path) -> None:
        """Give containerd the images of an archive."""
        self._images("import", str(archive))

    def tag(self, image: str, name: str) -> None:
        """Give an image one more name."""
        self._images("tag", "--force", image, name)

    def _images(self, *words: str) -> None:
        run(
            f"{self._programs.containerd}/ctr", "--address", self.files.containerd_socket,
            "--namespace", "k8s.io", "images", *words, limit=LOAD_LIMIT,
        )  # fmt: skip

    def _can_connect(self, host: str, port: int) -> bool:
        done = subprocess.run(
            [*self._inside(), "bash", "-c", f"exec 3<>/dev/tcp/{host}/{port}"],
            check=False, capture_output=True,
        )  # fmt: skip
        return done.returncode == 0

    def _until(self, is_so: Callable[[], bool], what: str, *parts: str) -> None:
        """Wait for a step of the start; a part that has ended, or the limit, is an error."""
        limit = time.monotonic() + START_LIMIT.total_seconds()
        while not is_so():
            dead = [name for name in parts if not self._running(name)]
            if dead or time.monotonic() > limit:
                words = "; ".join(f"{name}: {self._last_words(name)}" for name in dead or parts)
                raise ClusterError(f"in vain: {what}. {words}")
            time.sleep(LOOK_SECONDS)

    def _last_words(self, name: str) -> str:
        log = self.place.folder / f"{name}.log"
        return log.read_text(errors="replace")[-1500:] if log.exists() else "said nothing"
