"""The only place where names of objects are made. All of them fit in 63 characters."""

import re

_JOB = re.compile(r"^awa-mig-([0-9a-f]{10})-([1-9][0-9]{0,8})$")

WORKER_CONTAINER = "worker"
MIGRATION_CONTAINER = "migrate"


def worker_name(queue_name: str) -> str:
    """Return the name of a Queue's Deployment and of what stands beside it.

    Names of Queues have at most 52 characters, so this has at most 59.
    """
    return f"{queue_name}-worker"


def job_name(identity: str, number: int) -> str:
    """Return the name of the n-th migration Job of a database.

    It does not depend on the Queue that makes it, so two makers meet at the API server.
    """
    return f"awa-mig-{identity}-{number}"


def job_number(name: str | None, identity: str) -> int:
    """Return the number in a migration Job's name, 0 when it is no Job of this database."""
    found = _JOB.match(name or "")
    return int(found[2]) if found and found[1] == identity else 0
