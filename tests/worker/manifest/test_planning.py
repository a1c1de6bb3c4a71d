"""The planner is told what the manifest says."""

from datetime import timedelta

import pytest

from awa.manifest import load_queue, scaling_spec
from awa.scaling import PolicyType, RatePolicy, RateRules, ScalingSpec, SelectPolicy

SECOND = timedelta(seconds=1)


@pytest.mark.parametrize("mode", ["Fixed", "External"])
def test_only_native_scaling_is_planned(queue, mode):
    assert scaling_spec(queue({"spec.scaling.mode": mode})) is None


def test_the_defaults_of_manifest_and_planner_are_the_same(queue):
    made = scaling_spec(queue({"spec.scaling": {"mode": "Native", "targetJobsPerReplica": 10}}))
    assert made == ScalingSpec(concurrency=10, target_jobs_per_replica=10)


def test_every_wish_reaches_the_planner(queue):
    wishes = {
        "mode": "Native",
        "minReplicas": 2,
        "maxReplicas": 33,
        "targetJobsPerReplica": 7,
        "targetLagSeconds": 61,
        "activationThreshold": 4,
        "pollIntervalSeconds": 5,
        "cooldownSeconds": 77,
        "tolerancePercent": 12,
        "behavior": {
            "scaleUp": {
                "stabilizationWindowSeconds": 8,
                "policies": [{"type": "Percent", "value": 50, "periodSeconds": 9}],
                "selectPolicy": "Min",
            },
            "scaleDown": {
                "stabilizationWindowSeconds": 600,
                "policies": [],
                "selectPolicy": "Disabled",
            },
        },
        "fallback": {"failureThreshold": 2, "replicas": 3},
    }
    made = scaling_spec(queue({"spec.scaling": wishes, "spec.worker.concurrency": 25}))
    assert made == ScalingSpec(
        concurrency=25,
        target_jobs_per_replica=7,
        target_lag=61 * SECOND,
        min_replicas=2,
        max_replicas=33,
        activation_threshold=4,
        poll_interval=5 * SECOND,
        cooldown=77 * SECOND,
        tolerance_percent=12,
        up=RateRules(
            8 * SECOND, (RatePolicy(PolicyType.PERCENT, 50, 9 * SECOND),), SelectPolicy.MIN
        ),
        down=RateRules(600 * SECOND, (), SelectPolicy.DISABLED),
        fallback_replicas=3,
        failure_threshold=2,
    )


def test_the_target_follows_the_concurrency(queue):
    scaling = {"mode": "Native", "targetLagSeconds": 60}
    made = scaling_spec(queue({"spec.scaling": scaling, "spec.worker.concurrency": 25}))
    assert made.target_jobs_per_replica == 25


def test_a_policy_left_out_keeps_its_default(complete_text):
    text = complete_text.replace("stabilizationWindowSeconds: 0", "stabilizationWindowSeconds: 30")
    made = scaling_spec(load_queue(text))
    assert made.up.window == 30 * SECOND
    assert len(made.up.policies) == 2
