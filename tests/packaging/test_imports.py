"""Every module can be imported by itself, needing no more than its distribution asks for."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import packages_distributions, requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
# Dependencies that take long to import.
HEAVY = ("asyncpg", "kopf", "kubernetes", "prometheus_client", "pydantic", "rich", "typer")
IMPORTING = Path(__file__).with_name("importing.py")


def required(distribution: str, seen: set[str] | None = None) -> set[str]:
    """Names of a distribution and of everything it needs, without extras."""
    seen = set() if seen is None else seen
    name = canonicalize_name(distribution)
    if name not in seen:
        seen.add(name)
        for text in requires(name) or []:
            requirement = Requirement(text)
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                required(requirement.name, seen)
    return seen


def modules_of(package: Path) -> Iterator[str]:
    for path in sorted(package.rglob("*.py")):
        parts = path.relative_to(package.parent).with_suffix("").parts
        yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported(distribution: str, modules: list[str], tmp_path: Path) -> str:
    """Import modules with the dependencies of the distribution alone; return what failed."""
    needed = required(distribution)
    available: list[str] = []
    blocked: list[str] = []
    for top, distributions in packages_distributions().items():
        names = {canonicalize_name(name) for name in distributions}
        if re.fullmatch(r"[a-z]\w*", top, re.IGNORECASE):
            (blocked if names.isdisjoint(needed) else available).append(top)
    preload = [name for name in HEAVY if name in available]
    order = {"modules": modules, "blocked": blocked, "preload": preload}
    done = subprocess.run(
        [sys.executable, "-I", IMPORTING, json.dumps(order)],
        cwd=tmp_path, env={}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    return "" if done.returncode == 0 else done.stdout + done.stderr


@pytest.mark.parametrize(
    ("distribution", "package"),
    [
        ("awa-migrations", ROOT / "migrations" / "awa_migrations"),
        ("awa-worker", ROOT / "worker" / "awa"),
        ("awa-operator", ROOT / "operator" / "awa_operator"),
    ],
)
def test_every_module_imports_alone_without_environment_network_or_extras(
    distribution: str, package: Path, tmp_path: Path
) -> None:
    modules = list(modules_of(package))
    assert modules
    assert imported(distribution, modules, tmp_path) == ""


def test_an_import_of_something_that_is_no_dependency_is_noticed(tmp_path: Path) -> None:
    failed = imported("awa-worker", ["pytest", "kopf", "django"], tmp_path)
    assert "No module named 'pytest'" in failed
    assert "No module named 'kopf'" in failed
    assert "No module named 'django'" in failed


def test_what_the_operator_uses_of_the_worker_brings_no_driver_and_no_command_line():
    asked = subprocess.run(
        [sys.executable, "-c",
         "import sys, awa.manifest, awa.scaling;"
         "print(*{'asyncpg', 'prometheus_client', 'rich', 'typer'} & set(sys.modules))"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert asked.stdout.split() == []
