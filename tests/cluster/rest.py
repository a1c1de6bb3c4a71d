"""The few questions that the launcher asks the API server itself, without kubectl."""

import http.client
import json
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

ANSWER_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class ApiServer:
    """An API server and who asks."""

    host: str
    port: int
    token: str
    authority: Path

    @classmethod
    def of(cls, kubeconfig: Path) -> "ApiServer":
        """Return what a kubeconfig file with a token says."""
        config = yaml.safe_load(kubeconfig.read_text())
        cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
        server = urlsplit(cluster["server"])
        authority = Path(cluster["certificate-authority"])
        return cls(server.hostname or "", server.port or 443, user["token"], authority)

    def get(self, path: str) -> tuple[int, bytes]:
        """Return code and body; 0 when there is no answer."""
        context = ssl.create_default_context(cafile=str(self.authority))
        connection = http.client.HTTPSConnection(
            self.host, self.port, timeout=ANSWER_SECONDS, context=context
        )
        try:
            connection.request("GET", path, headers={"Authorization": f"Bearer {self.token}"})
            answer = connection.getresponse()
            return answer.status, answer.read()
        except (OSError, http.client.HTTPException):
            return 0, b""
        finally:
            connection.close()

    def is_ready(self) -> bool:
        """Whether the API server says that it is."""
        return self.get("/readyz")[0] == 200

    def is_node_ready(self, name: str) -> bool:
        """Whether a node exists and is Ready."""
        code, body = self.get(f"/api/v1/nodes/{name}")
        if code != 200:
            return False
        node: dict[str, Any] = json.loads(body)
        conditions = node.get("status", {}).get("conditions", [])
        return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)

    def has_service_account(self) -> bool:
        """Whether pods can be made in the first namespace: the controllers have begun."""
        return self.get("/api/v1/namespaces/default/serviceaccounts/default")[0] == 200
