"""Every object of a plain and of a complete Queue, as it was reviewed.

python -m support.planning.golden    (in `tests`) writes the files anew; read the difference.
"""

import json
from pathlib import Path
from typing import Any

from awa.manifest import Queue, load_queue
from awa_operator import labels
from awa_operator.identity import canonical_json, database_identity, target_hash, template_hash
from awa_operator.render.deployment import render_deployment, render_pod_template, render_replicas
from awa_operator.render.disruption_budget import render_disruption_budget
from awa_operator.render.migration_job import render_migration_job
from awa_operator.render.network_policy import render_network_policy
from awa_operator.render.pod_monitor import render_pod_monitor
from support.planning.queues import make_queue

FOLDER = Path(__file__).parents[2] / "operator" / "render" / "golden"
COMPLETE = Path(__file__).parents[2] / "worker" / "manifest" / "complete.yaml"
HASHES = FOLDER / "hashes.json"
SECRET = "abcdef"


def plain_queue() -> Queue:
    """Return a Queue that says only what it must."""
    return make_queue("email", {"replicas": None})


def complete_queue() -> Queue:
    """Return a Queue that sets every field."""
    queue = load_queue(COMPLETE)
    metadata = queue.metadata.model_copy(update={"uid": "uid-email", "generation": 3})
    on = queue.spec.monitoring.model_validate({"podMonitor": {"enabled": True}})
    policy = queue.spec.network_policy.model_validate({"enabled": True})
    spec = queue.spec.model_copy(update={"monitoring": on, "network_policy": policy})
    return queue.model_copy(update={"metadata": metadata, "spec": spec})


def objects() -> dict[str, dict[str, Any] | None]:
    """Return every object of both Queues by the name of its file."""
    found: dict[str, dict[str, Any] | None] = {}
    for name, queue in (("plain", plain_queue()), ("complete", complete_queue())):
        template = render_pod_template(queue, SECRET)
        marks = {
            labels.TEMPLATE: canonical_json(template),
            labels.TEMPLATE_HASH: template_hash(template),
        }
        found |= {
            f"{name}-deployment": render_deployment(queue, template, marks, 2),
            f"{name}-replicas": render_replicas(queue, 3, "7", 5),
            f"{name}-migration-job": render_migration_job(queue, 1, 1, [queue]),
            f"{name}-disruption-budget": render_disruption_budget(queue),
            f"{name}-network-policy": render_network_policy(queue),
            f"{name}-pod-monitor": render_pod_monitor(queue),
        }
    return found


def hashes() -> dict[str, str]:
    """Return what an operator stores and compares: a change of these restarts workers or Jobs."""
    found: dict[str, str] = {}
    for name, queue in (("plain", plain_queue()), ("complete", complete_queue())):
        found |= {
            f"{name} template": template_hash(render_pod_template(queue, SECRET)),
            f"{name} template without a Secret": template_hash(render_pod_template(queue, None)),
            f"{name} target": target_hash(queue),
            f"{name} database": database_identity("mail", queue.spec.database),
        }
    return found


def text_of(value: object) -> str:
    """Return what a golden file holds."""
    return json.dumps(value, indent=2, sort_keys=True) + "\n"


def main() -> None:
    """Write every file."""
    FOLDER.mkdir(exist_ok=True)
    for name, manifest in objects().items():
        (FOLDER / f"{name}.json").write_text(text_of(manifest), encoding="utf-8")
    HASHES.write_text(text_of(hashes()), encoding="utf-8")


if __name__ == "__main__":
    main()
