"""Both generations of Helm make the same of the charts."""

import re
import subprocess
from pathlib import Path

import pytest

from cluster.builds import HELM_3, client_tools
from support.charts import CHART, CI_VALUES, CRD_CHART, Helm, Rendered

# An old Helm assumes an old Kubernetes unless it is told.
KUBERNETES = ("--kube-version", "1.37.0")


@pytest.fixture
def helm3(tmp_path: Path) -> Helm:
    program = client_tools(HELM_3) / "helm"
    said = subprocess.run(
        [program, "version", "--short"], capture_output=True, text=True, timeout=60, check=True
    ).stdout
    assert re.match(r"v3\.18\.", said)
    return Helm(program, tmp_path)


def by_name(rendered: Rendered) -> dict[tuple[str, str, str], object]:
    return {
        (made["kind"], made["metadata"].get("namespace", ""), made["metadata"]["name"]): made
        for made in rendered.objects
    }


@pytest.mark.parametrize("values", [None, *CI_VALUES], ids=lambda path: getattr(path, "stem", None))
def test_helm_3_makes_the_same_objects(helm, helm3, values):
    old = by_name(helm3.template(values, options=KUBERNETES))
    assert len(old) > 5
    assert old == by_name(helm.template(values, options=KUBERNETES))


@pytest.mark.parametrize("chart", [CHART, CRD_CHART], ids=lambda path: path.name)
def test_helm_3_finds_no_fault(helm3, chart):
    assert "0 chart(s) failed" in helm3.lint(chart)
