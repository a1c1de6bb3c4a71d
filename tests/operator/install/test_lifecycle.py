"""The installed operator: its rights are those that it uses, and workers do without it."""

import itertools
import re
from collections.abc import Iterable
from datetime import timedelta
from http import HTTPStatus
from typing import Any

import pytest

from cluster.builds import CLIENTS, HELM_3
from cluster.handle import Namespace
from support.queue_manifest import changed
from support.waiting import eventually_sync

LIMIT = timedelta(seconds=120)
IMAGE = "registry.example/idle:1"
HANDLERS = """
from dataclasses import dataclass

import awa

client = awa.AsyncClient()


@dataclass
class Nothing:
    pass


@client.task(Nothing, queue="email")
async def nothing(job: awa.Job[Nothing]) -> None:
    job.set_output({})
"""
QUEUE = changed(
    {
        "spec.replicas": 2,
        "spec.worker": {"image": IMAGE, "command": ["awa", "worker", "handlers"]},
        "spec.migration": {"command": ["awa", "migrate"]},
        "spec.rollout.minReadySeconds": 0,
    }
)
# Rights for what this file does not bring about, and what they are for.
ELSEWHERE = {
    # Two makers of one Job meet; failed Jobs beyond those that are kept.
    ("batch", "jobs", "get"),
    ("batch", "jobs", "delete"),
    # A worker has gone from the database and its pod may be there; pods with work are marked.
    ("", "pods", "get"),
    ("", "pods", "patch"),
    # Prometheus' resources are not in the cluster.
    *(("monitoring.coreos.com", "podmonitors", verb) for verb in ("create", "patch", "delete")),
}

type Right = tuple[str, str, str]

pytestmark = pytest.mark.timeout(400)


@pytest.fixture
def running(install_operator, namespace, images, kube_database, request) -> Namespace:
    """An operator and a Queue that is ready, with two workers.

    The parameter is the wheel of the Helm that installs the operator.
    """
    namespace.cluster.load(images.derive(IMAGE, {"handlers.py": HANDLERS}).archive)
    install_operator(clients=getattr(request, "param", CLIENTS))
    namespace.apply([kube_database.secret("app-db"), QUEUE])
    namespace.wait("jobq/email", "condition=Ready", LIMIT)
    return namespace


def workers(namespace: Namespace) -> set[str]:
    found = namespace.get("pods", "-l", "awa.dev/queue=email")["items"]
    return {pod["metadata"]["uid"] for pod in found if "deletionTimestamp" not in pod["metadata"]}


def deployment(namespace: Namespace) -> dict[str, Any]:
    found: dict[str, Any] = namespace.get("deployment", "email-worker")
    return found


def test_uninstalling_the_operator_leaves_queues_and_workers_alone(running):
    before = workers(running)
    assert len(before) == 2
    running.helm("uninstall", "awa", "--wait")
    assert workers(running) == before
    running.wait("deployment/email-worker", "condition=Available")
    assert running.get("jobq", "email")["spec"]["replicas"] == 2


def test_p16_helm_waits_for_the_queues_that_it_installs(
    install_operator, namespace, images, kube_database
):
    """P16: operator, Secret and Queue in one release, on an empty database, without a deadlock."""
    namespace.cluster.load(images.derive(IMAGE, {"handlers.py": HANDLERS}).archive)
    metadata = {"name": "email", "namespace": namespace.name}
    secret = kube_database.secret("app-db") | {"metadata": metadata | {"name": "app-db"}}
    install_operator({"extraManifests": [secret, QUEUE | {"metadata": metadata}]})
    status = namespace.get("jobq", "email")["status"]
    ready = {one["type"]: one["status"] for one in status["conditions"]}
    assert ready["Ready"] == "True"
    assert status["readyReplicas"] == 2


def test_the_chart_s_own_test_tells_what_the_operator_says(install_operator, namespace):
    install_operator()
    said = namespace.helm("test", "awa", limit=timedelta(minutes=3))
    phases = set(re.findall(r"Phase:\s+(\w+)", said))
    assert phases == {"Succeeded"}
    # What the test made is gone again.
    assert namespace.get("jobq")["items"] == []
    assert namespace.get("pods", "-l", "app.kubernetes.io/component=test")["items"] == []


@pytest.mark.parametrize("running", [HELM_3], indirect=True, ids=["helm3"])
def test_another_configuration_of_the_operator_replaces_no_worker(running, install_operator):
    """Helm 4 goes on where Helm 3 began."""
    before, generation = workers(running), deployment(running)["metadata"]["generation"]
    install_operator({"logLevel": "debug", "replicas": 2})
    running.kubectl("scale", "jobq/email", "--replicas=3")
    eventually_sync(lambda: len(workers(running)) == 3, LIMIT, what="there is a third worker")
    assert before < workers(running)
    assert deployment(running)["metadata"]["generation"] == generation + 1


def test_the_chart_grants_what_the_operator_uses_and_nothing_else(running, helm):
    bring_everything_about(running)
    account = f"system:serviceaccount:{running.name}:awa"
    rendered = helm.template(namespace=running.name)
    granted = rights(rendered.one("Role", "awa")["rules"])
    granted |= rights(rendered.one("Role", "awa-lease")["rules"])

    def used() -> set[Right]:
        events = [event for event in running.cluster.audit(account) if "objectRef" in event]
        refused = [rights_for(event) for event in events if code_of(event) == HTTPStatus.FORBIDDEN]
        assert refused == []
        return {right for event in events for right in rights_for(event)}

    # The lease is renewed every ten seconds, the first time after that.
    eventually_sync(lambda: granted - used() - ELSEWHERE == set(), LIMIT, what="each is used")
    assert used() - granted == set()


def bring_everything_about(namespace: Namespace) -> None:
    """Have the operator do all that it does: satellites come and go, pods come, go and change."""
    namespace.apply(changed({"spec.networkPolicy.enabled": True, "spec.replicas": 3}, QUEUE))
    namespace.wait("networkpolicy/email-worker", "create", LIMIT)
    namespace.wait("poddisruptionbudget/email-worker", "create", LIMIT)
    off = {"spec.podDisruptionBudget.enabled": False, "spec.replicas": 1}
    namespace.apply(changed(off, QUEUE))
    namespace.wait("networkpolicy/email-worker", "delete", LIMIT)
    namespace.wait("poddisruptionbudget/email-worker", "delete", LIMIT)
    eventually_sync(lambda: len(workers(namespace)) == 1, LIMIT, what="there is one worker")


def code_of(event: dict[str, Any]) -> int:
    code: int = event.get("responseStatus", {}).get("code", 0)
    return code


def rights_for(event: dict[str, Any]) -> set[Right]:
    """Return what a request needed: applying what is not there needs the right to create it."""
    about = event["objectRef"]
    resource = "/".join(filter(None, (about["resource"], about.get("subresource"))))
    verbs = {event["verb"]}
    if event["verb"] == "patch" and code_of(event) == HTTPStatus.CREATED:
        verbs.add("create")
    return {(about.get("apiGroup", ""), resource, verb) for verb in verbs}


def rights(rules: Iterable[dict[str, Any]]) -> set[Right]:
    return {
        right
        for rule in rules
        for right in itertools.product(rule["apiGroups"], rule["resources"], rule["verbs"])
    }
