"""The `Queue` resource `awa.dev/v1alpha1`: its models, its rules, and how a manifest is read.

The same manifest is read by `awa up` and, through the API server, by the operator. This package
imports nothing of Awa but the scaling planner, and no driver.
"""

from awa.manifest.loading import load_queue, load_queues, parse_queue, parse_stored_queue
from awa.manifest.local import (
    LocalView,
    NotApplied,
    local_view,
    not_applicable_locally,
    worker_environment,
)
from awa.manifest.planning import scaling_spec
from awa.manifest.problems import ManifestError, Problem
from awa.manifest.queue import API_VERSION, GROUP, KIND, VERSION, Queue, QueueSpec
from awa.manifest.rules import PlacedRule, cel_rules, forbidden_changes
from awa.manifest.status import Condition, ConditionType, QueueStatus

__all__ = [
    "API_VERSION",
    "GROUP",
    "KIND",
    "VERSION",
    "Condition",
    "ConditionType",
    "LocalView",
    "ManifestError",
    "NotApplied",
    "PlacedRule",
    "Problem",
    "Queue",
    "QueueSpec",
    "QueueStatus",
    "cel_rules",
    "forbidden_changes",
    "load_queue",
    "load_queues",
    "local_view",
    "not_applicable_locally",
    "parse_queue",
    "parse_stored_queue",
    "scaling_spec",
    "worker_environment",
]
