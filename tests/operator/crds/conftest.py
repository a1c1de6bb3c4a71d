"""Queues tried on a real API server."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from awa_operator.errors import ApiInvalid
from awa_operator.kube import Kube
from support.queue_manifest import changed

type Attempt = Callable[[dict[str, Any]], Awaitable[str]]


@pytest.fixture
def attempt(kube: Kube) -> Attempt:
    """Try to create the smallest Queue with some fields put in; nothing is kept.

    Returns what the API server says against it, empty if nothing.
    """

    async def make(changes: dict[str, Any]) -> str:
        manifest = changed({"metadata.namespace": "default", **changes})
        try:
            await kube.create(manifest, manager="test", dry_run=True)
        except ApiInvalid as error:
            return error.detail
        return ""

    return make
