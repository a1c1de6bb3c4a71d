"""P45: names fit, or are refused in words."""

import pytest

from awa.manifest.loading import parse_queue
from awa.manifest.problems import ManifestError
from awa_operator import names
from awa_operator.render.deployment import render_deployment, render_pod_template
from awa_operator.render.migration_job import render_migration_job
from support.planning.queues import make_queue


def test_p45_the_longest_name_works_and_a_longer_one_is_refused_in_words():
    longest = "a" * 52
    queue = make_queue(longest)
    deployment = render_deployment(queue, render_pod_template(queue, None), {})
    assert len(deployment["metadata"]["name"]) <= 63
    job = render_migration_job(queue, 10**9 - 1, 100, [queue])
    values = [*job["metadata"]["labels"].values(), *deployment["metadata"]["labels"].values()]
    assert max(map(len, values)) <= 63
    assert names.job_number(job["metadata"]["name"], job["metadata"]["labels"]["awa.dev/database"])
    manifest = queue.to_manifest()
    manifest["metadata"]["name"] = "a" * 53
    with pytest.raises(ManifestError, match="at most 52 characters"):
        parse_queue(manifest)
