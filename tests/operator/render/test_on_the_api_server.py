"""A real API server takes every object as it is, and writes it back as the planner expects it."""

import json

import pytest

from awa_operator.plan.drift import contains
from awa_operator.render.deployment import render_deployment, render_pod_template
from awa_operator.render.disruption_budget import render_disruption_budget
from awa_operator.render.migration_job import render_migration_job
from awa_operator.render.network_policy import render_network_policy
from support.planning.golden import complete_queue, plain_queue

# Where the complete manifest only has to be read, an API server wants values that make sense.
SENSIBLE = {
    "affinity": {
        "podAntiAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {
                    "weight": 1,
                    "podAffinityTerm": {
                        "topologyKey": "kubernetes.io/hostname",
                        "labelSelector": {"matchLabels": {"awa.dev/queue": "email"}},
                    },
                }
            ]
        }
    },
    "topology_spread_constraints": (
        {
            "maxSkew": 1,
            "topologyKey": "kubernetes.io/hostname",
            "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchLabels": {"awa.dev/queue": "email"}},
        },
    ),
}


def queue_of(kind, namespace):
    queue = plain_queue() if kind == "plain" else complete_queue()
    if kind == "complete":
        worker = queue.spec.worker.model_copy(update=SENSIBLE)
        spec = queue.spec.model_copy(update={"worker": worker})
        queue = queue.model_copy(update={"spec": spec})
    metadata = queue.metadata.model_copy(update={"namespace": namespace.name})
    return queue.model_copy(update={"metadata": metadata})


def objects_of(queue):
    template = render_pod_template(queue, "abcdef")
    made = (
        render_deployment(queue, template, {"awa.dev/template-hash": "1-a"}, 2),
        render_migration_job(queue, 1, 1, [queue]),
        render_disruption_budget(queue),
        render_network_policy(queue),
    )
    return {one["kind"]: one for one in made if one is not None}


def answer(namespace, manifest):
    said = namespace.kubectl(
        "apply", "--server-side", "--dry-run=server", "--validate=strict", "-o", "json", "-f", "-",
        stdin=json.dumps(manifest),
    )  # fmt: skip
    return json.loads(said)


@pytest.mark.parametrize("kind", ["plain", "complete"])
def test_every_object_is_taken_and_shows_no_drift(namespace, kind):
    for name, manifest in objects_of(queue_of(kind, namespace)).items():
        live = answer(namespace, manifest)
        applied = {
            "metadata": {"labels": manifest["metadata"]["labels"]},
            "spec": manifest["spec"],
        }
        assert contains(live, applied), name


def test_a_foreign_edit_shows(namespace):
    manifest = objects_of(queue_of("complete", namespace))["Deployment"]
    live = answer(namespace, manifest)
    container = live["spec"]["template"]["spec"]["containers"][0]
    container["resources"]["limits"]["memory"] = "2Gi"
    assert not contains(live, {"spec": manifest["spec"]})


def test_a_settled_count_of_zero_seconds_shows_no_drift(namespace):
    queue = queue_of("plain", namespace)
    rollout = queue.spec.rollout.model_copy(update={"min_ready_seconds": 0})
    queue = queue.model_copy(update={"spec": queue.spec.model_copy(update={"rollout": rollout})})
    manifest = objects_of(queue)["Deployment"]
    assert contains(answer(namespace, manifest), {"spec": manifest["spec"]})
