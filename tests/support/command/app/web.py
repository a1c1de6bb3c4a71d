"""A web application whose client was used before the server forked its processes."""

import os
from collections.abc import Callable, Iterable
from typing import Any

from awa import Client

client = Client()
client.insert({"key": "/import"}, kind="web")


def app(request: dict[str, Any], respond: Callable[..., object]) -> Iterable[bytes]:
    """Enqueue a job with the path as its key; answer with the process that has done it."""
    client.insert({"key": request["PATH_INFO"]}, kind="web")
    respond("200 OK", [("Content-Type", "text/plain")])
    return [str(os.getpid()).encode()]
