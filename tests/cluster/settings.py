"""What the parts of a node are told: their files and command lines."""

import json
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from cluster.place import CGROUPS, Place

NODE_NAME = "node1"
SERVICE_NETWORK = "10.96.0.0/24"
KUBERNETES_ADDRESS = "10.96.0.1"
API_PORT = 6443
PAUSE_IMAGE = "awa.test/pause:1"
NETWORK_PLUGINS = Path("/usr/lib/cni")

# Who may speak to the API server, and as whom.
USERS = {
    "admin": ("admin", "system:masters"),
    "node": (f"system:node:{NODE_NAME}", "system:nodes"),
    "controller-manager": ("system:kube-controller-manager", ""),
    "scheduler": ("system:kube-scheduler", ""),
    "proxy": ("system:kube-proxy", ""),
}

CONTAINERD = """
version = 3
root = "{folder}/containerd/root"
state = "{folder}/containerd/state"
disabled_plugins = ["io.containerd.internal.v1.opt", "io.containerd.nri.v1.nri"]

[grpc]
address = "{folder}/containerd.sock"

[ttrpc]
address = "{folder}/containerd.sock.ttrpc"

[plugins."io.containerd.cri.v1.images".pinned_images]
sandbox = "{pause}"

[plugins."io.containerd.cri.v1.runtime"]
disable_apparmor = true
restrict_oom_score_adj = true

[plugins."io.containerd.cri.v1.runtime".cni]
bin_dirs = ["{plugins}"]
conf_dir = "{folder}/network"

[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"

[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
SystemdCgroup = false
"""


@dataclass(frozen=True, slots=True)
class NodeFiles:
    """The files of one node, under its place's folder."""

    place: Place

    @property
    def folder(self) -> Path:
        """The folder of everything."""
        return self.place.folder

    @property
    def server(self) -> str:
        """The API server's address."""
        return f"https://{self.place.node_address}:{API_PORT}"

    @property
    def containerd_socket(self) -> Path:
        """Where containerd listens."""
        return self.folder / "containerd.sock"

    @property
    def audit_log(self) -> Path:
        """What was asked of the API server: one JSON object a line."""
        return self.folder / "audit.log"

    def kubeconfig(self, user: str) -> Path:
        """Return the file with which a user of `USERS` speaks to the API server."""
        return self.folder / f"{user}.kubeconfig"

    def write(self) -> None:
        """Write all of them, with new secrets."""
        self._write_users()
        _write(self.folder / "audit.yaml", _audit_policy())
        _write(self.folder / "kubelet.yaml", self._kubelet())
        (self.folder / "resolv.conf").write_text("")
        (self.folder / "network").mkdir()
        network = json.dumps(_network(self.place, self.folder), indent=1)
        (self.folder / "network" / "pods.conflist").write_text(network)
        (self.folder / "containerd.toml").write_text(
            CONTAINERD.format(folder=self.folder, pause=PAUSE_IMAGE, plugins=NETWORK_PLUGINS)
        )

    def _write_users(self) -> None:
        lines = []
        for user, (name, groups) in USERS.items():
            token = secrets.token_hex(16)
            lines.append(f'{token},{name},{user},"{groups}"\n')
            authority = self.folder / "ca.crt"
            _write(self.kubeconfig(user), kubeconfig(self.server, authority, token))
        (self.folder / "tokens.csv").write_text("".join(lines))

    def _kubelet(self) -> dict[str, Any]:
        folder = self.folder
        return {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "authentication": {
                "anonymous": {"enabled": False},
                "webhook": {"enabled": True},
                "x509": {"clientCAFile": f"{folder}/ca.crt"},
            },
            "authorization": {"mode": "Webhook"},
            "cgroupDriver": "cgroupfs",
            "cgroupRoot": f"/{self.place.name}",
            "failCgroupV1": False,
            "failSwapOn": False,
            "oomScoreAdj": 0,
            "containerRuntimeEndpoint": f"unix://{self.containerd_socket}",
            "resolvConf": f"{folder}/resolv.conf",
            "podLogsDir": f"{folder}/pod-logs",
            "volumePluginDir": f"{folder}/volume-plugins",
            "serializeImagePulls": False,
            # Room is what the machine has; images come from here and would not come again.
            "evictionHard": {
                "memory.available": "50Mi", "nodefs.available": "1%",
                "nodefs.inodesFree": "1%", "imagefs.available": "1%",
            },
            "imageGCHighThresholdPercent": 99,
            "imageGCLowThresholdPercent": 98,
        }  # fmt: skip


def kubeconfig(
    server: str, authority: Path, token: str, namespace: str = "default"
) -> dict[str, Any]:
    """Return a configuration for kubectl and its like: a server, whom to believe, who asks."""
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "test",
        "clusters": [
            {
                "name": "test",
                "cluster": {"server": server, "certificate-authority": str(authority)},
            }
        ],
        "users": [{"name": "test", "user": {"token": token}}],
        "contexts": [
            {"name": "test", "context": {"cluster": "test", "user": "test", "namespace": namespace}}
        ],
    }


def _audit_policy() -> dict[str, Any]:
    return {
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        # The start of an answer is kept: a watch may not have ended when somebody looks.
        "omitStages": ["RequestReceived"],
        "rules": [
            {"level": "None", "userGroups": ["system:nodes", "system:serviceaccounts:kube-system"]},
            {"level": "None", "users": [name for name, _ in USERS.values() if "kube-" in name]},
            {"level": "None", "users": ["system:apiserver"]},
            {"level": "Metadata"},
        ],
    }


def _network(place: Place, folder: Path) -> dict[str, Any]:
    return {
        "cniVersion": "1.0.0",
        "name": "pods",
        "plugins": [
            {
                "type": "bridge",
                "bridge": "pods0",
                "isGateway": True,
                "ipMasq": True,
                "hairpinMode": True,
                "ipam": {
                    "type": "host-local",
                    "ranges": [[{"subnet": place.pod_network}]],
                    "routes": [{"dst": "0.0.0.0/0"}],
                    "dataDir": f"{folder}/addresses",
                },
            },
            {"type": "portmap", "capabilities": {"portMappings": True}},
        ],
    }


def is_cgroup_v2() -> bool:
    """Whether this machine has one cgroup hierarchy instead of one for each controller."""
    return (CGROUPS / "cgroup.controllers").exists()


def _write(path: Path, content: dict[str, Any]) -> None:
    path.write_text(yaml.safe_dump(content, sort_keys=False))
