"""The product's images, built from its Dockerfiles as a user would, and kept by content.

As root with buildah the base is a Debian with Python, made here, because there may be no registry
to take one from. Else Docker builds them, on the public image that the Dockerfiles name.
"""

import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from cluster.archive import merge_images
from cluster.builds import ROOT
from cluster.cache import cache_root, cached, digest, say
from cluster.commands import run
from cluster.errors import ClusterError
from cluster.handle import Cluster

BUILD_LIMIT = timedelta(minutes=10)
# How many of each stay in the cache.
KEPT = 6
DERIVED_KEPT = 24
PUBLIC_BASE = "python:3.13-slim"
BASE_NAME = "localhost/python:3.13"
SUITE = "trixie"
PACKAGES = "ca-certificates,python3,python3-venv"
CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
MEMBERS = ("migrations", "worker", "operator")
THUMBNAILS = ROOT / "examples" / "thumbnails"


@dataclass(frozen=True, slots=True)
class Image:
    """An image: its name, and its archive in the cache."""

    name: str
    archive: Path


@dataclass(frozen=True, slots=True)
class Images:
    """The product's images. `thumbnails` has the name that the example's manifest gives it."""

    worker: Image
    operator: Image
    thumbnails: Image

    def as_json(self) -> dict[str, list[str]]:
        """Return what `from_json` takes."""
        parts = {"worker": self.worker, "operator": self.operator, "thumbnails": self.thumbnails}
        return {what: [image.name, str(image.archive)] for what, image in parts.items()}

    @classmethod
    def from_json(cls, facts: Mapping[str, Sequence[str]]) -> "Images":
        """Return the images that another process has built."""
        return cls(**{what: Image(name, Path(path)) for what, (name, path) in facts.items()})

    def load_into(self, cluster: Cluster) -> None:
        """Give all of them to a cluster."""
        archives = [image.archive for image in (self.worker, self.operator, self.thumbnails)]
        key = digest(*(archive.parent.name for archive in archives))

        def make(into: Path) -> None:
            merge_images(archives, into / "images.tar")

        cluster.load(cached("images", key, make, keep=KEPT) / "images.tar")

    def derive(self, name: str, files: Mapping[str, str]) -> Image:
        """Return an image that is the worker's with more files in `/app`, such as handlers."""
        key = digest(self.worker.archive.parent.name, *(f"{k}\0{v}" for k, v in files.items()))

        def make(into: Path) -> None:
            with tempfile.TemporaryDirectory() as folder:
                for file, text in files.items():
                    (Path(folder) / file).write_text(text)
                dockerfile = Path(folder) / "Dockerfile"
                copied = " ".join(files)
                dockerfile.write_text(f"FROM {self.worker.name}\nCOPY {copied} /app/\n")
                _build(Path(folder), dockerfile, name, into, {}, [self.worker])

        folder = cached("image-derived", digest(name, key), make, keep=DERIVED_KEPT)
        return Image(name, folder / "image.tar")


def prepare_images() -> Images:
    """Return the images, built now where something has changed. Raises ClusterError."""
    base = _base() if _has_buildah() else Image(PUBLIC_BASE, Path(PUBLIC_BASE))
    wheels = _wheels()
    worker = _product("worker", wheels, base)
    operator = _product("operator", wheels, base)
    key = digest(THUMBNAILS, worker.archive.parent.name)
    arguments = {"AWA_IMAGE": worker.name}
    dockerfile = THUMBNAILS / "Dockerfile"
    name = "registry.example/thumbnails:1"
    folder = cached(
        "image-thumbnails",
        key,
        lambda into: _build(THUMBNAILS, dockerfile, name, into, arguments, [worker]),
        keep=KEPT,
    )
    return Images(worker, operator, Image(name, folder / "image.tar"))


def _product(member: str, wheels: Path, base: Image) -> Image:
    """Build the image of a member from the wheels."""
    dockerfile, lock = ROOT / member / "Dockerfile", ROOT / member / "image.lock"
    key = digest(dockerfile, lock, wheels.name, base.archive.parent.name)
    name = f"awa.test/awa-{member}:{key}"

    def make(into: Path) -> None:
        # What `docker build` sees of the repository, see .dockerignore.
        with tempfile.TemporaryDirectory() as folder:
            context = Path(folder)
            (context / member).mkdir()
            (context / member / "image.lock").write_bytes(lock.read_bytes())
            shutil.copytree(wheels, context / "dist")
            _build(context, dockerfile, name, into, {"PYTHON_IMAGE": base.name}, [base])

    return Image(name, cached(f"image-awa-{member}", key, make, keep=KEPT) / "image.tar")


def _wheels() -> Path:
    """Return a folder with the wheels of the members as they are now."""
    sources = [ROOT / "VERSION"]
    for member in MEMBERS:
        sources += [ROOT / member / "pyproject.toml", *(ROOT / member).glob("awa*")]

    def make(into: Path) -> None:
        for member in MEMBERS:
            run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", into,
                cwd=ROOT / member)  # fmt: skip

    return cached("wheels", digest(*sources), make, keep=KEPT)


def _base() -> Image:
    """Return the base image: made from the distribution's packages."""

    def make(into: Path) -> None:
        say("making the base image of containers, once on this machine: about 1 minute")
        root = into / "root"
        run(
            "nice", "debootstrap", "--variant=minbase", f"--include={PACKAGES}", SUITE, root,
            _mirror(), limit=BUILD_LIMIT,
        )  # fmt: skip
        for rest in ("var/cache/apt/archives", "var/lib/apt/lists", "usr/share/doc"):
            run("find", root / rest, "-type", "f", "-delete")
        (root / "usr/local/bin/python").symlink_to("/usr/bin/python3")
        tarball = into / "root.tar"
        run("tar", "--numeric-owner", "-C", root, "-cf", tarball, ".")
        run("rm", "-rf", root)
        dockerfile = into / "Dockerfile"
        dockerfile.write_text(
            "FROM scratch\nADD root.tar /\nENV PATH=/usr/local/bin:/usr/bin:/bin\n"
        )
        _build(into, dockerfile, BASE_NAME, into, {}, [])
        tarball.unlink()

    return Image(BASE_NAME, cached("python-base", digest(SUITE, PACKAGES), make) / "image.tar")


def _mirror() -> str:
    """Return the address of the distribution's packages that this machine uses."""
    listed = run("apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages")
    for line in listed.splitlines():
        uri = line.rstrip("/")
        if uri.endswith("/debian"):
            return uri
    raise ClusterError("this machine's apt knows no mirror of Debian to make images from")


def _has_buildah() -> bool:
    return os.geteuid() == 0 and shutil.which("buildah") is not None


def _build(
    context: Path,
    dockerfile: Path,
    name: str,
    into: Path,
    arguments: Mapping[str, str],
    bases: Sequence[Image],
) -> None:
    """Build a Dockerfile; write `image.tar` into a folder."""
    say(f"building the image {name}")
    given = [word for key, value in arguments.items() for word in ("--build-arg", f"{key}={value}")]
    archive = into / "image.tar"
    if _has_buildah():
        with _Store() as store:
            for base in bases:
                store.pull(base)
            store.run(
                "bud", "--layers", "--isolation", "chroot", "--network", "host", "--quiet",
                "--timestamp", "0", "--pull-never", *given, *store.volumes(), "--tag", name,
                "--file", dockerfile, context,
            )  # fmt: skip
            store.run("push", "--quiet", name, f"docker-archive:{archive}:{name}")
            store.run("rmi", "--force", name)
    else:
        words = ("--tag", name, "--file", dockerfile, context)
        run("docker", "build", "--quiet", *given, *words, limit=BUILD_LIMIT)
        run("docker", "save", "--output", archive, name, limit=BUILD_LIMIT)


class _Store:
    """Buildah's store for our builds: it keeps steps of earlier ones. One build at a time."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._root = cache_root() / "buildah" / "root"

    def __enter__(self) -> "_Store":
        self._root.parent.mkdir(parents=True, exist_ok=True)
        lock = self._stack.enter_context((self._root.parent / "lock").open("w"))
        fcntl.flock(lock, fcntl.LOCK_EX)
        made = tempfile.TemporaryDirectory(prefix="awa-build-")
        self._folder = Path(self._stack.enter_context(made))
        self._stack.callback(self._unmount)
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _unmount(self) -> None:
        """Undo that buildah mounts its store over itself, on this machine, and leaves that."""
        mount = ("umount", "-R", self._root / "overlay")
        subprocess.run(mount, check=False, capture_output=True)

    def pull(self, image: Image) -> None:
        """Have an image of the cache in the store."""
        known = run(*self._buildah, "images", "--format", "{{.Name}}:{{.Tag}}").split()
        if image.name not in known:
            self.run("pull", "--quiet", f"docker-archive:{image.archive}")

    def run(self, *words: str | Path) -> None:
        """Run a command of buildah in the store."""
        run(*self._buildah, *words, limit=BUILD_LIMIT)

    @property
    def _buildah(self) -> tuple[str | Path, ...]:
        where = ("--root", self._root, "--runroot", self._folder / "run")
        return ("buildah", *where, "--storage-driver", "overlay")

    def volumes(self) -> list[str]:
        """Return what a build sees of this machine: whom to trust, where packages are."""
        volumes, settings = [], ["[global]"]
        if CERTIFICATES.exists():
            volumes += ["--volume", f"{CERTIFICATES}:{CERTIFICATES}:ro"]
            settings.append(f"cert = {CERTIFICATES}")
        if index := os.environ.get("PIP_INDEX_URL"):
            settings.append(f"index-url = {index}")
        pip = self._folder / "pip.conf"
        pip.write_text("\n".join(settings) + "\n")
        return [*volumes, "--volume", f"{pip}:/etc/pip.conf:ro"]
