"""Embedded servers in folders of their own, and proof that nothing of them is left."""

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from awa._local.options import LaunchOptions
from awa._local.postgres import EmbeddedPostgres
from local.owners import MakePostgres, OwnerProcess, StartOwner, processes_in
from support.run import Run
from support.waiting import eventually_sync

OWNER_PROGRAM = Path(__file__).with_name("owner_program.py")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if item.path.is_relative_to(here) and "workplace" in getattr(item, "fixturenames", ()):
            item.add_marker("postgres")
            item.add_marker("slow")


@pytest.fixture
def workplace() -> Iterator[Path]:
    """A folder that every user can enter; at the end no process may work in it."""
    folder = Path(tempfile.mkdtemp(prefix="awa-local-")).resolve()
    folder.chmod(0o755)
    yield folder
    try:
        eventually_sync(lambda: not processes_in(folder), what="no process left in the folder")
    finally:
        left = processes_in(folder)
        for process in left:
            process.kill()
        psutil.wait_procs(left, timeout=30)
        shutil.rmtree(folder)


@pytest.fixture
def gone(workplace: Path) -> Callable[[], None]:
    """Wait until no process of the servers is left."""

    def wait() -> None:
        eventually_sync(lambda: not processes_in(workplace), what="no server process left")

    return wait


@pytest.fixture
async def make_postgres(workplace: Path) -> AsyncIterator[MakePostgres]:
    """Make a server that has not been started: `make_postgres(folder, port=…)`."""
    made: list[EmbeddedPostgres] = []

    def make(folder: Path | None = None, **options: Any) -> EmbeddedPostgres:
        chosen = LaunchOptions(**{"store": workplace / "store", **options})
        made.append(EmbeddedPostgres(folder or workplace / "project" / ".awa", chosen))
        return made[-1]

    yield make
    for server in made:
        await server.stop()


@pytest.fixture
def start_owner(workplace: Path) -> Iterator[StartOwner]:
    """Start another process that owns the server of a folder; not waited for."""
    started: list[OwnerProcess] = []

    def start(
        folder: Path, *, fork: bool = False, wrap: Callable[[list[str]], list[str]] = list
    ) -> OwnerProcess:
        told = {"folder": str(folder), "store": str(workplace / "store"), "fork": fork}
        process = subprocess.Popen(
            wrap([sys.executable, str(OWNER_PROGRAM), json.dumps(told)]),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True,
        )  # fmt: skip
        started.append(OwnerProcess(process))
        return started[-1]

    yield start
    for owner in started:
        owner.kill()


@pytest.fixture(scope="session")
def prepared(test_run: Run) -> Path:
    """A folder with an empty database, made once in a run: copying it is quicker than initdb."""

    def make() -> str:
        folder = test_run.new_path("local-home") / ".awa"
        subprocess.run(
            [sys.executable, OWNER_PROGRAM,
             json.dumps({"folder": str(folder), "store": str(test_run.folder), "fork": False})],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=True,
        )  # fmt: skip
        return str(folder)

    return Path(test_run.once("local-home", make))


@pytest.fixture
def make_folder(workplace: Path, prepared: Path) -> Callable[[str], Path]:
    """Make a folder whose database exists already, ready to be started: `make_folder("name")`."""

    def make(name: str) -> Path:
        folder = workplace / name / ".awa"
        folder.parent.mkdir()
        subprocess.run(["cp", "-a", prepared, folder], check=True)
        return folder

    return make


@pytest.fixture
def folder(make_folder: Callable[[str], Path]) -> Path:
    """A folder whose database exists already."""
    return make_folder("prepared")
