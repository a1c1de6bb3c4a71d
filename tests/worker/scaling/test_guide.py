"""What the guide says about scaling is what the planner says."""

import re
from pathlib import Path

from awa.scaling import Limit, Reason

GUIDE = (Path(__file__).parents[3] / "docs" / "guides" / "scaling.md").read_text()


def table(heading: str) -> str:
    return GUIDE.partition(f"| {heading} |")[2].partition("\n\n")[0]


def test_the_guide_explains_every_reason_and_every_limit():
    assert set(re.findall("`([A-Z][A-Za-z]+)`", table("reason"))) == {word.value for word in Reason}
    limits = re.findall(r"^\| (.*?) \|", table("limit"), re.MULTILINE)
    assert set(re.findall("`(.*?)`", " ".join(limits))) == {word.value for word in Limit}


def test_the_example_of_the_guide_runs():
    code = GUIDE.partition("```python\n")[2].partition("```")[0]
    names: dict[str, object] = {}
    exec(code, names)  # noqa: S102 - our own page
    assert names["replicas"] == 16
