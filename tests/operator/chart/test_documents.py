"""What the pages about Kubernetes say is what the code says."""

import re
import shutil
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from pathlib import Path

import psycopg
import pytest
import yaml

import awa
from awa.manifest import ConditionType, parse_queue
from awa_operator.conditions import Reason
from awa_operator.observed import DatabaseProblem, PodTrouble, SecretState
from awa_operator.render.deployment import render_pod_template
from awa_operator.render.migration_job import render_migration_job
from support.charts import CHART, ROOT

GUIDE = ROOT / "docs" / "guides" / "kubernetes.md"
OPERATIONS = sorted((ROOT / "docs" / "operations").glob("kubernetes-*.md"))
TROUBLESHOOTING = ROOT / "docs" / "operations" / "kubernetes-troubleshooting.md"
SECURITY = ROOT / "docs" / "operations" / "kubernetes-security.md"
MONITORING = ROOT / "docs" / "operations" / "kubernetes-monitoring.md"
VALUES = ROOT / "docs" / "reference" / "helm-values.md"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)#]*)(?:#([^)]*))?\)")


def blocks(page: Path, language: str) -> list[str]:
    return [found[2] for found in BLOCK.finditer(page.read_text()) if found[1] == language]


def anchor(heading: str) -> str:
    kept = re.sub(r"[^\w\- ]", "", heading.lower())
    return kept.strip().replace(" ", "-")


@pytest.mark.parametrize("generator", ["values_page.py", "install_manifest.py", "operator_page.py"])
def test_generated_files_are_up_to_date(generator, helm_program, monkeypatch):
    monkeypatch.setenv("HELM", str(helm_program))
    command = [sys.executable, str(ROOT / "tools" / generator), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_every_reason_is_explained():
    told = set(re.findall(r"`(\w+)`", " ".join(rows(TROUBLESHOOTING))))
    reasons = {*Reason, *DatabaseProblem, *SecretState, *PodTrouble} - {SecretState.FOUND}
    assert {reason.value for reason in reasons} == told


def test_every_reason_can_be_given():
    code = "".join(path.read_text() for path in (ROOT / "operator" / "awa_operator").rglob("*.py"))
    kinds: dict[str, type[StrEnum]] = {
        "Reason": Reason,
        "Problem": DatabaseProblem,
        "SecretState": SecretState,
        "PodTrouble": PodTrouble,
    }
    for name, kind in kinds.items():
        used = set(re.findall(rf"\b{name}\.([A-Z_]+)\b", code))
        assert set(kind.__members__) <= used, name


def test_workers_and_operator_see_the_authority_where_the_address_says(helm):
    in_queue, in_chart = (yaml.safe_load(text) for text in blocks(SECURITY, "yaml"))
    (path,) = re.findall(r"sslrootcert=([^`&]+)", SECURITY.read_text())
    manifest = yaml.safe_load((ROOT / "crds" / "examples" / "smallest.yaml").read_text())
    manifest["metadata"] |= {"namespace": "jobs", "uid": "u"}
    manifest["spec"]["worker"] |= in_queue["worker"]
    queue = parse_queue(manifest)
    for pod in (
        helm.template(in_chart).one("Deployment")["spec"]["template"]["spec"],
        render_migration_job(queue, 1, 1, [queue])["spec"]["template"]["spec"],
        render_pod_template(queue, None)["spec"],
    ):
        (container,) = pod["containers"]
        (mount,) = [one for one in container["volumeMounts"] if path.startswith(one["mountPath"])]
        assert mount["readOnly"]
        (volume,) = [one for one in pod["volumes"] if one["name"] == mount["name"]]
        assert volume["configMap"] == {"name": "db-authority"}


def rows(page: Path) -> list[str]:
    """Return the first cells of the tables."""
    found = re.findall(r"^\| (`.*?) \|", page.read_text(), re.MULTILINE)
    return [str(cell) for cell in found]


def test_every_condition_that_a_page_names_exists():
    kinds = {kind.value for kind in ConditionType}
    for page in (GUIDE, *OPERATIONS):
        named = re.findall(r"condition `(\w+)`|for=condition=(\w+)", page.read_text())
        assert {name for pair in named for name in pair if name} <= kinds


def test_the_manifest_of_the_guide_is_the_example():
    (text,) = blocks(GUIDE, "yaml")
    example = ROOT / "crds" / "examples" / "smallest.yaml"
    assert yaml.safe_load(text) == yaml.safe_load(example.read_text())


async def test_keda_asks_what_waits_runs_and_is_due(database):
    example = ROOT / "crds" / "examples" / "keda-scaler.yaml"
    scaled = list(yaml.safe_load_all(example.read_text()))[-1]
    (trigger,) = scaled["spec"]["triggers"]
    async with awa.AsyncClient(database.dsn) as client:
        await client.insert_many([{}] * 3, kind="report", queue="reports")
        soon = datetime.now(UTC) + timedelta(seconds=30)
        await client.insert({}, kind="report", queue="reports", run_at=soon)
        await client.insert({}, kind="report", queue="other")
    with psycopg.connect(database.dsn) as session:
        assert session.execute(trigger["metadata"]["query"]).fetchall() == [(4,)]


def test_prometheus_takes_the_configuration_of_the_page(tmp_path):
    (text,) = blocks(MONITORING, "yaml")
    # The distribution's Prometheus is built without looking for pods; everything else is checked.
    assert "kubernetes_sd_configs: [{role: pod}]" in text
    text = text.replace(
        "kubernetes_sd_configs: [{role: pod}]", "file_sd_configs: [{files: [x.json]}]"
    )
    (tmp_path / "prometheus.yml").write_text(text)
    shutil.copy(CHART / "files" / "alerts.yaml", tmp_path)
    done = subprocess.run(
        ["promtool", "check", "config", "prometheus.yml"],
        cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "rules found" in done.stdout


def test_the_image_of_the_guide_has_the_version_of_the_release():
    (text,) = blocks(GUIDE, "dockerfile")
    assert text.startswith(f"FROM awa-worker:{(ROOT / 'VERSION').read_text().strip()}\n")


def test_the_lowest_kubernetes_is_that_of_the_charts():
    for chart in ("awa", "awa-crds"):
        described = yaml.safe_load((CHART.parent / chart / "Chart.yaml").read_text())
        lowest = re.fullmatch(r">=(1\.\d+)\.0-0", described["kubeVersion"])
        assert lowest is not None
        assert f"Kubernetes {lowest[1]} or newer" in GUIDE.read_text()


@pytest.mark.parametrize("page", [GUIDE, *OPERATIONS, VALUES], ids=lambda page: page.stem)
def test_links_and_files_are_there(page):
    text = page.read_text()
    for target, heading in LINK.findall(text):
        file = (page.parent / target).resolve() if target else page
        assert file.exists(), target
        if heading:
            headings = re.findall(r"^#+ (.*)$", file.read_text(), re.MULTILINE)
            assert heading in {anchor(one) for one in headings}, heading
    for path in re.findall(r"(?:charts|crds|deploy|examples)/[\w./-]*\w", text):
        assert (ROOT / path).exists(), path


@pytest.mark.parametrize("page", [GUIDE, *OPERATIONS], ids=lambda page: page.stem)
def test_values_that_a_page_names_exist(page):
    known = set(re.findall(r"^\| `([\w.]+)` \|", VALUES.read_text(), re.MULTILINE))
    groups = ("rbac", "watch", "image", "networkPolicy", "admissionPolicy", "prometheusRule")
    named = re.findall(rf"\b((?:{'|'.join(groups)})\.\w+)", page.read_text())
    assert set(named) <= known


def test_the_roles_of_the_security_page_can_be_made(database):
    (text,) = blocks(SECURITY, "sql")
    with psycopg.connect(database.dsn) as session:
        session.execute(text.encode())
        for role in ("awa_worker", "awa_monitor"):
            asked = "select has_schema_privilege(%s, 'awa', 'usage')"
            assert session.execute(asked, [role]).fetchall() == [(True,)]
        session.rollback()


@pytest.mark.parametrize("page", [GUIDE, *OPERATIONS], ids=lambda page: page.stem)
def test_p46_commands_name_the_resource_so_that_no_other_product_is_meant(page):
    """P46: `queues` alone belongs to whichever group the API server lists first."""
    for text in blocks(page, "console"):
        for line in text.splitlines():
            assert not re.search(r"kubectl .*\bqueues?\b(?!\.awa\.dev)", line), line
