"""From the words of a manifest to the values of the scaling planner."""

from datetime import timedelta

from awa.manifest.queue import Queue
from awa.manifest.scaling import ScaleDown, ScaleUp
from awa.scaling import PolicyType, RatePolicy, RateRules, ScalingSpec, SelectPolicy


def scaling_spec(queue: Queue) -> ScalingSpec | None:
    """Return what the planner needs; None unless the scaling mode is Native."""
    scaling = queue.spec.scaling
    if scaling.mode != "Native":
        return None
    lag = scaling.target_lag_seconds
    return ScalingSpec(
        concurrency=queue.spec.worker.concurrency,
        target_jobs_per_replica=queue.target_jobs_per_replica,
        target_lag=None if lag is None else timedelta(seconds=lag),
        min_replicas=scaling.min_replicas,
        max_replicas=scaling.max_replicas,
        activation_threshold=scaling.activation_threshold,
        poll_interval=timedelta(seconds=scaling.poll_interval_seconds),
        cooldown=timedelta(seconds=scaling.cooldown_seconds),
        tolerance_percent=scaling.tolerance_percent,
        up=_rate_rules(scaling.behavior.scale_up),
        down=_rate_rules(scaling.behavior.scale_down),
        fallback_replicas=scaling.fallback.replicas,
        failure_threshold=scaling.fallback.failure_threshold,
    )


def _rate_rules(rules: ScaleUp | ScaleDown) -> RateRules:
    policies = tuple(
        RatePolicy(PolicyType(policy.type), policy.value, timedelta(seconds=policy.period_seconds))
        for policy in rules.policies
    )
    window = timedelta(seconds=rules.stabilization_window_seconds)
    return RateRules(window, policies, SelectPolicy(rules.select_policy))
