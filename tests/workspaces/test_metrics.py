"""The metrics of many workspaces: a limited number of labels, whoever comes and goes."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from bot.workspaces.metrics import MAX_LABELLED_WORKSPACES, OTHERS_LABEL, WorkspacesMetrics
from storage.audit_log import AuditLine

AT = datetime(2026, 11, 27, tzinfo=UTC)


def report_call(metrics: WorkspacesMetrics, workspace: str) -> None:
    """Have a call of that workspace come to an end."""
    row = AuditLine(1, "call.succeeded", "bot", "run", "call", {"to": "succeeded"}, AT)
    metrics.build_exporter(workspace).report_audit_rows([row])


def list_labels(metrics: WorkspacesMetrics) -> set[str]:
    """The workspaces that the page of metrics names."""
    return set(re.findall(r'workspace="(\w+)"', metrics.all.render_metrics_page()))


def test_a_workspace_that_left_makes_room_for_another() -> None:
    """One too many is counted with the others; once one has left, a new one has its own label."""
    metrics = WorkspacesMetrics(lambda: AT)
    names = [f"T{number:03}" for number in range(MAX_LABELLED_WORKSPACES + 1)]
    for each in names:
        report_call(metrics, each)
    assert list_labels(metrics) == {*names[:MAX_LABELLED_WORKSPACES], OTHERS_LABEL}
    metrics.forget_workspace(names[0])
    metrics.forget_workspace(names[-1])
    assert list_labels(metrics) == {*names[1:MAX_LABELLED_WORKSPACES], OTHERS_LABEL}
    report_call(metrics, "TNEW")
    report_call(metrics, "TLATER")
    assert list_labels(metrics) == {*names[1:MAX_LABELLED_WORKSPACES], "TNEW", OTHERS_LABEL}
