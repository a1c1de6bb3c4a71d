"""What Helm makes of our charts, as plain objects."""

import json
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

type Object = dict[str, Any]

ROOT = Path(__file__).resolve().parents[2]
CHART = ROOT / "charts" / "awa"
CRD_CHART = ROOT / "charts" / "awa-crds"
CI_VALUES = sorted((CHART / "ci").glob("*-values.yaml"))
HOOK = "helm.sh/hook"


class ChartRefused(Exception):
    """Helm did not render the chart; the message is what it said."""


@dataclass(frozen=True, slots=True)
class Rendered:
    """The objects of a release, in Helm's order."""

    objects: tuple[Object, ...]

    @property
    def release(self) -> list[Object]:
        """What is installed."""
        return [made for made in self.objects if HOOK not in annotations_of(made)]

    @property
    def hooks(self) -> list[Object]:
        """What runs at certain moments only."""
        return [made for made in self.objects if HOOK in annotations_of(made)]

    def of(self, kind: str) -> list[Object]:
        """Return the installed objects of a kind."""
        return [made for made in self.release if made["kind"] == kind]

    def one(self, kind: str, name: str | None = None) -> Object:
        """Return the only installed object of a kind, or the one of that name."""
        found = [made for made in self.of(kind) if name in (None, made["metadata"]["name"])]
        assert len(found) == 1, (kind, name, len(found))
        return found[0]

    def pods(self) -> Iterator[tuple[str, Object]]:
        """Yield the name and the spec of every pod and pod template, hooks included."""
        for made in self.objects:
            name = f"{made['kind']}/{made['metadata']['name']}"
            if made["kind"] == "Pod":
                yield name, made["spec"]
            elif "template" in made.get("spec", {}):
                yield name, made["spec"]["template"]["spec"]


def annotations_of(made: Object) -> Mapping[str, str]:
    """Return the annotations of an object."""
    found: Mapping[str, str] = made["metadata"].get("annotations") or {}
    return found


@dataclass(frozen=True, slots=True)
class Helm:
    """The program, on one chart at a time and without a cluster."""

    program: Path
    folder: Path

    def template(
        self,
        values: Mapping[str, Any] | Path | None = None,
        *,
        release: str = "awa",
        namespace: str = "jobs",
        options: tuple[str, ...] = (),
    ) -> Rendered:
        """Return what the operator's chart makes of values. Raises ChartRefused."""
        command = ["template", release, str(CHART), "--namespace", namespace, *options]
        text = self.run(*command, *self._values(values))
        return Rendered(tuple(made for made in yaml.safe_load_all(text) if made))

    def lint(self, chart: Path, values: Path | None = None) -> str:
        """Return what lint says; a warning counts as an error. Raises ChartRefused."""
        return self.run("lint", "--strict", str(chart), *self._values(values))

    def run(self, *arguments: str) -> str:
        """Return what Helm prints. Raises ChartRefused."""
        done = subprocess.run(
            [self.program, *arguments], capture_output=True, text=True, timeout=60, check=False
        )
        if done.returncode:
            raise ChartRefused(f"{done.stdout}\n{done.stderr}")
        return done.stdout

    def _values(self, values: Mapping[str, Any] | Path | None) -> list[str]:
        if values is None:
            return []
        if isinstance(values, Path):
            return ["--values", str(values)]
        file = self.folder / "values.json"
        file.write_text(json.dumps(values))
        return ["--values", str(file)]
