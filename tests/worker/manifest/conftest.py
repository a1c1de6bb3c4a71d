"""Manifests to change one field of, and the text of a complete one."""

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from awa.manifest import ManifestError, Queue, parse_queue

HERE = Path(__file__).parent
type Manifest = dict[str, Any]

SMALLEST: Manifest = {
    "apiVersion": "awa.dev/v1alpha1",
    "kind": "Queue",
    "metadata": {"name": "email"},
    "spec": {
        "database": {"connectionSecretRef": {"name": "app-db"}},
        "worker": {"image": "registry.example/app:1"},
        "migration": {"mode": "External"},
    },
}


def put(manifest: Manifest, path: str, value: Any) -> None:
    *parents, last = path.split(".")
    place = manifest
    for parent in parents:
        place = place.setdefault(parent, {})
    place[last] = value


@pytest.fixture
def manifest() -> Callable[..., Manifest]:
    """The smallest manifest with some fields put in, given as path and value."""

    def make(changes: dict[str, Any] | None = None) -> Manifest:
        made = copy.deepcopy(SMALLEST)
        for path, value in (changes or {}).items():
            put(made, path, value)
        return made

    return make


@pytest.fixture
def queue(manifest) -> Callable[..., Queue]:
    return lambda changes=None: parse_queue(manifest(changes))


@pytest.fixture
def refusal(manifest) -> Callable[..., dict[str, str]]:
    """What is said about a manifest with some fields put in: messages by path."""

    def refuse(changes: dict[str, Any]) -> dict[str, str]:
        with pytest.raises(ManifestError) as caught:
            parse_queue(manifest(changes))
        return {problem.path: problem.message for problem in caught.value.problems}

    return refuse


@pytest.fixture
def complete_text() -> str:
    """A manifest that sets every field of the spec."""
    return (HERE / "complete.yaml").read_text()


@pytest.fixture
def complete(complete_text) -> Manifest:
    manifest: Manifest = yaml.safe_load(complete_text)
    return manifest
