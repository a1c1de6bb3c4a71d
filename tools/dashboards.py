"""Write the Grafana dashboards of the chart; `--check` compares only.

What is on them is in `dashboard_panels.py`. A data source is chosen by a variable, so that a
dashboard fits any Grafana.
"""

import json
import sys
from pathlib import Path
from typing import Any

from dashboard_panels import DASHBOARDS, Dashboard, Panel, Variable

FOLDER = Path(__file__).resolve().parent.parent / "charts" / "awa" / "dashboards"
SOURCE = {"type": "prometheus", "uid": "${datasource}"}
WIDTH = 24
STAT_SIZE, GRAPH_SIZE = (4, 4), (8, 8)


def render(dashboard: Dashboard) -> str:
    """Return the text of a dashboard's file."""
    made = {
        "uid": f"awa-{dashboard.name}",
        "title": dashboard.title,
        "description": dashboard.description,
        "tags": ["awa"],
        "schemaVersion": 41,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "30s",
        "time": {"from": "now-3h", "to": "now"},
        "timezone": "",
        "links": [
            {
                "type": "dashboards",
                "title": "Awa",
                "tags": ["awa"],
                "asDropdown": True,
                "includeVars": True,
                "keepTime": True,
            }
        ],
        "templating": {"list": [_source(), *map(_variable, dashboard.variables)]},
        "annotations": {"list": [_annotation(*mark) for mark in dashboard.annotations]},
        "panels": _panels(dashboard),
    }
    return json.dumps(made, indent=2, ensure_ascii=False) + "\n"


def _source() -> dict[str, Any]:
    return {
        "name": "datasource",
        "label": "Data source",
        "type": "datasource",
        "query": "prometheus",
        "current": {},
    }


def _variable(variable: Variable) -> dict[str, Any]:
    return {
        "name": variable.name,
        "label": variable.label,
        "type": "query",
        "datasource": SOURCE,
        "definition": variable.query,
        "query": {"query": variable.query, "refId": variable.name},
        "refresh": 2,
        "sort": 1,
        "multi": variable.several,
        "includeAll": variable.several,
        **({"allValue": ".*"} if variable.several else {}),
        "current": {},
    }


def _annotation(name: str, expression: str, color: str) -> dict[str, Any]:
    return {
        "name": name,
        "datasource": SOURCE,
        "enable": True,
        "expr": expression,
        "iconColor": color,
        "step": "60s",
        "titleFormat": name,
    }


def _panels(dashboard: Dashboard) -> list[dict[str, Any]]:
    """Return the panels, placed from left to right and from top to bottom."""
    placed: list[dict[str, Any]] = []
    x = y = row_height = 0
    for number, panel in enumerate(dashboard.panels, start=1):
        width, height = STAT_SIZE if panel.kind == "stat" else GRAPH_SIZE
        if x + width > WIDTH or (row_height and height != row_height):
            x, y = 0, y + row_height
        row_height = height
        place = {"x": x, "y": y, "w": width, "h": height}
        placed.append({"id": number, "gridPos": place, **_panel(panel)})
        x += width
    return placed


def _panel(panel: Panel) -> dict[str, Any]:
    targets = [
        {
            "refId": chr(ord("A") + number),
            "datasource": SOURCE,
            "expr": expression,
            "legendFormat": legend,
            "range": True,
        }
        for number, (expression, legend) in enumerate(panel.queries)
    ]
    made: dict[str, Any] = {
        "type": panel.kind,
        "title": panel.title,
        "description": panel.description,
        "datasource": SOURCE,
        "targets": targets,
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
    }
    if panel.kind == "stat":
        made["options"] = {
            "reduceOptions": {"calcs": ["lastNotNull"]},
            "colorMode": "none",
            "graphMode": "area",
        }
    else:
        made["options"] = {
            "legend": {"displayMode": "list", "placement": "bottom"},
            "tooltip": {"mode": "multi", "sort": "desc"},
        }
    return made


def main(arguments: list[str]) -> int:
    """Write the dashboards, or say which are stale."""
    stale = []
    for dashboard in DASHBOARDS:
        path, text = FOLDER / f"{dashboard.name}.json", render(dashboard)
        if "--check" not in arguments:
            path.write_text(text, encoding="utf-8")
        elif not path.exists() or path.read_text(encoding="utf-8") != text:
            stale.append(path.name)
    if stale:
        print(f"{', '.join(stale)}: stale; run python tools/dashboards.py", file=sys.stderr)
    return int(bool(stale))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
