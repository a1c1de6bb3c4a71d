"""The built distributions."""

import subprocess
import sys
import tarfile
import zipfile
from dataclasses import dataclass
from email.message import Message
from email.parser import Parser
from pathlib import Path

import pytest

from support.run import Run

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = {"migrations": "awa_migrations", "worker": "awa", "operator": "awa_operator"}


@dataclass(frozen=True)
class Built:
    """One member, built twice: straight from the tree, and from its own source archive."""

    member: str
    package: str
    wheel: Path
    wheel_from_archive: Path

    @property
    def names(self) -> set[str]:
        """Names of the files in the wheel."""
        return set(zipfile.ZipFile(self.wheel).namelist())

    @property
    def metadata(self) -> Message:
        """The wheel's METADATA."""
        return Parser().parsestr(self.text_of("METADATA"))

    def text_of(self, name: str) -> str:
        """Return a file of the wheel's dist-info."""
        with zipfile.ZipFile(self.wheel) as archive:
            found = [path for path in archive.namelist() if path.endswith(f".dist-info/{name}")]
            return archive.read(found[0]).decode()


def build(project: Path, target: str, into: Path) -> Path:
    """Build with hatchling as it is installed: no isolated environment, so no network."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", target, "-d", str(into)]
    subprocess.run(command, cwd=project, check=True, capture_output=True)
    (made,) = into.glob("*.whl" if target == "wheel" else "*.tar.gz")
    return made


@pytest.fixture(scope="session", params=PACKAGES)
def built(request: pytest.FixtureRequest, test_run: Run) -> Built:
    """Each member in turn, built once in a run."""
    member = request.param
    folder = test_run.folder / f"built-{member}"

    def make() -> list[str]:
        wheel = build(ROOT / member, "wheel", folder / "wheel")
        archive = build(ROOT / member, "sdist", folder / "archive")
        with tarfile.open(archive) as unpacked:
            unpacked.extractall(folder / "unpacked", filter="data")
        (project,) = (folder / "unpacked").iterdir()
        return [str(wheel), str(build(project, "wheel", folder / "again"))]

    wheel, again = test_run.once(f"built-{member}", make)
    return Built(member, PACKAGES[member], Path(wheel), Path(again))
