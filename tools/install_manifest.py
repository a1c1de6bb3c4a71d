"""Write deploy/install.yaml, the operator for those who do without Helm; `--check` compares only.

It is what the charts say with their default values. Helm is taken from the path, or from where the
tests have theirs.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parent.parent
MANIFEST = ROOT / "deploy" / "install.yaml"
NAMESPACE = "awa"
OF_HELM = ("app.kubernetes.io/managed-by", "helm.sh/chart")

HEAD = """\
# Written by `python tools/install_manifest.py` from the charts. Change those, not this file.
#
# The operator in the namespace `awa`, serving the Queues of that namespace. For other namespaces,
# replicas or registries use the chart: helm upgrade --install awa charts/awa --namespace NAMESPACE
"""


def manifest() -> str:
    """Return the whole file."""
    definition = yaml.safe_load((ROOT / "crds" / "queue.yaml").read_text(encoding="utf-8"))
    namespace = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {
            "name": NAMESPACE,
            "labels": {"pod-security.kubernetes.io/enforce": "restricted"},
        },
    }
    documents = [definition, namespace, *_operator()]
    return HEAD + "".join(
        "---\n" + yaml.safe_dump(document, sort_keys=False, width=100) for document in documents
    )


def _operator() -> list[dict[str, Any]]:
    """Return the objects of the chart, without the marks by which Helm knows its own."""
    command = [find_helm(), "template", "awa", str(ROOT / "charts" / "awa"), "--no-hooks"]
    done = subprocess.run(
        [*command, "--namespace", NAMESPACE], capture_output=True, text=True, check=True
    )
    objects = [made for made in yaml.safe_load_all(done.stdout) if made]
    for made in objects:
        _unmark(made["metadata"])
        if made["kind"] == "Deployment":
            _unmark(made["spec"]["template"]["metadata"])
    return objects


def _unmark(metadata: dict[str, Any]) -> None:
    for label in OF_HELM:
        metadata["labels"].pop(label, None)


def find_helm() -> str:
    """Return the program."""
    if found := shutil.which(os.environ.get("HELM", "helm")):
        return found
    ask = "from cluster.builds import client_tools; print(client_tools() / 'helm')"
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "tests")}
    command = [sys.executable, "-c", ask]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout.strip()


def main(arguments: list[str]) -> int:
    """Write the file, or say whether it is stale."""
    text = manifest()
    if "--check" in arguments:
        if MANIFEST.exists() and MANIFEST.read_text(encoding="utf-8") == text:
            return 0
        print(f"{MANIFEST.name} is stale: run python tools/install_manifest.py", file=sys.stderr)
        return 1
    MANIFEST.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
