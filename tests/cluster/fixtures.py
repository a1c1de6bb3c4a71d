"""Fixtures of tests on a cluster: `cluster`, `namespace`, `images`, `kube_database`.

One cluster for the whole run, whatever the number of its processes; one namespace for each test.
"""

import contextlib
import secrets
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path

import pytest

from cluster.databases import KubeDatabase, MakeKubeDatabase, settings_for, start_for_pods
from cluster.errors import ClusterError
from cluster.handle import Cluster, Facts, Namespace
from cluster.images import Images, prepare_images
from cluster.source import Owner, newest, prepare
from support.postgres import Server
from support.run import RUN, Run

type MakeCluster = Callable[[], Cluster]

LEFTOVERS = pytest.StashKey[list[str]]()
RESTRICTED = {"pod-security.kubernetes.io/enforce": "restricted"}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--kubernetes",
        default=newest(),
        metavar="MINOR",
        help=f"Kubernetes minor of the cluster that is started (default: {newest()})",
    )


def pytest_collection_finish(session: pytest.Session) -> None:
    """Do what takes long before the first test, whose time is limited.

    What fails here fails again in the fixture, and there it is told.
    """
    asked = {name for item in session.items for name in getattr(item, "fixturenames", ())}
    if session.config.option.collectonly:
        return
    with contextlib.suppress(ClusterError, OSError):
        _prepare(session.config, asked)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """End the cluster where the run began it. Whatever it leaves on the machine is a failure."""
    if hasattr(session.config, "workerinput"):
        return
    try:
        left = _owner(session.config).end()
    except (AssertionError, ClusterError) as error:
        left = [str(error)]
    session.config.stash[LEFTOVERS] = left
    if left:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    for left in config.stash.get(LEFTOVERS, []):
        terminalreporter.write_line(f"the cluster has left behind: {left}", red=True)


@pytest.fixture(scope="session")
def cluster(pytestconfig: pytest.Config) -> Cluster:
    """The run's cluster: kubectl, helm, faults; RBAC is on, and so is the audit log."""
    return _cluster_of(pytestconfig)


@pytest.fixture(scope="module")
def make_cluster(test_run: Run, pytestconfig: pytest.Config) -> Iterator[MakeCluster]:
    """Start clusters of a test module's own, to do things to that others shall not see.

    Each takes seconds and most of a gigabyte. Ended after the module, with proof.
    """
    made: list[Owner] = []

    def make() -> Cluster:
        folder = test_run.new_path("cluster")
        folder.mkdir()
        alive, minor = test_run.folder / "alive", pytestconfig.getoption("--kubernetes")
        made.append(Owner(folder, alive, minor))
        return Cluster(made[-1].begin(), folder / "kube-home")

    yield make
    assert [left for owner in made for left in owner.end()] == []


@pytest.fixture
def namespace(cluster: Cluster) -> Iterator[Namespace]:
    """A namespace of this test's own in which pods have to be `restricted`."""
    with _new_namespace(cluster) as made:
        yield made


@pytest.fixture
def other_namespace(cluster: Cluster) -> Iterator[Namespace]:
    """One more of them."""
    with _new_namespace(cluster) as made:
        yield made


@contextlib.contextmanager
def _new_namespace(cluster: Cluster) -> Iterator[Namespace]:
    made = Namespace(cluster, f"t-{secrets.token_hex(4)}")
    metadata = {"name": made.name, "labels": RESTRICTED}
    cluster.put({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
    made.wait("serviceaccount/default", "create")
    yield made
    cluster.delete("namespace", made.name)
    # Nobody waits for its pods, and their grace periods would cost the next tests time.
    if made.get("pods")["items"]:
        made.kubectl("delete", "pods", "--all", "--force", "--grace-period=0", "--wait=false")


@pytest.fixture(scope="session")
def built_images(test_run: Run) -> Images:
    """The images of the product's Dockerfiles, as archives: of the sources at the run's start."""
    return _images_of(test_run)


@pytest.fixture(scope="session")
def images(cluster: Cluster, test_run: Run, built_images: Images) -> Images:
    """The images of the product's Dockerfiles, in the cluster; use `imagePullPolicy: Never`."""
    test_run.once("images-loaded", lambda: built_images.load_into(cluster))
    return built_images


@pytest.fixture(scope="session")
def pod_postgres(cluster: Cluster, test_run: Run, postgres_binaries: Path) -> tuple[Server, str]:
    """The run's server that pods reach, and the superuser's password there."""
    folder, settings = test_run.folder / "for-pods", settings_for(cluster)

    def start() -> tuple[int, str]:
        password = secrets.token_hex(8)
        server = Server(folder, postgres_binaries, settings)
        return start_for_pods(test_run, server, password), password

    port, password = test_run.once("postgres-for-pods", start)
    return Server(folder, postgres_binaries, settings, port=port), password


@pytest.fixture
def make_kube_database(
    cluster: Cluster, pod_postgres: tuple[Server, str]
) -> Iterator[MakeKubeDatabase]:
    """Make empty databases that pods reach, dropped after the test."""
    server, password = pod_postgres
    made: list[KubeDatabase] = []

    def make() -> KubeDatabase:
        database = server.create_database()
        made.append(KubeDatabase(database, cluster.host_address, password))
        return made[-1]

    yield make
    for one in made:
        server.drop_database(one.database)


@pytest.fixture
def kube_database(make_kube_database: MakeKubeDatabase) -> KubeDatabase:
    """An empty database of this test's own that pods reach."""
    return make_kube_database()


def _run_of(config: pytest.Config) -> Run:
    worker_input: dict[str, str] | None = getattr(config, "workerinput", None)
    return Run(Path(worker_input["awa_run"])) if worker_input else config.stash[RUN]


def _cluster_of(config: pytest.Config) -> Cluster:
    """Return the run's cluster, begun by the first who asks."""
    run = _run_of(config)
    facts = run.once("cluster", lambda: asdict(_owner(config).begin()))
    facts["load"] = tuple(facts["load"])  # JSON has lists only
    return Cluster(Facts(**facts), run.folder / "kube-home")


def _owner(config: pytest.Config) -> Owner:
    folder = _run_of(config).folder
    return Owner(folder, folder / "alive", config.getoption("--kubernetes"))


def _prepare(config: pytest.Config, asked: set[str]) -> None:
    run, minor = _run_of(config), config.getoption("--kubernetes")
    if asked & {"cluster", "make_cluster"}:
        run.once("cluster-prepared", lambda: prepare(minor))
    if "built_images" in asked:
        _images_of(run)
    if "cluster" in asked:
        begun = _cluster_of(config)
        if "images" in asked:
            run.once("images-loaded", lambda: _images_of(run).load_into(begun))


def _images_of(run: Run) -> Images:
    """Return the run's images, built by the first who asks."""
    return Images.from_json(run.once("images", lambda: prepare_images().as_json()))
