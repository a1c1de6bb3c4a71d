"""What every rendered object keeps, whatever the spec says."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from awa_operator import labels, names
from awa_operator.identity import target_hash
from awa_operator.render.deployment import render_deployment, render_pod_template
from awa_operator.render.disruption_budget import render_disruption_budget
from awa_operator.render.migration_job import render_migration_job
from awa_operator.render.overlay import overlaid
from support.planning.golden import complete_queue, objects, plain_queue
from support.planning.queues import make_queue

OBJECTS = {name: manifest for name, manifest in objects().items() if manifest is not None}
PODS = [
    OBJECTS[f"{queue}-{kind}"]["spec"]["template"]["spec"]
    for queue in ("plain", "complete")
    for kind in ("deployment", "migration-job")
]


def container(pod):
    return pod["containers"][0]


def environment(pod):
    return {one["name"]: one for one in container(pod)["env"]}


@pytest.mark.parametrize("pod", PODS)
def test_pods_pass_the_restricted_standard(pod):
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    own = container(pod)["securityContext"]
    assert own["allowPrivilegeEscalation"] is False
    assert own["readOnlyRootFilesystem"] is True
    assert own["capabilities"] == {"drop": ["ALL"]}
    assert pod["automountServiceAccountToken"] is False


@pytest.mark.parametrize("pod", PODS)
def test_the_address_comes_from_the_secret_and_is_in_no_manifest(pod):
    assert "valueFrom" in environment(pod)["AWA_DATABASE_URL"]
    assert "value" not in environment(pod)["AWA_DATABASE_URL"]
    assert "://" not in json.dumps(pod)


def test_workers_know_their_pod_and_keep_their_state_where_a_restart_finds_it():
    pod = render_pod_template(plain_queue(), None)["spec"]
    told = {
        name: one["valueFrom"]["fieldRef"]["fieldPath"]
        for name, one in environment(pod).items()
        if "fieldRef" in one.get("valueFrom", {})
    }
    assert told == {
        "AWA_WORKER_NAME": "metadata.name",
        "AWA_POD_NAME": "metadata.name",
        "AWA_POD_UID": "metadata.uid",
    }
    assert environment(pod)["AWA_POD_OWNER"]["value"] == "uid-email"
    folder = environment(pod)["AWA_STATE_FOLDER"]["value"]
    mounts = {one["name"]: one["mountPath"] for one in container(pod)["volumeMounts"]}
    mounted = [name for name, path in mounts.items() if folder.startswith(f"{path}/")]
    volumes = {one["name"]: one for one in pod["volumes"]}
    assert [volumes[name]["emptyDir"] for name in mounted] == [{}]


def test_a_user_cannot_replace_what_the_operator_sets():
    env = [{"name": "AWA_QUEUE", "value": "other"}, {"name": "MINE", "value": "$(AWA_QUEUE)"}]
    pod_labels = {labels.QUEUE: "other", labels.COMPONENT: "migration", "tier": "back"}
    queue = make_queue(spec={"worker": {"env": env, "podLabels": pod_labels}})
    template = render_pod_template(queue, None)
    assert environment(template["spec"])["AWA_QUEUE"]["value"] == "email"
    assert list(environment(template["spec"]))[-1] == "MINE"
    assert template["metadata"]["labels"] == {"tier": "back", **labels.worker_labels("email")}


def test_an_overlay_adds_and_replaces_and_never_loses_the_selector():
    overlay = {
        "metadata": {"labels": {labels.QUEUE: "other"}, "annotations": {"a": "b"}},
        "spec": {
            "hostname": "worker",
            "containers": [{"name": "worker", "imagePullPolicy": "Never"}, {"name": "sidecar"}],
            "volumes": [{"name": "awa-tmp", "emptyDir": {"sizeLimit": "1Gi"}}],
            "securityContext": {"fsGroup": 7},
        },
    }
    queue = make_queue(spec={"worker": {"podTemplate": overlay}})
    template = render_pod_template(queue, None)
    pod = template["spec"]
    assert template["metadata"]["labels"][labels.QUEUE] == "email"
    assert [one["name"] for one in pod["containers"]] == ["worker", "sidecar"]
    assert container(pod)["imagePullPolicy"] == "Never"
    assert container(pod)["image"] == "app:1"
    assert pod["volumes"][0] == {"name": "awa-tmp", "emptyDir": {"sizeLimit": "1Gi"}}
    assert pod["securityContext"] == {
        "runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}, "fsGroup": 7,
    }  # fmt: skip


def test_a_null_of_an_overlay_removes_a_field():
    assert overlaid({"a": 1, "b": {"c": 2}}, {"a": None, "b": {"c": None}}) == {"b": {}}


def test_an_overlay_changes_neither_argument():
    base, overlay = {"a": {"b": [1]}}, {"a": {"c": 2}}
    assert overlaid(base, overlay) == {"a": {"b": [1], "c": 2}}
    assert (base, overlay) == ({"a": {"b": [1]}}, {"a": {"c": 2}})


def test_a_job_never_restarts_by_itself_and_never_overlaps():
    spec = OBJECTS["plain-migration-job"]["spec"]
    assert spec["backoffLimit"] == 0
    assert spec["template"]["spec"]["restartPolicy"] == "Never"
    assert spec["podReplacementPolicy"] == "Failed"
    assert "ttlSecondsAfterFinished" not in spec


def test_permanent_codes_fail_the_job_and_disruptions_do_not_count():
    rules = OBJECTS["plain-migration-job"]["spec"]["podFailurePolicy"]["rules"]
    assert rules[0]["action"] == "FailJob"
    assert rules[0]["onExitCodes"]["values"] == [64, 65, 78]
    assert rules[1]["action"] == "Ignore"
    without = make_queue(spec={"migration": {"permanentExitCodes": []}})
    job = render_migration_job(without, 1, 1, [without])
    assert [one["action"] for one in job["spec"]["podFailurePolicy"]["rules"]] == ["Ignore"]


def test_a_job_has_no_probe_and_no_token_and_its_own_account():
    pod = OBJECTS["complete-migration-job"]["spec"]["template"]["spec"]
    assert not {"livenessProbe", "readinessProbe", "startupProbe"} & set(container(pod))
    assert pod["serviceAccountName"] == "app-ddl"
    secret = environment(pod)["AWA_DATABASE_URL"]["valueFrom"]["secretKeyRef"]
    assert secret["name"] == "app-db-ddl"


def test_one_port_serves_both_pages_when_both_are_the_same():
    queue = make_queue(spec={"worker": {"metrics": {"port": 8321}}})
    pod = render_pod_template(queue, None)["spec"]
    assert [one["containerPort"] for one in container(pod)["ports"]] == [8321]
    assert "AWA_METRICS_ADDRESS" not in environment(pod)


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"replicas": 1}, False),
        ({"replicas": None}, False),
        ({"replicas": 2}, True),
        ({"scaling": {"mode": "External"}}, True),
        ({"scaling": {"mode": "Native", "targetLagSeconds": 9, "maxReplicas": 1}}, False),
        ({"scaling": {"mode": "Native", "targetLagSeconds": 9, "maxReplicas": 2}}, True),
        ({"replicas": 9, "podDisruptionBudget": {"enabled": False}}, False),
    ],
)
def test_a_budget_is_there_when_two_workers_can_run(spec, expected):
    assert (render_disruption_budget(make_queue(spec=spec)) is not None) is expected


def test_a_deployment_names_its_count_only_when_it_is_made():
    queue = plain_queue()
    template = render_pod_template(queue, None)
    assert "replicas" not in render_deployment(queue, template, {})["spec"]
    assert render_deployment(queue, template, {}, 0)["spec"]["replicas"] == 0


def test_a_target_depends_on_what_a_migration_does_and_on_nothing_else():
    same = make_queue(spec={"replicas": 7, "worker": {"concurrency": 3}})
    assert target_hash(same) == target_hash(make_queue())
    for change in (
        {"migration": {"args": ["--lane-pool", "512"]}},
        {"migration": {"command": ["app", "migrate"]}},
        {"migration": {"image": "other:1"}},
        {"migration": {"env": [{"name": "A", "value": "b"}]}},
        {"database": {"schema": "jobs"}},
        {"worker": {"image": "app:2"}},
    ):
        assert target_hash(make_queue(spec=change)) != target_hash(make_queue())


@given(st.text("abcdefghijklmnopqrstuvwxyz0123456789", min_size=1, max_size=52))
def test_every_name_and_label_fits(name):
    queue = make_queue(name)
    job = render_migration_job(queue, 999_999_999, 100, [queue])
    deployment = render_deployment(queue, render_pod_template(queue, None), {})
    for manifest in (job, deployment):
        assert len(manifest["metadata"]["name"]) <= 63
        for key, value in manifest["metadata"]["labels"].items():
            assert len(value) <= 63, key
    identity = job["metadata"]["labels"][labels.DATABASE]
    assert names.job_number(job["metadata"]["name"], identity) == 999_999_999


def test_rendering_leaves_the_queue_as_it_was():
    queue = complete_queue()
    before = queue.model_dump()
    render_deployment(queue, render_pod_template(queue, None), {})
    render_migration_job(queue, 1, 1, [queue])
    assert queue.model_dump() == before
