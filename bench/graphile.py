"""The queue to compare with: graphile-worker, in its fastest documented settings."""

import asyncio
import json
import shutil
import subprocess
from pathlib import Path

from bench.contender import Contender

HOME = Path(__file__).parent / "baseline"
INSTALL_LIMIT_SECONDS = 600


class NoBaselineError(Exception):
    """The baseline cannot run here."""


async def baseline() -> Contender:
    """Return the baseline, after installing its packages where those of its versions are missing.

    Needs npm, and a package registry for the first run. Raises NoBaselineError.
    """
    if not _is_installed():
        await asyncio.to_thread(_install)
    return Contender(
        name="graphile",
        command=(str(_node()), str(HOME / "graphile.mjs")),
        options={
            "concurrentJobs": 100,
            "maxPoolSize": 10,
            "completeJobBatchDelay": 0,
            "localQueue": {"size": 1000},
        },
        batch=1_000,
    )


def _is_installed() -> bool:
    wanted = json.loads((HOME / "package.json").read_text())["dependencies"]
    return all(_installed_version(name) == version for name, version in wanted.items())


def _installed_version(package: str) -> str | None:
    manifest = HOME / "node_modules" / package / "package.json"
    if not manifest.exists():
        return None
    return str(json.loads(manifest.read_text())["version"])


def _install() -> None:
    npm = shutil.which("npm")
    if npm is None:
        raise NoBaselineError(
            "npm is needed to install the baseline: install Node.js, "
            "or measure alone with --contenders awa"
        )
    done = subprocess.run(
        [npm, "install", "--no-package-lock", "--no-audit", "--no-fund", "--loglevel=error"],
        cwd=HOME, check=False, capture_output=True, text=True, timeout=INSTALL_LIMIT_SECONDS,
    )  # fmt: skip
    if done.returncode or not _is_installed():
        raise NoBaselineError(f"npm could not install the baseline:\n{done.stderr[-2000:]}")


def _node() -> Path:
    """Return the Node.js that came with the packages, else the one on the path."""
    for bundled in sorted((HOME / "node_modules").glob("node-linux-*/bin/node")):
        return bundled
    if found := shutil.which("node"):
        return Path(found)
    raise NoBaselineError("no Node.js found")
