"""P27: no worker selector matches a migration's pods."""

from awa_operator import labels
from awa_operator.render.deployment import render_pod_template
from awa_operator.render.migration_job import render_migration_job
from support.planning.queues import make_queue


def test_p27_no_worker_selector_matches_a_pod_of_a_job():
    queue = make_queue()
    selector = labels.worker_selector("email")
    job = render_migration_job(queue, 1, 1, [queue])
    pod = job["spec"]["template"]["metadata"]["labels"]
    assert not selector.items() <= pod.items()
    assert pod[labels.COMPONENT] != selector[labels.COMPONENT]
    worker = render_pod_template(queue, None)["metadata"]["labels"]
    assert selector.items() <= worker.items()
