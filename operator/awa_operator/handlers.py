"""The only kopf handlers: thin doors through which watch events come in.

Nothing is decided here and nothing is written back: no finalizers, no annotations, no timers.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import kopf

from awa_operator.audit import selector_of
from awa_operator.resources import WATCHED, Resource

type Sink = Callable[[Resource, str, Mapping[str, Any]], None]
"""Takes a resource, the type of an event (empty at the first list), and the object."""
type Login = Callable[[], Awaitable[kopf.AiohttpSession]]


def make_registry(sink: Sink, login: Login) -> kopf.OperatorRegistry:
    """Return the handlers of all kinds that are watched, and the one that logs in."""
    made = kopf.OperatorRegistry()
    for resource in WATCHED:
        kopf.on.event(
            group=resource.group,
            version=resource.version,
            plural=resource.plural,
            id=f"on-{resource.plural}",
            registry=made,
        )(_door(resource, sink))

    @kopf.on.login(id="login", registry=made)
    async def log_in(**_: Any) -> kopf.AiohttpSession:
        return await login()

    return made


def watch_ours(settings: kopf.OperatorSettings) -> None:
    """Let only what is ours come through the watches."""
    for resource in WATCHED:
        if selector := selector_of(resource):
            key = resource.group, resource.version, resource.plural
            settings.watching.label_selectors[key] = selector


def _door(resource: Resource, sink: Sink) -> Callable[..., Awaitable[None]]:
    async def enter(event: kopf.RawEvent, **_: Any) -> None:
        sink(resource, event["type"] or "", event["object"])

    return enter
