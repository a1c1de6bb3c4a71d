"""What the product needs of a cluster works on the one of this run."""

import psycopg
import pytest

from cluster.builds import version_of
from cluster.errors import CommandFailed
from kube.pods import container, deployment, job, pod_spec, service
from support.waiting import eventually_sync

# Pods start, and an image is built.
pytestmark = pytest.mark.timeout(300)
WEB_PORT = 8080
WEB = ["python", "-m", "http.server", str(WEB_PORT), "--directory", "/app"]
READY = {"httpGet": {"path": "/", "port": WEB_PORT}, "periodSeconds": 1}


FETCH = """
from urllib.request import urlopen
for _ in range(20):
    try:
        print(urlopen('{url}', timeout=3).status)
        break
    except OSError:  # the node learns of the pods behind a service a moment later
        pass
"""


def fetch(url: str) -> list[str]:
    return ["python", "-c", FETCH.format(url=url)]


def test_the_node_is_ready_and_of_the_version_that_was_asked_for(cluster, pytestconfig):
    (node,) = cluster.get("nodes")["items"]
    ready = [one["status"] for one in node["status"]["conditions"] if one["type"] == "Ready"]
    assert ready == ["True"]
    asked_for = version_of(pytestconfig.getoption("--kubernetes"))
    assert node["status"]["nodeInfo"]["kubeletVersion"] == asked_for


def test_pods_of_a_deployment_answer_behind_a_service(namespace, images):
    web = container(images.worker.name, WEB, readinessProbe=READY)
    namespace.apply([deployment("web", 3, web), service("web", WEB_PORT)])
    namespace.wait("deployment/web", "condition=Available")
    address = namespace.get("service", "web")["spec"]["clusterIP"]

    namespace.apply(job("ask", container(images.worker.name, fetch(f"http://{address}/"))))
    namespace.wait("job/ask", "condition=Complete")

    assert namespace.kubectl("logs", "job/ask").strip() == "200"


def test_a_pod_that_promises_nothing_is_refused(namespace, images):
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "bold"},
        "spec": {"containers": [{"name": "main", "image": images.worker.name}]},
    }
    with pytest.raises(CommandFailed, match="violates PodSecurity"):
        namespace.apply(pod)


def test_a_job_migrates_a_database_of_this_machine(namespace, images, kube_database):
    source = {"valueFrom": {"secretKeyRef": {"name": "db", "key": "url"}}}
    migrate = container(
        images.worker.name, ["awa", "migrate"], env=[{"name": "AWA_DATABASE_URL", **source}]
    )
    namespace.apply([kube_database.secret("db"), job("migrate", migrate)])
    namespace.wait("job/migrate", "condition=Complete")

    with psycopg.connect(kube_database.dsn) as session:
        assert session.execute("select count(*) > 0 from awa.schema_version").fetchone() == (True,)


def test_a_pod_without_the_password_is_not_let_in(namespace, images, kube_database):
    nobody = kube_database.pod_dsn.replace(kube_database.password, "guessed")
    migrate = container(
        images.worker.name, ["awa", "migrate"],
        env=[{"name": "AWA_DATABASE_URL", "value": nobody}],
    )  # fmt: skip
    namespace.apply(job("migrate", migrate))
    namespace.wait("job/migrate", "condition=Failed")


def test_a_job_fails_at_once_on_an_exit_code_that_its_policy_names(namespace, images):
    told = "echo no such schema >/dev/termination-log; exit 65"
    rule = {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [65]}}
    namespace.apply(
        job(
            "verdict", container(images.worker.name, ["sh", "-c", told]), backoffLimit=5,
            podFailurePolicy={"rules": [rule]},
        )
    )  # fmt: skip
    namespace.wait("job/verdict", "condition=Failed")

    (pod,) = namespace.get("pods", "-l", "job-name=verdict")["items"]
    (status,) = pod["status"]["containerStatuses"]
    assert status["state"]["terminated"]["message"] == "no such schema\n"


def test_a_service_account_without_a_role_may_nothing(namespace, tmp_path):
    config = namespace.cluster.kubeconfig_of(namespace.name, "default", tmp_path / "config")
    with pytest.raises(CommandFailed, match="forbidden"):
        namespace.kubectl("--kubeconfig", config, "get", "pods")


def test_the_audit_log_tells_who_asked_for_what(namespace):
    namespace.kubectl("create", "configmap", "noted")

    def asked() -> set[tuple[str, str | None]]:
        return {
            (event["verb"], event["objectRef"].get("name"))
            for event in namespace.cluster.audit("admin")
            if event.get("objectRef", {}).get("namespace") == namespace.name
        }

    eventually_sync(lambda: ("create", "noted") in asked(), what="it was written down")


def test_helm_reaches_the_cluster(namespace):
    assert namespace.helm("list", "--output", "json").strip() == "[]"


def test_a_derived_image_has_handlers_of_its_own(namespace, images):
    image = images.derive("awa.test/derived:1", {"handlers.py": "print('derived')\n"})
    namespace.cluster.load(image.archive)
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "derived"},
        "spec": pod_spec(container(image.name, ["python", "handlers.py"]), restartPolicy="Never"),
    }
    namespace.apply(pod)
    namespace.wait("pod/derived", "jsonpath={.status.phase}=Succeeded")
    assert namespace.kubectl("logs", "derived") == "derived\n"
