"""Several definitions, old and foreign ones, on a cluster of this file's own.

Definitions belong to a whole cluster, so tests that change them do not share one.
"""

import copy
import json
import re
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
import yaml

from awa.manifest.crd import crd
from cluster.errors import CommandFailed
from cluster.fixtures import MakeCluster
from cluster.handle import Cluster, Namespace
from support.charts import CHART, CRD_CHART, ROOT
from support.definitions import until_lacks, until_served
from support.operating import Site, grant
from support.queue_manifest import changed
from support.waiting import eventually, eventually_sync

QUEUES = [("first.example", "v1", "Queue", "q"), ("zoo.example", "v1", "Queue", "q")]
MONITORS = [
    ("monitoring.coreos.com", "v1", "PodMonitor", "pmon"),
    ("monitoring.coreos.com", "v1", "PrometheusRule", "promrule"),
]
KEDA = [
    ("keda.sh", "v1alpha1", "ScaledObject", "so"),
    ("keda.sh", "v1alpha1", "TriggerAuthentication", "ta"),
]
MONITORING = ROOT / "docs" / "operations" / "kubernetes-monitoring.md"
EXAMPLES = ROOT / "crds" / "examples"
INSTALL = ROOT / "deploy" / "install.yaml"
LIMIT = timedelta(seconds=30)
pytestmark = pytest.mark.timeout(240)


@pytest.fixture(scope="module")
def spare(make_cluster: MakeCluster) -> Cluster:
    """A cluster without any definition of ours, for this file."""
    return make_cluster()


@pytest.fixture
def without_definition(spare: Cluster) -> Iterator[Cluster]:
    """The cluster, from which the test's definitions are removed afterwards."""
    yield spare
    spare.kubectl("delete", "crd", "--all", "--wait=true")


def older(*removed: str) -> dict[str, Any]:
    """Return the definition without some fields of the spec, as an older release had it."""
    definition = copy.deepcopy(crd())
    (version,) = definition["spec"]["versions"]
    for path in removed:
        here = version["schema"]["openAPIV3Schema"]
        *parents, last = path.split(".")
        for step in parents:
            here = here["properties"][step]
        del here["properties"][last]
    return definition


def later(*added: str) -> dict[str, Any]:
    """Return the definition with more fields that have defaults, as a later release has it."""
    definition = copy.deepcopy(crd())
    (version,) = definition["spec"]["versions"]
    for path in added:
        here = version["schema"]["openAPIV3Schema"]
        *parents, last = path.split(".")
        for step in parents:
            here = here["properties"][step]
        assert last not in here["properties"]
        here["properties"][last] = {"type": "string", "default": "new"}
    return definition


def install(cluster: Cluster, definition: dict[str, Any]) -> None:
    cluster.apply(definition, "--server-side")
    until_served(cluster, definition["metadata"]["name"])


def test_p41_fields_that_an_old_definition_drops_are_named_until_it_is_upgraded(without_definition):
    """P41."""
    cluster = without_definition
    install(cluster, older("spec.worker.affinity", "spec.networkPolicy"))
    missing = ["spec.worker.affinity", "spec.networkPolicy", "spec.networkPolicy.enabled"]
    until_lacks(cluster, missing)
    cluster.helm(
        "upgrade", "--install", "awa-crds", CRD_CHART, "-n", "default", "--take-ownership",
        "--force-conflicts",
    )  # fmt: skip
    until_lacks(cluster, [])
    cluster.helm("uninstall", "awa-crds", "-n", "default")
    assert cluster.get("crd", "queues.awa.dev")["spec"]["names"]["kind"] == "Queue"


async def test_p41_an_operator_with_an_old_definition_works_and_says_what_is_missing(
    without_definition, tmp_path
):
    cluster = without_definition
    install(cluster, older("spec.networkPolicy"))
    # It is read once at the start, and an earlier test's may still be published.
    until_lacks(cluster, ["spec.networkPolicy", "spec.networkPolicy.enabled"])
    namespace = Namespace(cluster, "default")
    grant(namespace)
    operator = Site(namespace, tmp_path, []).start()
    try:
        await operator.until_leads()
        await eventually(lambda: operator.ready().get("missing_crd_fields"), LIMIT)
        missing = operator.ready()["missing_crd_fields"]
        assert "spec.networkPolicy.enabled" in missing
        assert all(path.startswith("spec.networkPolicy") for path in missing)
        assert operator.metric("awa_operator_degraded") == 1
        assert operator.has_logged("upgrade the chart awa-crds")
        assert operator.health() == 200
    finally:
        operator.stop()


async def test_an_operator_with_a_later_definition_reads_what_it_knows(
    without_definition, database, tmp_path
):
    """As after `helm rollback`: every Queue shows defaults that this release does not know."""
    cluster = without_definition
    added = ("spec.later", "spec.database.connectionSecretRef.later", "spec.worker.later")
    install(cluster, later(*added, "status.later", "status.database.later"))
    namespace = Namespace(cluster, "default")
    grant(namespace)
    site = Site(namespace, tmp_path, [])
    site.secret(database)
    operator = await site.start().until_leads()
    try:
        site.queue()
        await site.until_deployed()
        await eventually(lambda: site.condition("Reconciling"), LIMIT)
        site.queue(worker={"concurrency": 3})
        found = await site.until_status()
        assert found["spec"]["later"] == found["spec"]["worker"]["later"] == "new"
        assert found["spec"]["database"]["connectionSecretRef"]["later"] == "new"
        assert found["status"]["later"] == found["status"]["database"]["later"] == "new"
        assert site.condition("Stalled")["status"] == "False"
        assert site.condition("SchemaMigrated")["status"] == "True"
    finally:
        operator.stop()
        namespace.kubectl("delete", "jobq/mail", "secret/db")


def test_a_queue_outlives_the_upgrade_of_its_definition(without_definition):
    cluster = without_definition
    install(cluster, older("spec.monitoring", "status.rollout"))
    cluster.apply(changed({"spec.replicas": 3}), "-n", "default")
    before = cluster.get("jobq", "email", "-n", "default")
    assert "monitoring" not in before["spec"]
    install(cluster, crd())

    def upgraded() -> dict[str, Any] | None:
        found: dict[str, Any] = cluster.get("jobq", "email", "-n", "default")
        return found if "monitoring" in found["spec"] else None

    # The former definition is served until the API server has taken in the new one.
    after = eventually_sync(upgraded, LIMIT, what="the new definition is served")
    assert after is not None
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert after["spec"]["replicas"] == 3
    assert after["spec"]["monitoring"] == {"podMonitor": {"enabled": False}}
    cluster.kubectl("delete", "jobq", "email", "-n", "default")


def foreign(group: str, version: str, kind: str, short_name: str) -> dict[str, Any]:
    """Return somebody else's definition, which takes everything."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    plural = f"{kind.lower()}s"
    names = {"kind": kind, "plural": plural, "singular": kind.lower(), "shortNames": [short_name]}
    served = {"served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": names,
            "versions": [{"name": version, **served}],
        },
    }


def test_p46_our_names_mean_our_queue_whoever_else_has_one(without_definition):
    """P46."""
    cluster = without_definition
    for definition in QUEUES:
        install(cluster, foreign(*definition))
    install(cluster, crd())
    cluster.apply(changed({}), "-n", "default")
    for name in ("jobq", "queues.awa.dev", "awa"):
        assert "email" in cluster.kubectl("get", name, "-n", "default", "-o", "name")
    assert "awa.dev" in cluster.kubectl("explain", "jobq")
    cluster.kubectl("scale", "jobq/email", "--replicas=2", "-n", "default")
    assert cluster.get("jobq", "email", "-n", "default")["spec"]["replicas"] == 2
    names = {
        tuple(one["spec"]["names"].get("shortNames", ())) for one in cluster.get("crd")["items"]
    }
    assert names == {("q",), ("jobq",)}
    cluster.kubectl("delete", "jobq/email", "-n", "default")
    with pytest.raises(CommandFailed, match="NotFound"):
        cluster.kubectl("get", "jobq/email", "-n", "default")


def test_monitors_are_made_where_their_resources_are(without_definition):
    cluster = without_definition
    for definition in MONITORS:
        install(cluster, foreign(*definition))
    (command,) = re.findall(r"^helm (upgrade .*)$", MONITORING.read_text(), re.MULTILINE)
    first = ("upgrade", "--install", "awa", CHART, "-n", "jobs", "--create-namespace")
    cluster.helm(*first, "--set", "replicas=0")
    cluster.helm(*command.replace("charts/awa", str(CHART)).split())
    found = cluster.get("podmonitors,prometheusrules", "-n", "jobs")["items"]
    assert {made["kind"] for made in found} == {"PodMonitor", "PrometheusRule"}
    cluster.helm("uninstall", "awa", "-n", "jobs", "--wait")
    assert cluster.get("podmonitors,prometheusrules", "-n", "jobs")["items"] == []


def test_the_example_for_keda_is_taken_and_finds_the_scale(without_definition):
    cluster = without_definition
    for definition in KEDA:
        install(cluster, foreign(*definition))
    install(cluster, crd())
    cluster.kubectl(
        "apply", "--validate=strict", "-n", "default", "-f", EXAMPLES / "keda-scaler.yaml"
    )
    target = cluster.get("so", "reports", "-n", "default")["spec"]["scaleTargetRef"]
    assert (target["apiVersion"], target["kind"]) == ("awa.dev/v1alpha1", "Queue")
    path = f"/apis/{target['apiVersion']}/namespaces/default/queues/{target['name']}/scale"
    # No replicas are written as none.
    assert json.loads(cluster.kubectl("get", "--raw", path))["spec"] == {}
    cluster.kubectl("delete", "-n", "default", "-f", EXAMPLES / "keda-scaler.yaml")


def test_the_plain_manifest_installs_what_the_charts_do(without_definition):
    cluster = without_definition
    said = cluster.kubectl("apply", "--server-side", "--validate=strict", "-f", INSTALL)
    objects = list(yaml.safe_load_all(INSTALL.read_text()))
    assert len(said.splitlines()) == len(objects)
    assert "Warning" not in said
    until_lacks(cluster, [])
    deployment = cluster.get("deployment", "awa", "-n", "awa")
    assert deployment["spec"]["replicas"] == 1
    # No image is there; that the pod could be made at all is what `restricted` leaves.
    cluster.kubectl(
        "wait", "deployment/awa", "-n", "awa", "--timeout=60s",
        "--for=jsonpath={.status.unavailableReplicas}=1",
    )  # fmt: skip
    cluster.kubectl("delete", "-f", INSTALL, "--wait=false")
