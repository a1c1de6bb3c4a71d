"""The only place where labels and annotations are made."""

from awa.manifest import GROUP

MANAGED_BY = "app.kubernetes.io/managed-by"
COMPONENT = "app.kubernetes.io/component"
APP_NAME = "app.kubernetes.io/name"
OPERATOR = "awa-operator"
WORKER = "worker"
MIGRATION = "migration"

QUEUE = f"{GROUP}/queue"
DATABASE = f"{GROUP}/database"
TARGET = f"{GROUP}/target"
ATTEMPT = f"{GROUP}/attempt"

# Annotations.
IMAGE = f"{GROUP}/image"
QUEUES = f"{GROUP}/queues"
SPECS = f"{GROUP}/specs"
RECORDED = f"{GROUP}/recorded"
EXCLUSIVE = f"{GROUP}/exclusive"
TEMPLATE = f"{GROUP}/template"
TEMPLATE_HASH = f"{GROUP}/template-hash"
LAST_GOOD_TEMPLATE = f"{GROUP}/last-good-template"
ROLLED_BACK = f"{GROUP}/rolled-back"
HELD_REPLICAS = f"{GROUP}/held-replicas"
SECRET_HASH = f"{GROUP}/secret-hash"


def worker_selector(queue_name: str) -> dict[str, str]:
    """Return the labels that select a Queue's worker pods, and never a Job's."""
    return {MANAGED_BY: OPERATOR, COMPONENT: WORKER, QUEUE: queue_name}


def worker_labels(queue_name: str) -> dict[str, str]:
    """Return the labels of a Queue's Deployment, its pods, and what stands beside it."""
    return {APP_NAME: "awa-worker", **worker_selector(queue_name)}


def job_labels(identity: str, target_hash: str, attempt: int) -> dict[str, str]:
    """Return the labels of a migration Job and its pods. No worker selector matches them."""
    return {
        APP_NAME: "awa-migration",
        MANAGED_BY: OPERATOR,
        COMPONENT: MIGRATION,
        DATABASE: identity,
        TARGET: target_hash,
        ATTEMPT: str(attempt),
    }


def job_selector(identity: str) -> str:
    """Return the selector of all migration Jobs of a database."""
    return selector({MANAGED_BY: OPERATOR, COMPONENT: MIGRATION, DATABASE: identity})


def selector(labels: dict[str, str]) -> str:
    """Return labels as a selector in text, in a fixed order."""
    return ",".join(f"{name}={value}" for name, value in sorted(labels.items()))
