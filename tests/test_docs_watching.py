"""docs/watching.md and alerts.yml: their metrics, alerts and log lines are those of the code."""

from __future__ import annotations

import ast
import re
from functools import cache

import pytest
import yaml
from prometheus_client import Histogram

from bot.monitoring.metrics import INSTALLATION_METRICS, Metric
from storage.states import CallStatus
from tests.pages import ROOT, section, table

PAGE = ROOT / "docs" / "watching.md"
RULES = ROOT / "docs" / "alerts.yml"
ALERTS = yaml.safe_load(RULES.read_text("utf-8"))["groups"][0]["rules"]
BUILT_IN = {"up"}


@cache
def list_strings() -> frozenset[str]:
    """Every string in the code."""
    files = [each for top in ("bot", "storage") for each in (ROOT / top).rglob("*.py")]
    nodes = [node for each in files for node in ast.walk(ast.parse(each.read_text("utf-8")))]
    return frozenset(
        each.value
        for each in nodes
        if isinstance(each, ast.Constant) and isinstance(each.value, str)
    )


def describe_metric(measure: Metric) -> list[str]:
    """The cells of a metric's row in the table."""
    labels = ", ".join(f"`{each}`" for each in measure.labels)
    if measure.values:
        labels += ": " + ", ".join(f"`{each}`" for each in measure.values)
    scope = "installation" if measure in INSTALLATION_METRICS else "process"
    return [measure.metric_type.__name__.lower(), labels, scope, measure.help_text]


def test_every_metric_is_in_the_table() -> None:
    """With type, labels, their values and help text; and no other metric is."""
    assert table(section(PAGE, "Metrics")) == {
        each.full_name: describe_metric(each) for each in Metric
    }


def list_series(measure: Metric) -> set[str]:
    """The names under which Prometheus keeps a metric's values."""
    if measure.metric_type is Histogram:
        return {f"{measure.full_name}_{each}" for each in ("bucket", "sum", "count")}
    return {measure.full_name}


def test_alerts_name_metrics_and_labels_that_exist() -> None:
    """So do the values that they compare labels with."""
    known = {name: each for each in Metric for name in list_series(each)}
    for alert in ALERTS:
        expression = alert["expr"]
        found = re.findall(r"\b(countersign_\w+|up)(?:\{([^}]*)\})?", expression)
        assert found, alert
        for name, chosen in found:
            if name in BUILT_IN:
                continue
            for label, values in re.findall(r'(\w+)(?:=~|!~|!=|=)"([^"]*)"', chosen):
                assert label in known[name].labels, expression
                if known[name].values:
                    assert set(values.split("|")) <= set(known[name].values), expression
        labels = {each for name, _ in found if name in known for each in known[name].labels}
        for grouped in re.findall(r"by \(([^)]*)\)", expression):
            assert set(grouped.split(", ")) <= {*labels, "le"}, expression
        for used in re.findall(r"\$labels\.(\w+)", alert["annotations"]["summary"]):
            assert f"by ({used}" in expression or f", {used})" in expression


@pytest.mark.long
def test_each_alert_says_what_to_do() -> None:
    """The first table has a row for each, and the log line in it exists in the code."""
    rows = table(section(PAGE, "What to watch, and what to do"))
    assert list(rows) == [each["alert"] for each in ALERTS]
    events = {f"call.{each}" for each in CallStatus} | {"call.told"}
    for notices, line, do in rows.values():
        assert notices
        assert len(do) > 20
        if line != "–":
            text = line.strip("`").replace(r"\n", "\n")
            assert text in list_strings() or text in events, text
