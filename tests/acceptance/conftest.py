"""Whole commands in folders of their own, and proof that no process of theirs is left."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Protocol

import psutil
import pytest

from acceptance.commands import LIMIT, Command, awa, processes_of
from awa import AsyncClient
from awa._local.options import LaunchOptions
from awa._local.postgres import EmbeddedPostgres
from support.run import Run
from support.waiting import eventually_sync

HERE = Path(__file__).parent
PREPARE = HERE / "prepare.py"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(HERE) and "workplace" in getattr(item, "fixturenames", ()):
            item.add_marker("postgres")
            item.add_marker("slow")
            item.add_marker(pytest.mark.timeout(400))


@pytest.fixture
def workplace() -> Iterator[Path]:
    """A folder that every user can enter; at the end no process may have to do with it."""
    folder = Path(tempfile.mkdtemp(prefix="awa-acceptance-")).resolve()
    folder.chmod(0o755)
    yield folder
    try:
        eventually_sync(lambda: not processes_of(folder), what="no process is left")
    finally:
        left = processes_of(folder)
        for process in left:
            process.kill()
        psutil.wait_procs(left, timeout=30)
        shutil.rmtree(folder)


@pytest.fixture
def nothing_left(workplace: Path) -> Callable[[], None]:
    """Look now: no process may be left, not even for a moment."""

    def look() -> None:
        assert [(one.pid, one.cmdline()) for one in processes_of(workplace)] == []

    return look


@pytest.fixture
def environ(workplace: Path) -> dict[str, str]:
    """The environment of commands: the user's, without anything about databases."""
    return {**os.environ, "AWA_POSTGRES_STORE": str(workplace / "store"), "COLUMNS": "120"}


class Start(Protocol):
    def __call__(
        self, *words: str, folder: Path | None = None, terminal: bool = False, **environ: str
    ) -> Command: ...


@pytest.fixture
def start(workplace: Path, environ: dict[str, str]) -> Iterator[Start]:
    """Start `awa` and return at once: `start("up", "-f", "queue.yaml")`."""
    started: list[Command] = []

    def begin(
        *words: str, folder: Path | None = None, terminal: bool = False, **more: str
    ) -> Command:
        place = folder or workplace
        started.append(Command(awa(*words), place, {**environ, **more}, terminal=terminal))
        return started[-1]

    yield begin
    for command in started:
        command.close()


@pytest.fixture
def run(
    workplace: Path, environ: dict[str, str]
) -> Callable[..., "subprocess.CompletedProcess[str]"]:
    """Run `awa` to its end: `run("job", "list").stdout`."""

    def complete(
        *words: str, folder: Path | None = None, **more: str
    ) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            awa(*words), cwd=folder or workplace, env={**environ, **more}, text=True,
            stdin=subprocess.DEVNULL, capture_output=True, check=False,
            timeout=LIMIT.total_seconds(),
        )  # fmt: skip

    return complete


@pytest.fixture(scope="session")
def prepared(test_run: Run) -> Path:
    """A folder with a migrated database, made once in a run: copying it is quicker."""

    def make() -> str:
        folder = test_run.new_path("acceptance-home") / ".awa"
        subprocess.run([sys.executable, PREPARE, folder, test_run.folder], check=True)
        return str(folder)

    return Path(test_run.once("acceptance-home", make))


class MakeProject(Protocol):
    def __call__(self, *manifests: str, name: str = "project") -> Path: ...


@pytest.fixture
def make_project(workplace: Path, prepared: Path) -> MakeProject:
    """Make a folder with handlers, a manifest and a database that is migrated already."""

    def make(*manifests: str, name: str = "project") -> Path:
        folder = workplace / name
        folder.mkdir()
        shutil.copy(HERE / "project_handlers.py", folder / "handlers.py")
        (folder / "queue.yaml").write_text("---\n".join(manifests))
        subprocess.run(["cp", "-a", prepared, folder / ".awa"], check=True)
        return folder

    return make


@pytest.fixture
def client_of(workplace: Path) -> Callable[[Path], Any]:
    """Lend a client of the embedded server of a project: `async with client_of(project)`."""

    @asynccontextmanager
    async def lend(project: Path) -> AsyncIterator[AsyncClient]:
        options = LaunchOptions(store=workplace / "store")
        async with (
            EmbeddedPostgres(project / ".awa", options) as server,
            AsyncClient(server.dsn) as client,
        ):
            yield client

    return lend
