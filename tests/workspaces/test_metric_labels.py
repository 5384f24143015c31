"""The labels of metrics for many workspaces: their number is limited."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from bot.workspaces.metrics import MAX_LABELLED_WORKSPACES, OTHERS_LABEL, WorkspacesMetrics
from storage.audit_log import AuditLine

AT = datetime(2026, 11, 27, tzinfo=UTC)


def report_call(metrics: WorkspacesMetrics, workspace: str) -> None:
    """Report that a call of that workspace has ended."""
    row = AuditLine(1, "call.succeeded", "bot", "run", "call", {"to": "succeeded"}, AT)
    metrics.build_exporter(workspace).report_audit_rows([row])


def list_labels(metrics: WorkspacesMetrics) -> set[str]:
    """List the workspaces on the metrics page."""
    return set(re.findall(r'workspace="(\w+)"', metrics.all.render_metrics_page()))


def test_a_workspace_that_left_frees_its_label_for_another() -> None:
    """Workspaces beyond the limit are counted as others."""
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
