"""Fixtures for every test: a clean environment, PostgreSQL servers and databases, fault proxies."""

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Protocol

import asyncpg
import hypothesis
import pytest

import awa_migrations
from support.pgwire import MakeProxy, PostgresProxy
from support.postgres import (
    DURABLE_SETTINGS,
    FAST_SETTINGS,
    Connect,
    Database,
    MakeDatabase,
    MakeServer,
    QuietServer,
    Server,
    find_binaries,
)
from support.run import RUN, Run

# What the developer's shell says about databases must not reach a test.
# Settings of the tests themselves are theirs.
for _name in [name for name in os.environ if name.startswith(("AWA_", "PG"))]:
    if not _name.startswith("AWA_TEST_"):
        del os.environ[_name]

pytest_plugins = ["cluster.fixtures"]

# A slow machine is no defect: no test has a deadline for one example.
hypothesis.settings.register_profile(
    "awa",
    deadline=None,
    print_blob=True,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("awa")

# A test that asks for the fixture, directly or through others, gets the markers.
MARKERS_BY_FIXTURE = {
    "postgres": ["postgres"],
    "make_server": ["postgres", "slow"],
    "quiet_server": ["postgres"],
    "cluster": ["kubernetes"],
    "make_cluster": ["kubernetes", "slow"],
    "pod_postgres": ["postgres"],
    "built_images": ["slow"],
}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--postgres-bin",
        type=Path,
        default=None,
        help="folder with initdb and postgres (default: the newest that is installed)",
    )


def pytest_xdist_auto_num_workers() -> int | None:
    """Return how many processes `-n auto` is: half as many again as processors.

    Much of their time tests wait for what takes its time.
    """
    if "PYTEST_XDIST_AUTO_NUM_WORKERS" in os.environ:
        return None  # xdist reads it
    return max(2, (os.cpu_count() or 1) * 3 // 2)


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    worker_input: dict[str, str] | None = getattr(config, "workerinput", None)
    config.stash[RUN] = Run(Path(worker_input["awa_run"])) if worker_input else Run.begin()


def pytest_unconfigure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput") and RUN in config.stash:
        config.stash[RUN].end()


class _Node(Protocol):
    """The part of xdist's WorkerController that we use."""

    config: pytest.Config
    workerinput: dict[str, str]


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: _Node) -> None:
    node.workerinput["awa_run"] = str(node.config.stash[RUN].folder)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        for fixture in getattr(item, "fixturenames", ()):
            for marker in MARKERS_BY_FIXTURE.get(fixture, ()):
                item.add_marker(marker)


@pytest.fixture(scope="session")
def test_run(pytestconfig: pytest.Config) -> Run:
    """What the processes of this run share."""
    return pytestconfig.stash[RUN]


@pytest.fixture(scope="session")
def postgres_binaries(pytestconfig: pytest.Config) -> Path:
    """The folder of the server programs that this run tests with."""
    return find_binaries(pytestconfig.getoption("--postgres-bin"))


@pytest.fixture(scope="session")
def postgres(test_run: Run, postgres_binaries: Path) -> Server:
    """The run's one fast server (fsync off), shared by all xdist workers: never stop it."""
    folder = test_run.folder / "shared"

    def start() -> int:
        test_run.ensure_keeper()
        server = Server(folder, postgres_binaries, FAST_SETTINGS)
        server.create()
        server.start()
        server.leave_to_keeper()
        return server.port

    return Server(folder, postgres_binaries, FAST_SETTINGS, port=test_run.once("postgres", start))


@pytest.fixture
def make_server(test_run: Run, postgres_binaries: Path) -> Iterator[MakeServer]:
    """Start servers of this test's own: `make_server(max_connections="20", fsync="off")`.

    Durable unless told otherwise. Each may be killed, stopped and started again.
    """
    made: list[Server] = []

    def make(**settings: str) -> Server:
        test_run.ensure_keeper()
        path = test_run.new_path("own")
        made.append(Server(path, postgres_binaries, {**DURABLE_SETTINGS, **settings}))
        made[-1].create()
        made[-1].start()
        return made[-1]

    yield make
    for server in made:
        server.destroy()


@pytest.fixture
def durable_postgres(make_server: MakeServer) -> Server:
    """A server of this test's own with fsync on, to be killed (`kill`) and started (`start`)."""
    return make_server()


def _migrate(dsn: str) -> None:
    """Run the asynchronous migrator from a fixture, whichever loop this thread has."""
    with ThreadPoolExecutor(1) as thread:
        thread.submit(asyncio.run, awa_migrations.migrate(dsn, schema="awa")).result()


@pytest.fixture
def durable_database(durable_postgres: Server) -> Database:
    """A database with the newest schema named `awa` on `durable_postgres`."""
    database = durable_postgres.create_database()
    _migrate(database.dsn)
    return database


@pytest.fixture(scope="session")
def migrated_template(test_run: Run, postgres: Server) -> str:
    """Name of the shared server's database with the newest schema, to be copied."""

    def make() -> str:
        template = postgres.create_database()
        _migrate(template.dsn)
        return template.name

    return test_run.once("template", make)


@pytest.fixture
def make_database(postgres: Server) -> Iterator[MakeDatabase]:
    """Make databases on the shared server, dropped after the test.

    `make_database()` is empty, `make_database(template=migrated_template)` has the schema.
    """
    made: list[Database] = []

    def make(template: str = "template1") -> Database:
        made.append(postgres.create_database(template=template))
        return made[-1]

    yield make
    for database in made:
        postgres.drop_database(database)


@pytest.fixture
def empty_database(make_database: MakeDatabase) -> Database:
    """A database of this test's own without our schema."""
    return make_database()


@pytest.fixture
def database(make_database: MakeDatabase, migrated_template: str) -> Database:
    """A database of this test's own with the newest schema named `awa`."""
    return make_database(migrated_template)


@pytest.fixture(scope="session")
def quiet_server(test_run: Run) -> Iterator[QuietServer]:
    """Return the quiet server of some programs: one of this test process alone.

    It has a migrated database named `quiet`.
    """
    made: dict[Path, Server] = {}

    def of(binaries: Path) -> Server:
        if binaries not in made:
            test_run.ensure_keeper()
            settings = {**FAST_SETTINGS, "autovacuum": "off"}
            server = made[binaries] = Server(test_run.new_path("quiet"), binaries, settings)
            server.create()
            server.start()
            with server.admin() as admin:
                admin.execute("create database quiet")
            _migrate(server.dsn("quiet"))
        return made[binaries]

    yield of
    for server in made.values():
        server.destroy()


@pytest.fixture(scope="session")
def quiet_postgres(quiet_server: QuietServer, postgres_binaries: Path) -> Server:
    """A fast server of this test process alone, with a migrated database named `quiet`.

    For tests that depend on which transactions run: those of other databases count too.
    """
    return quiet_server(postgres_binaries)


@pytest.fixture
def quiet_database(quiet_postgres: Server) -> Iterator[Database]:
    """A database of this test's own on a server where no other test runs anything."""
    database = quiet_postgres.create_database(template="quiet")
    yield database
    quiet_postgres.drop_database(database)


@pytest.fixture
async def connect() -> AsyncIterator[Connect]:
    """Open asyncpg connections: `await connect(database.dsn)`; closed after the test.

    Keyword arguments go to `asyncpg.connect`, e.g. `server_settings={"search_path": ""}`.
    """
    opened: list[asyncpg.Connection] = []

    async def open_connection(dsn: str, **options: Any) -> asyncpg.Connection:
        opened.append(await asyncpg.connect(dsn, **options))
        return opened[-1]

    yield open_connection
    for connection in opened:
        # Not `close`: a test may have left the session in the middle of anything.
        connection.terminate()


@pytest.fixture
def make_proxy() -> Iterator[MakeProxy]:
    """Put a fault proxy before a server: `make_proxy(server)`; stopped after the test."""
    made: list[PostgresProxy] = []

    def make(server: Server) -> PostgresProxy:
        made.append(PostgresProxy(server.host, server.port))
        made[-1].start()
        return made[-1]

    yield make
    for proxy in made:
        proxy.stop()
