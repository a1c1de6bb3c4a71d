"""The chart's test: wait until the operator has looked at a Queue, and say what it found.

python await_queue.py NAMESPACE NAME SECONDS

Needs nothing but the service account of the pod that it runs in.
"""

import json
import os
import ssl
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


def main(namespace: str, name: str, seconds: float) -> int:
    """Return 0 once every condition speaks of the Queue as it is, 1 when time is up."""
    deadline = time.monotonic() + seconds
    found: dict[str, Any] = {}
    while (left := deadline - time.monotonic()) > 0:
        for found in watched(namespace, name, left):
            if is_observed(found):
                sys.stdout.write("\n".join(told(found)) + "\n")
                return 0
    sys.stdout.write(f"the operator has not looked at the Queue {name} in {seconds:g} s\n")
    sys.stdout.write(("\n".join(told(found)) or "it has no conditions") + "\n")
    return 1


def watched(namespace: str, name: str, seconds: float) -> Iterator[dict[str, Any]]:
    """Yield the Queue as it is and each time it changes, for at most some seconds."""
    query = f"watch=1&fieldSelector=metadata.name%3D{name}&timeoutSeconds={max(int(seconds), 1)}"
    url = f"{address()}/apis/awa.dev/v1alpha1/namespaces/{namespace}/queues?{query}"
    token = (ACCOUNT / "token").read_text(encoding="utf-8")
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"})  # noqa: S310
    trusted = ssl.create_default_context(cafile=str(ACCOUNT / "ca.crt"))
    # Authorities of running clusters often lack extensions that Python asks for since 3.13.
    trusted.verify_flags &= ~ssl.VERIFY_X509_STRICT
    limit = seconds + 5
    with urllib.request.urlopen(request, context=trusted, timeout=limit) as answer:  # noqa: S310
        for line in answer:
            yield json.loads(line)["object"]


def address() -> str:
    """Return where the API server is: as Kubernetes tells every pod."""
    host = os.environ["KUBERNETES_SERVICE_HOST"]
    port = os.environ.get("KUBERNETES_SERVICE_PORT", "443")
    return f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"


def is_observed(queue: dict[str, Any]) -> bool:
    """Return whether the conditions are there and speak of the current spec."""
    generation = queue["metadata"]["generation"]
    found = queue.get("status", {}).get("conditions", [])
    return bool(found) and all(
        condition.get("observedGeneration") == generation for condition in found
    )


def told(queue: dict[str, Any]) -> list[str]:
    """Return one line for each condition."""
    return [
        f"{condition['type']}={condition['status']} {condition['reason']}: {condition['message']}"
        for condition in queue.get("status", {}).get("conditions", [])
    ]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], float(sys.argv[3])))
