"""The command lines of a node's parts, in the order in which they are started."""

from pathlib import Path

from cluster.builds import Binaries
from cluster.settings import KUBERNETES_ADDRESS, NODE_NAME, SERVICE_NETWORK, NodeFiles

API_SERVER = "kube-apiserver"
CONTROLLER_MANAGER = "kube-controller-manager"
SCHEDULER = "kube-scheduler"
KUBELET = "kubelet"
PROXY = "kube-proxy"
ETCD = "etcd"
CONTAINERD = "containerd"


def command_lines(files: NodeFiles, programs: Binaries) -> dict[str, list[str]]:
    """Return what each part is started with, by its name."""
    kubernetes = programs.kubernetes
    return {
        CONTAINERD: [
            f"{programs.containerd}/containerd", "--config", f"{files.folder}/containerd.toml",
        ],
        ETCD: _etcd(files.folder, programs.etcd),
        API_SERVER: [f"{kubernetes}/kube-apiserver", *_api_server(files)],
        CONTROLLER_MANAGER: [
            f"{kubernetes}/kube-controller-manager",
            f"--kubeconfig={files.kubeconfig('controller-manager')}",
            "--use-service-account-credentials", "--leader-elect=false", "--profiling=false",
            f"--root-ca-file={files.folder}/ca.crt",
            f"--service-account-private-key-file={files.folder}/sa.key",
            f"--cert-dir={files.folder}/controller-manager",
        ],
        SCHEDULER: [
            f"{kubernetes}/kube-scheduler", f"--kubeconfig={files.kubeconfig('scheduler')}",
            f"--authentication-kubeconfig={files.kubeconfig('scheduler')}",
            f"--authorization-kubeconfig={files.kubeconfig('scheduler')}",
            "--leader-elect=false", "--profiling=false", f"--cert-dir={files.folder}/scheduler",
        ],
        KUBELET: [
            f"{kubernetes}/kubelet", f"--config={files.folder}/kubelet.yaml",
            f"--kubeconfig={files.kubeconfig('node')}", f"--hostname-override={NODE_NAME}",
            f"--node-ip={files.place.node_address}", f"--root-dir={files.folder}/kubelet",
            f"--cert-dir={files.folder}/kubelet-certificates",
        ],
        # A limit of connections belongs to the whole machine, so it stays as it is.
        PROXY: [
            f"{kubernetes}/kube-proxy", f"--kubeconfig={files.kubeconfig('proxy')}",
            f"--hostname-override={NODE_NAME}", "--proxy-mode=nftables",
            f"--cluster-cidr={files.place.pod_network}", "--conntrack-max-per-core=0",
            "--conntrack-tcp-timeout-established=0s", "--conntrack-tcp-timeout-close-wait=0s",
        ],
    }  # fmt: skip


def _etcd(folder: Path, programs: Path) -> list[str]:
    return [
        f"{programs}/etcd", f"--data-dir={folder}/etcd", "--unsafe-no-fsync",
        "--listen-client-urls=http://127.0.0.1:2379", "--log-level=warn",
        "--advertise-client-urls=http://127.0.0.1:2379",
        "--listen-peer-urls=http://127.0.0.1:2380",
    ]  # fmt: skip


def _api_server(files: NodeFiles) -> list[str]:
    folder, address = files.folder, files.place.node_address
    return [
        f"--bind-address={address}", "--secure-port=6443", f"--advertise-address={address}",
        "--etcd-servers=http://127.0.0.1:2379", "--allow-privileged", "--profiling=false",
        "--authorization-mode=Node,RBAC", f"--token-auth-file={folder}/tokens.csv",
        "--enable-admission-plugins=NodeRestriction",
        f"--client-ca-file={folder}/ca.crt", f"--tls-cert-file={folder}/apiserver.crt",
        f"--tls-private-key-file={folder}/apiserver.key",
        f"--kubelet-client-certificate={folder}/kubelet-client.crt",
        f"--kubelet-client-key={folder}/kubelet-client.key",
        "--kubelet-preferred-address-types=InternalIP",
        f"--service-account-issuer=https://{KUBERNETES_ADDRESS}",
        f"--service-account-signing-key-file={folder}/sa.key",
        f"--service-account-key-file={folder}/sa.pub",
        f"--service-cluster-ip-range={SERVICE_NETWORK}",
        f"--audit-policy-file={folder}/audit.yaml", f"--audit-log-path={files.audit_log}",
        f"--cert-dir={folder}/apiserver",
    ]  # fmt: skip
