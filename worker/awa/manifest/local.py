"""What `awa up` takes from a manifest: the same command, without a cluster.

The worker's command, arguments and environment apply as they are, with `$(NAME)` filled in as
Kubernetes does. What speaks of images, pods, nodes, Secrets and roll-outs does not apply, and
`awa up` says so: a manifest is the same file in both places.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta

from awa.manifest.part import Part
from awa.manifest.planning import scaling_spec
from awa.manifest.problems import ManifestError, Problem
from awa.manifest.queue import KIND, Queue
from awa.manifest.tree import fields_of
from awa.scaling import ScalingSpec

DATABASE_URL = "AWA_DATABASE_URL"

_REFERENCE = re.compile(r"\$(\$|\(([^)$ ]+)\))")


@dataclass(frozen=True, slots=True)
class NotApplied:
    """A field that is set and has no meaning without a cluster."""

    path: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalView:
    """The manifest as `awa up` runs it.

    `scaling` is None when the count is fixed at `replicas`; else `replicas` is where the planner
    starts. The connection string of `environment` is not shown by `repr`.
    """

    queue_name: str
    schema: str
    command: tuple[str, ...]
    environment: Mapping[str, str] = field(repr=False)
    concurrency: int
    drain_timeout: timedelta
    suspended: bool
    replicas: int
    scaling: ScalingSpec | None
    not_applied: tuple[NotApplied, ...]


def local_view(queue: Queue, database_url: str) -> LocalView:
    """Return what `awa up` runs, with the environment for a database at `database_url`.

    Raises ManifestError when there is no command: the entry point of an image cannot be known here.
    """
    worker = queue.spec.worker
    if not worker.command:
        advice = "is needed by awa up, which cannot see the entry point of an image; "
        example = "for example [awa, worker, handlers]"
        raise ManifestError(KIND, [Problem("spec.worker.command", advice + example)])
    environment = _environment(queue, database_url)
    words = (*worker.command, *(worker.args or ()))
    return LocalView(
        queue_name=queue.queue_name,
        schema=queue.spec.database.schema_name,
        command=tuple(_filled(word, environment) for word in words),
        environment=environment,
        concurrency=worker.concurrency,
        drain_timeout=timedelta(seconds=worker.drain_timeout_seconds),
        suspended=queue.spec.suspend,
        replicas=queue.first_replicas,
        scaling=scaling_spec(queue),
        not_applied=tuple(_not_applied(queue.spec, "spec")),
    )


def worker_environment(queue: Queue) -> dict[str, str]:
    """Return the variables that tell a worker its queue, here and in a pod alike.

    The connection string is not among them: a pod has it from a Secret.
    """
    worker = queue.spec.worker
    return {
        "AWA_QUEUE": queue.queue_name,
        "AWA_QUEUES": f"{queue.queue_name}:{worker.concurrency}",
        "AWA_SCHEMA": queue.spec.database.schema_name,
        "AWA_DRAIN_TIMEOUT_SECONDS": str(worker.drain_timeout_seconds),
    }


def not_applicable_locally(queue: Queue) -> list[str]:
    """Return the paths of fields that are set and that `awa up` has no use for."""
    return [field.path for field in _not_applied(queue.spec, "spec")]


def _environment(queue: Queue, database_url: str) -> dict[str, str]:
    """Awa's own variables come first, so that others can refer to them, and win."""
    own = {DATABASE_URL: database_url, **worker_environment(queue)}
    environment = dict(own)
    for variable in queue.spec.worker.env:
        if variable.value_from is None and variable.name not in own:
            environment[variable.name] = _filled(variable.value or "", environment)
    return environment


def _filled(text: str, environment: Mapping[str, str]) -> str:
    """Replace `$(NAME)`; `$$` stands for `$`, and an unknown name stays as it is."""

    def fill(found: re.Match[str]) -> str:
        return "$" if found[1] == "$" else environment.get(found[2], found[0])

    return _REFERENCE.sub(fill, text)


def _not_applied(part: Part, path: str) -> Iterator[NotApplied]:
    for name, described in fields_of(type(part)).items():
        if described.attribute not in part.model_fields_set:
            continue
        here, value = f"{path}.{name}", getattr(part, described.attribute)
        if mark := described.cluster_only:
            yield NotApplied(here, mark.why)
        elif isinstance(value, Part):
            yield from _not_applied(value, here)
        elif described.part is not None and described.is_list:
            for index, item in enumerate(value or ()):
                yield from _not_applied(item, f"{here}[{index}]")
