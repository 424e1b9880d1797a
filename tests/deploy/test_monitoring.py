"""The dashboard and the alert rules ask only for what the scheduler and the controllers publish."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import promql_parser
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from pumice.clock import ManualClock
from pumice.config.settings import CONTROLLERS as NAMES
from pumice.kube.controllers.running import ControllerMetrics
from pumice.kube.metrics import PUBLISHED, CycleMetrics

ROOT = Path(__file__).resolve().parents[2]
FILES = ROOT / "deploy" / "helm" / "pumice" / "files"
DASHBOARD: dict[str, Any] = json.loads((FILES / "dashboard.json").read_text(encoding="utf-8"))
ALERTS: list[dict[str, Any]] = [
    rule
    for group in yaml.safe_load((FILES / "alerts.yaml").read_text(encoding="utf-8"))["groups"]
    for rule in group["rules"]
]
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
EXPRESSIONS = [rule["expr"] for rule in ALERTS] + [t["expr"] for panel in PANELS for t in panel["targets"]]
PAGE = (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")


def families() -> dict[str, str]:
    """Every family that is scraped, with its type; those of plugins as we describe them."""
    texts = (CycleMetrics().text(), ControllerMetrics(NAMES, ManualClock()).text())
    ours = {f.name: f.type for text in texts for f in text_string_to_metric_families(text.decode())}
    described = {}
    for name in PUBLISHED:
        kind = "counter" if name.endswith("_total") else "histogram" if name.endswith("_seconds") else "gauge"
        described[name.removesuffix("_total")] = kind
    described["pumice_extender_session_seconds"] = "gauge"
    return ours | described


def series() -> set[str]:
    """Every name that a query may use."""
    found: set[str] = set()
    for name, kind in families().items():
        parts = {"counter": ["_total"], "histogram": ["_bucket", "_sum", "_count"]}.get(kind, [""])
        found |= {name + part for part in parts}
    return found


def named(expression: str) -> set[str]:
    return set(re.findall(r"\b(?:pumice|volcano|process)_\w+", expression))


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_every_metric_of_a_query_is_published(expression: str) -> None:
    assert named(expression)
    assert named(expression) - series() == set()


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_every_query_is_promql(expression: str) -> None:
    promql_parser.parse(expression)


def test_histograms_are_asked_for_by_bucket_and_rates_only_of_what_counts() -> None:
    counting = {name for name in series() if name.endswith(("_total", "_bucket", "_sum", "_count"))}
    for expression in EXPRESSIONS:
        for inside in re.findall(r"\brate\((\w+)", expression):
            assert inside in counting, expression
        for inside in re.findall(r"histogram_quantile\([^()]*(?:\([^()]*\)[^()]*)*rate\((\w+)", expression):
            assert inside.endswith("_bucket"), expression


def test_every_alert_says_what_is_wrong_and_how_bad() -> None:
    names = [rule["alert"] for rule in ALERTS]
    assert len(names) == len(set(names))
    for rule in ALERTS:
        assert rule["labels"]["severity"] in ("critical", "warning"), rule["alert"]
        assert {"summary", "description"} <= set(rule["annotations"]), rule["alert"]


def test_panels_have_titles_places_and_identities_of_their_own() -> None:
    places = [(p["gridPos"]["x"], p["gridPos"]["y"]) for p in PANELS]
    assert len(places) == len(set(places))
    assert len({p["id"] for p in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])
    for panel in PANELS:
        assert panel["title"]
        assert panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24
        assert all(t["datasource"] == {"type": "prometheus", "uid": "${datasource}"} for t in panel["targets"])


def test_the_page_on_metrics_names_what_is_published_and_nothing_else() -> None:
    said = set(re.findall(r"`((?:pumice|volcano)_\w+)`", PAGE))
    known = {name + ("_total" if kind == "counter" else "") for name, kind in families().items()}
    assert said == {name for name in known if name.startswith(("pumice_", "volcano_"))}
