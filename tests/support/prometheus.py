"""A real Prometheus that scrapes what a test tells it to."""

import json
import shutil
import socket
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import yaml

from support.waiting import eventually_sync

type Labels = Mapping[str, str]
type Points = list[tuple[float, float]]

START_LIMIT = timedelta(seconds=30)
STOP_SECONDS = 20


@dataclass(frozen=True, slots=True)
class Sample:
    """One series of an answer, with its value now."""

    labels: Mapping[str, str]
    value: float


@dataclass(frozen=True, slots=True)
class Prometheus:
    """A running server."""

    port: int
    targets: Path

    def scrape(self, targets: Sequence[Mapping[str, Any]]) -> None:
        """Scrape these from now on: a list as in a file of `file_sd_configs`."""
        waiting = self.targets.with_suffix(".new")
        waiting.write_text(json.dumps(list(targets)))
        waiting.rename(self.targets)

    def query(self, expression: str) -> list[Sample]:
        """Return the answer to a query. Raises AssertionError for one that is wrong."""
        answer = self._get("query", {"query": expression})
        assert answer["resultType"] in {"vector", "scalar"}, answer["resultType"]
        if answer["resultType"] == "scalar":
            return [Sample({}, float(answer["result"][1]))]
        return [Sample(one["metric"], float(one["value"][1])) for one in answer["result"]]

    def history(self, expression: str, start: float, end: float) -> list[tuple[Labels, Points]]:
        """Return the series of a query between two moments, in seconds, a point each second."""
        query = {"query": expression, "start": f"{start}", "end": f"{end}", "step": "1"}
        found = self._get("query_range", query)["result"]
        return [
            (one["metric"], [(float(at), float(value)) for at, value in one["values"]])
            for one in found
        ]

    def firing(self) -> set[tuple[str, str]]:
        """Return the alerts that fire: the name of each, and the Queue or kind it is about."""
        firing = [
            one["labels"] for one in self._get("alerts", {})["alerts"] if one["state"] == "firing"
        ]
        return {
            (labels["alertname"], labels.get("name", labels.get("resource", "")))
            for labels in firing
        }

    def broken_rules(self) -> list[str]:
        """Return what is wrong with rules, after they have been evaluated."""
        rules = [rule for group in self._get("rules", {})["groups"] for rule in group["rules"]]
        assert rules
        return [f"{rule['name']}: {rule['lastError']}" for rule in rules if rule.get("lastError")]

    def unscraped(self) -> list[str]:
        """Return the targets that have not answered, and why."""
        found = self._get("targets", {"state": "active"})["activeTargets"]
        return [f"{one['labels']}: {one['lastError']}" for one in found if one["health"] != "up"]

    def _get(self, what: str, query: Mapping[str, str]) -> dict[str, Any]:
        url = f"http://127.0.0.1:{self.port}/api/v1/{what}?{urllib.parse.urlencode(query)}"
        with urllib.request.urlopen(url, timeout=10) as answer:
            data: dict[str, Any] = json.load(answer)["data"]
        return data


@contextmanager
def running_prometheus(
    folder: Path, rules: Path, authorization: Mapping[str, Any], interval: str = "3s"
) -> Iterator[Prometheus]:
    """Run a server with some rules; `authorization` is what its scrapes need beside targets."""
    program = shutil.which("prometheus")
    assert program, "prometheus is missing; .ci/system-packages installs it"
    folder.mkdir(parents=True)
    targets, port = folder / "targets.json", _free_port()
    targets.write_text("[]")
    config = {
        "global": {"scrape_interval": interval, "evaluation_interval": interval},
        "rule_files": [str(rules)],
        "scrape_configs": [
            {
                "job_name": "awa",
                "honor_labels": True,
                "file_sd_configs": [{"files": [str(targets)], "refresh_interval": "1s"}],
                **authorization,
            }
        ],
    }
    (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [
                program, f"--config.file={folder / 'prometheus.yml'}",
                f"--storage.tsdb.path={folder / 'data'}", f"--web.listen-address=127.0.0.1:{port}",
            ],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log,
        )  # fmt: skip
    server = Prometheus(port, targets)
    try:
        eventually_sync(lambda: _answers(server, process), START_LIMIT, what="Prometheus answers")
        yield server
    finally:
        process.terminate()
        process.wait(STOP_SECONDS)


def _answers(server: Prometheus, process: "subprocess.Popen[bytes]") -> bool:
    assert process.poll() is None, "Prometheus has ended"
    with suppress(OSError):
        return server.query("vector(1)") != []
    return False


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
