"""Operators that are killed after every single write, at the moment that is worst: the write was
made, and its answer did not come. And what is there at the end, to be compared with the end of
operators that nobody killed.
"""

import asyncio
import re
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from support.api_proxy import ApiProxy, Seen
from support.operating import Operator, Site, took

QUIET = timedelta(seconds=3)
"""Without a write for so long, and in the state that is waited for, it is at its end."""

KINDS = (
    "queues.awa.dev", "deployments", "jobs", "poddisruptionbudgets", "networkpolicies", "services",
    "configmaps", "horizontalpodautoscalers", "serviceaccounts",
)  # fmt: skip
CHANCE = {
    "uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "selfLink",
    "controller-uid", "batch.kubernetes.io/controller-uid", "awa.dev/specs",
}  # fmt: skip
"""Keys whose values are another each time; a Queue's generation shows as `observedGeneration`."""
UNTOLD = {"lastScaleTime", "lastScaleReason", "attempts", "jobName"}
"""What a status may tell or not: when and why it was scaled, which an operator that is killed right
after that cannot; and which Job a Queue followed, which one that looks after its end does not know.
"""
OF_CHANCE = (
    (re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+(Z|\+00:00)"), "<time>"),
    (re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"), "<uid>"),
    (re.compile(r"\b\d-[0-9a-f]{16}\b"), "<hash of a template, which names its Queue's uid>"),
    (re.compile(r"(?<=-)[bcdfghjklmnpqrstvwxz2456789]{5}\b"), "<end of a pod's name>"),
)
"""What is another each time in texts; the last is what Kubernetes ends a pod's name with."""


@dataclass
class Crashes:
    """What was killed after what."""

    writes: list[str] = field(default_factory=list)
    kills: int = 0


async def crash_after_every_write(
    site: Site,
    proxy: ApiProxy,
    is_done: Callable[[], bool],
    *,
    limit: timedelta = timedelta(seconds=200),
    spares: bool = False,
) -> Crashes:
    """Run operators, each killed after its first write, until `is_done` and nothing is written.

    With `spares` nobody is killed. Returns what was written. The last one is ended. Raises
    AssertionError at the limit.
    """
    crashes, began = Crashes(), time.monotonic()
    while took(began) < limit:
        operator = site.start(proxy.address, IDENTITY="crashing")
        proxy.answered = _killer(operator, crashes, spares)
        if await _at_end(operator, is_done, began, limit):
            proxy.answered = lambda *_: None
            await asyncio.to_thread(operator.stop)
            return crashes
    raise AssertionError(f"not done after {crashes.kills} crashes; written: {crashes.writes}")


def what_there_is(site: Site) -> dict[str, Any]:
    """Return every value of all objects of a namespace by its path, and how many pods there are.

    What chance or the clock gave is left out. The status counts for Queues alone, as that of
    other objects is not ours.
    """
    found: dict[str, Any] = {}
    for kind in KINDS:
        for one in site.list(kind):
            if kind != "queues.awa.dev":
                one.pop("status", None)
            found |= _values(one, f"{kind}/{one['metadata']['name']}")
    found["pods"] = Counter(
        one["metadata"].get("labels", {}).get("app.kubernetes.io/component", "")
        for one in site.list("pods")
    )
    return found


def _values(value: Any, path: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if isinstance(value, dict):
        for key in value.keys() - CHANCE - UNTOLD:
            found |= _values(value[key], f"{path}.{key}")
    elif isinstance(value, list):
        for number, one in enumerate(value):
            found |= _values(one, f"{path}[{number}]")
    else:
        found[path] = _without_chance(value) if isinstance(value, str) else value
    return found


def _without_chance(text: str) -> str:
    for pattern, instead in OF_CHANCE:
        text = pattern.sub(instead, text)
    return text


def _killer(operator: Operator, crashes: Crashes, spares: bool) -> Callable[[Seen, int], None]:
    def answered(seen: Seen, status: int) -> None:
        if not seen.is_write or "/leases" in seen.path or not operator.is_alive:
            return
        crashes.writes.append(f"{seen.method} {seen.path.split('/namespaces/')[-1]} {status}")
        if spares:
            return
        crashes.kills += 1
        operator.kill()

    return answered


async def _at_end(
    operator: Operator, is_done: Callable[[], bool], began: float, limit: timedelta
) -> bool:
    """Return True once it is done and rests, False once the operator was killed."""
    since: float | None = None
    while took(began) < limit and operator.is_alive:
        acts = operator.ready().get("leader") is True
        if not (acts and await asyncio.to_thread(is_done)):
            since = None
        elif since is None:
            since = time.monotonic()
        elif took(since) > QUIET and operator.is_alive:
            return True
        await asyncio.sleep(0.1)
    return False
