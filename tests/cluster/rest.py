"""What tests ask and tell the API server itself, over connections that are kept.

A kubectl takes a process. Tests wait by asking again and again, several times a second, and the
same few objects are made for each of them; as processes, that was most of what a run on a cluster
cost.
"""

import functools
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode

import urllib3
import yaml

ANSWER_SECONDS = 5.0
DISCOVERY = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


class Question(NamedTuple):
    """What `kubectl get` is asked for in the usual words; no namespace is all of them."""

    kind: str
    name: str
    namespace: str
    filters: dict[str, str]

    @classmethod
    def of(cls, words: tuple[str, ...]) -> "Question | None":
        """Read the words after `kubectl get`; None for those that kubectl alone understands."""
        options = {"-n": "", "-l": "", "--field-selector": ""}
        plain: list[str] = []
        everywhere = False
        given = iter(words)
        for word in given:
            option, _, value = word.partition("=")
            if word == "-A":
                everywhere = True
            elif word in options:
                options[word] = next(given)
            elif option in options:
                options[option] = value
            else:
                plain += word.split("/")
        if not 1 <= len(plain) <= 2 or any(word.startswith("-") or "," in word for word in plain):
            return None
        asked = {"labelSelector": options["-l"], "fieldSelector": options["--field-selector"]}
        filters = {key: value for key, value in asked.items() if value}
        namespace = "" if everywhere else options["-n"] or "default"
        return cls(plain[0], "".join(plain[1:]), namespace, filters)


class Change(NamedTuple):
    """One request that changes an object; `rest` is what follows its path."""

    method: str
    kind: str
    name: str
    rest: str = ""
    body: Mapping[str, Any] = {}
    content: str = "application/json"

    @classmethod
    def applied(cls, manifest: Mapping[str, Any]) -> "Change":
        """Make an object so, whoever else has set its fields."""
        options = "?fieldManager=tests&force=true&fieldValidation=Strict"
        content = "application/apply-patch+yaml"
        kind, name = manifest["kind"].lower(), manifest["metadata"]["name"]
        return cls("PATCH", kind, name, options, manifest, content)

    @classmethod
    def patched(
        cls, kind: str, name: str, body: Mapping[str, Any], subresource: str = ""
    ) -> "Change":
        """Change fields of an object of a built-in kind."""
        rest = f"/{subresource}" if subresource else ""
        return cls("PATCH", kind, name, rest, body, "application/strategic-merge-patch+json")

    @classmethod
    def deleted(cls, kind: str, name: str) -> "Change":
        """Delete an object, what hangs on it afterwards; nobody waits."""
        return cls("DELETE", kind, name, "?propagationPolicy=Background")

    @classmethod
    def of_token(cls, service_account: str, life: timedelta) -> "Change":
        """Ask for a token of a service account."""
        body = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": int(life.total_seconds())},
        }
        return cls("POST", "serviceaccounts", service_account, "/token", body)


@dataclass(frozen=True, slots=True)
class Kind:
    """Where objects of a kind are."""

    path: str
    resource: str
    api_version: str
    kind: str
    is_namespaced: bool


class ApiServer:
    """An API server and who asks: by a token."""

    def __init__(self, server: str, token: str, authority: Path) -> None:
        self._server = server
        self._kinds: dict[str, Kind] = {}
        self._pool = urllib3.PoolManager(
            maxsize=10, retries=False, timeout=ANSWER_SECONDS, ca_certs=str(authority),
            headers={"Authorization": f"Bearer {token}"},
        )  # fmt: skip

    @classmethod
    def of(cls, kubeconfig: Path) -> "ApiServer":
        """Return what a kubeconfig file of our own node says."""
        return _of(kubeconfig, kubeconfig.stat().st_mtime_ns)

    def ask(self, path: str, accept: str = "application/json") -> tuple[int, bytes]:
        """Return code and body; 0 when there is no answer."""
        return self._send("GET", path, {"Accept": accept})

    def read(self, question: Question) -> tuple[int, Any]:
        """Return code and object, or a list of objects like that of kubectl.

        The code is 0 when there is no answer, or the kind goes by no name that the server tells.
        """
        kind = self._kind(question.kind)
        if kind is None:
            return 0, None
        is_within = kind.is_namespaced and question.namespace
        where = f"namespaces/{question.namespace}/" if is_within else ""
        name = f"/{question.name}" if question.name else ""
        filters = f"?{urlencode(question.filters)}" if question.filters else ""
        code, body = self.ask(f"{kind.path}/{where}{kind.resource}{name}{filters}")
        if code != 200:
            return code, None
        found: dict[str, Any] = json.loads(body)
        if not question.name:
            named = {"apiVersion": kind.api_version, "kind": kind.kind}
            found["items"] = [{**named, **one} for one in found["items"]]
        return code, found

    def change(self, change: "Change", namespace: str) -> tuple[int, Any]:
        """Change an object; return code and answer, code 0 as `read` does."""
        kind = self._kind(change.kind)
        if kind is None:
            return 0, None
        where = f"namespaces/{namespace}/" if kind.is_namespaced else ""
        name = f"/{change.name}" if change.name else ""
        path = f"{kind.path}/{where}{kind.resource}{name}{change.rest}"
        headers = {"Content-Type": change.content}
        code, body = self._send(change.method, path, headers, json.dumps(change.body))
        return code, json.loads(body) if code in {200, 201, 202} else None

    def is_ready(self) -> bool:
        """Whether the API server says that it is."""
        return self.ask("/readyz")[0] == 200

    def is_node_ready(self, name: str) -> bool:
        """Whether a node exists and is Ready."""
        code, body = self.ask(f"/api/v1/nodes/{name}")
        if code != 200:
            return False
        conditions = json.loads(body).get("status", {}).get("conditions", [])
        return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)

    def has_service_account(self) -> bool:
        """Whether pods can be made in the first namespace: the controllers have begun."""
        return self.ask("/api/v1/namespaces/default/serviceaccounts/default")[0] == 200

    def _send(
        self, method: str, path: str, headers: Mapping[str, str], body: str | None = None
    ) -> tuple[int, bytes]:
        sent = {**self._pool.headers, **headers}
        try:
            answer = self._pool.request(method, f"{self._server}{path}", headers=sent, body=body)
        except urllib3.exceptions.HTTPError:
            return 0, b""
        return answer.status, answer.data

    def _kind(self, name: str) -> Kind | None:
        if name not in self._kinds:
            found: dict[str, Kind] = {}
            for root in ("/api", "/apis"):
                code, body = self.ask(root, DISCOVERY)
                for group in json.loads(body)["items"] if code == 200 else ():
                    for alias, kind in _kinds_of(root, group):
                        found.setdefault(alias, kind)
            self._kinds = found
        return self._kinds.get(name)


def _kinds_of(root: str, group: dict[str, Any]) -> Iterator[tuple[str, Kind]]:
    """Yield the kinds of a group by each name that kubectl takes; preferred versions first."""
    group_name = group["metadata"].get("name", "")
    for version in group["versions"]:
        api_version = "/".join(filter(None, (group_name, version["version"])))
        for each in version.get("resources", ()):
            kind = Kind(
                f"{root}/{api_version}", each["resource"], api_version,
                each["responseKind"]["kind"], each["scope"] == "Namespaced",
            )  # fmt: skip
            plural, singular = each["resource"], each["singularResource"]
            for alias in (plural, singular, *each.get("shortNames", ()), f"{plural}.{group_name}"):
                yield alias, kind


@functools.lru_cache(maxsize=16)
def _of(kubeconfig: Path, _changed: int) -> ApiServer:
    config = yaml.safe_load(kubeconfig.read_text())
    cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
    return ApiServer(cluster["server"], user["token"], Path(cluster["certificate-authority"]))
