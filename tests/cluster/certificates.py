"""Keys and certificates of a cluster, made with the openssl command.

Python refuses chains whose authority does not say what it may do and which key it has, so key
usage and key identifiers are spelled out.
"""

import secrets
from pathlib import Path

from cluster.commands import run

DAYS = "7"
KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", DAYS)

EXTENSIONS = """
[req]
distinguished_name = name
[name]
[authority]
basicConstraints = critical, CA:TRUE
keyUsage = critical, keyCertSign, cRLSign, digitalSignature
subjectKeyIdentifier = hash
authorityKeyIdentifier = keyid:always
[server]
basicConstraints = critical, CA:FALSE
keyUsage = critical, digitalSignature
extendedKeyUsage = serverAuth
subjectKeyIdentifier = hash
authorityKeyIdentifier = keyid:always
subjectAltName = {names}
[client]
basicConstraints = critical, CA:FALSE
keyUsage = critical, digitalSignature
extendedKeyUsage = clientAuth
subjectKeyIdentifier = hash
authorityKeyIdentifier = keyid:always
"""


def make_certificates(folder: Path, addresses: list[str]) -> None:
    """Write the authority, the API server's and its kubelet client's pair, and the key of tokens.

    `addresses` are those under which the API server is reached, besides its names in the cluster.
    """
    names = ["localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"]
    listed = [f"DNS:{name}" for name in names] + [f"IP:{address}" for address in addresses]
    config = folder / "openssl.cnf"
    config.write_text(EXTENSIONS.format(names=", ".join(listed)))
    authority = ("-CA", folder / "ca.crt", "-CAkey", folder / "ca.key")
    for name, subject, section in (
        ("ca", "/CN=awa-test-cluster", "authority"),
        ("apiserver", "/CN=kube-apiserver", "server"),
        ("kubelet-client", "/O=system:masters/CN=kube-apiserver-kubelet-client", "client"),
    ):
        run(
            "openssl", "req", "-x509", "-new", *KEY, "-subj", subject, "-config", config,
            "-extensions", section, "-set_serial", f"0x{secrets.token_hex(15)}",
            *(authority if name != "ca" else ()),
            "-keyout", folder / f"{name}.key", "-out", folder / f"{name}.crt",
        )  # fmt: skip
    run("openssl", "ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", folder / "sa.key")
    run("openssl", "ec", "-in", folder / "sa.key", "-pubout", "-out", folder / "sa.pub")
