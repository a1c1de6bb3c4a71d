"""A running cluster as tests and the demo use it: kubectl, helm, faults, images, what was asked."""

import base64
import functools
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import yaml

from cluster.builds import CLIENTS, client_tools
from cluster.commands import LIMIT, run
from cluster.errors import ClusterError
from cluster.faults import Part, Warden
from cluster.rest import ApiServer, Change, Question
from cluster.settings import kubeconfig

TOKEN_LIFE = timedelta(hours=4)

type Manifest = str | Mapping[str, Any] | Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Facts:
    """What has to be known of a cluster; travels between processes as JSON.

    `source` is given, kind or node. `host_address` is this machine as pods see it. `folder` is that
    of our node, `load` the command that gives another cluster an image archive.
    """

    source: str
    kubeconfig: str
    host_address: str
    folder: str = ""
    load: tuple[str, ...] = ()
    name: str = ""


@dataclass(frozen=True, slots=True)
class Cluster:
    """A cluster that runs. `home` is a folder for what kubectl and helm remember.

    `clients` is the requirement of the wheel that they are from.
    """

    facts: Facts
    home: Path
    clients: Path = CLIENTS

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig file."""
        return Path(self.facts.kubeconfig)

    @property
    def host_address(self) -> str:
        """This machine, as pods reach it."""
        return self.facts.host_address

    @property
    def server(self) -> str:
        """Address of the API server."""
        config = yaml.safe_load(self.kubeconfig.read_text())
        address: str = config["clusters"][0]["cluster"]["server"]
        return address

    def kubectl(
        self, *words: str | Path, stdin: str | None = None, limit: timedelta = LIMIT
    ) -> str:
        """Run kubectl as a user would type it; return what it prints. Raises CommandFailed."""
        return self._run("kubectl", words, stdin, limit)

    def helm(self, *words: str | Path, stdin: str | None = None, limit: timedelta = LIMIT) -> str:
        """Run helm as a user would type it; return what it prints. Raises CommandFailed."""
        return self._run("helm", words, stdin, limit)

    def get(self, *words: str) -> Any:
        """Return what `kubectl get … -o json` says, e.g. `get("pods", "-n", "x")["items"]`.

        Raises CommandFailed as kubectl does: it is what answers when there is anything unusual.
        """
        found = self._read(words)[1]
        return found or json.loads(self.kubectl("get", *words, "-o", "json"))

    def find(self, *words: str) -> Any:
        """Return the object that `get` returns, None when there is none."""
        code, found = self._read(words)
        if found or code == 404:
            return found
        said = self.kubectl("get", *words, "-o", "json", "--ignore-not-found")
        return json.loads(said) if said.strip() else None

    def apply(self, manifest: Manifest, *words: str) -> str:
        """`kubectl apply -f -` a manifest: text, an object, or several."""
        return self.kubectl("apply", *words, "-f", "-", stdin=_text(manifest))

    def put(self, manifest: Mapping[str, Any], namespace: str = "") -> None:
        """Make an object so, by server-side apply. Raises CommandFailed, as what follows does."""
        if not self._tell(Change.applied(manifest), namespace):
            words = ("--server-side", "--force-conflicts", "--field-manager=tests")
            self.apply(manifest, *_within(namespace), *words)

    def patch(
        self,
        kind: str,
        name: str,
        body: Mapping[str, Any],
        namespace: str = "",
        subresource: str = "",
    ) -> None:
        """Change fields of an object of a built-in kind."""
        if not self._tell(Change.patched(kind, name, body, subresource), namespace):
            words = (f"{kind}/{name}", *((f"--subresource={subresource}",) if subresource else ()))
            self.kubectl(*_within(namespace), "patch", *words, "-p", json.dumps(body))

    def delete(self, kind: str, name: str, namespace: str = "") -> None:
        """Delete an object; nobody waits until it is gone."""
        if not self._tell(Change.deleted(kind, name), namespace):
            self.kubectl(*_within(namespace), "delete", f"{kind}/{name}", "--wait=false")

    def part(self, name: str) -> Part:
        """Return a part of the node, such as `kube-apiserver`, to do things to."""
        return Part(name, self._warden)

    @contextmanager
    def cut_off(self) -> Iterator[None]:
        """Have the node cut off from this machine for a while: nobody here reaches the API."""
        self._warden.ask("cut")
        try:
            yield
        finally:
            self._warden.ask("mend")

    def load(self, archive: Path) -> None:
        """Give the cluster the images of an archive (as `docker save` writes them)."""
        if self.facts.folder:
            self._warden.ask("load", path=str(archive))
            return
        if not self.facts.load:
            raise ClusterError("set AWA_TEST_LOAD_IMAGE, e.g. to 'minikube image load {archive}'")
        run(*(word.replace("{archive}", str(archive)) for word in self.facts.load))

    def tag(self, image: str, name: str) -> None:
        """Give an image that was loaded one more name."""
        self._warden.ask("tag", path=image, part=name)

    def audit(self, user: str = "") -> list[dict[str, Any]]:
        """Return what was asked of the API server so far, by users whose name contains `user`.

        Each is an audit event with at least `verb`, `user`, `stage`, `requestReceivedTimestamp`,
        and mostly `objectRef`, `responseStatus`.
        """
        if not self.facts.folder:
            raise ClusterError("only a node of our own shows what its API server was asked")
        found = []
        for line in (Path(self.facts.folder) / "audit.log").read_text().splitlines():
            event: dict[str, Any] = json.loads(line)
            if user in event["user"].get("username", ""):
                found.append(event)
        return found

    def kubeconfig_of(
        self, namespace: str, service_account: str, file: Path, *, server: str | None = None
    ) -> Path:
        """Write a kubeconfig of a service account, to run as it outside; return `file`.

        `server` is another address for the API server, e.g. that of a proxy on 127.0.0.1.
        """
        asked = Change.of_token(service_account, TOKEN_LIFE)
        answer = self._tell(asked, namespace)
        if answer:
            token = answer["status"]["token"]
        else:
            life = f"--duration={TOKEN_LIFE.total_seconds():.0f}s"
            token = self.kubectl("create", "token", service_account, "-n", namespace, life)
        authority = file.with_suffix(".ca.crt")
        authority.write_bytes(_authority_of(self))
        config = kubeconfig(server or self.server, authority, token.strip(), namespace)
        file.write_text(yaml.safe_dump(config))
        return file

    def environment(self) -> dict[str, str]:
        """Return the variables with which kubectl and helm find this cluster and nothing else."""
        return {
            "KUBECONFIG": str(self.kubeconfig),
            "KUBECACHEDIR": f"{self.home}/kube",
            "HELM_CACHE_HOME": f"{self.home}/helm/cache",
            "HELM_CONFIG_HOME": f"{self.home}/helm/config",
            "HELM_DATA_HOME": f"{self.home}/helm/data",
            "PATH": f"{client_tools()}:{os.environ['PATH']}",
        }

    @property
    def _warden(self) -> Warden:
        if not self.facts.folder:
            raise ClusterError(
                f"this needs a node of our own, not a cluster of {self.facts.source}"
            )
        return Warden(Path(self.facts.folder))

    def _tell(self, change: Change, namespace: str) -> Any:
        """Return the API server's answer; None if it refused, and kubectl is to say why."""
        if self.facts.source != "node":
            return None
        return ApiServer.of(self.kubeconfig).change(change, namespace)[1]

    def _read(self, words: tuple[str, ...]) -> tuple[int, Any]:
        """Return code and what was found; 0 and None for what has to be left to kubectl."""
        question = Question.of(words) if self.facts.source == "node" else None
        return ApiServer.of(self.kubeconfig).read(question) if question else (0, None)

    def _run(
        self, program: str, words: Sequence[str | Path], stdin: str | None, limit: timedelta
    ) -> str:
        command = (client_tools(self.clients) / program, *words)
        return run(*command, stdin=stdin, limit=limit, env=self.environment())


@dataclass(frozen=True, slots=True)
class Namespace:
    """A namespace of one test, with pod security `restricted` enforced."""

    cluster: Cluster
    name: str

    def kubectl(
        self, *words: str | Path, stdin: str | None = None, limit: timedelta = LIMIT
    ) -> str:
        """Run kubectl in the namespace."""
        return self.cluster.kubectl("-n", self.name, *words, stdin=stdin, limit=limit)

    def helm(self, *words: str | Path, stdin: str | None = None, limit: timedelta = LIMIT) -> str:
        """Run helm in the namespace."""
        return self.cluster.helm("-n", self.name, *words, stdin=stdin, limit=limit)

    def get(self, *words: str) -> Any:
        """Return what `kubectl get … -o json` says."""
        return self.cluster.get("-n", self.name, *words)

    def find(self, *words: str) -> Any:
        """Return the object that `get` returns, None when there is none."""
        return self.cluster.find("-n", self.name, *words)

    def apply(self, manifest: Manifest) -> str:
        """`kubectl apply` a manifest: text, an object, or several."""
        return self.cluster.apply(manifest, "-n", self.name)

    def put(self, manifest: Mapping[str, Any]) -> None:
        """Make an object so, by server-side apply."""
        self.cluster.put(manifest, self.name)

    def patch(self, kind: str, name: str, body: Mapping[str, Any], subresource: str = "") -> None:
        """Change fields of an object of a built-in kind."""
        self.cluster.patch(kind, name, body, self.name, subresource)

    def delete(self, kind: str, name: str) -> None:
        """Delete an object; nobody waits until it is gone."""
        self.cluster.delete(kind, name, self.name)

    def wait(self, what: str, condition: str, limit: timedelta = LIMIT) -> None:
        """`kubectl wait`: `wait("deployment/x", "condition=Available")`. Raises CommandFailed."""
        seconds = int(limit.total_seconds())
        words = (what, f"--for={condition}", f"--timeout={seconds}s")
        self.kubectl("wait", *words, limit=limit + timedelta(seconds=30))


def _within(namespace: str) -> tuple[str, ...]:
    return ("-n", namespace) if namespace else ()


def _text(manifest: Manifest) -> str:
    if isinstance(manifest, str):
        return manifest
    if isinstance(manifest, Mapping):
        return json.dumps(manifest)
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": list(manifest)})


@functools.cache
def _authority_of(cluster: Cluster) -> bytes:
    raw = ("--raw", "--minify", "--flatten", "-o", "jsonpath={.clusters[0].cluster}")
    found = json.loads(cluster.kubectl("config", "view", *raw))
    return base64.b64decode(found["certificate-authority-data"])
