"""Metrics of workspaces whose database cannot be read."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from sqlalchemy.exc import OperationalError

from bot.workspaces.metrics import WorkspacesMetrics
from storage.record import Store


def test_metrics_are_served_while_a_workspaces_database_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The database fails while the workspace's app is stopped."""
    metrics = WorkspacesMetrics(lambda: datetime.now(UTC))
    exporter = metrics.build_exporter("T0ONE")
    store = Store(f"sqlite:///{tmp_path / 'one.db'}").open()
    exporter.attach_store(store)

    def fail() -> object:
        raise OperationalError("SELECT", {}, OSError("the server is gone"))

    monkeypatch.setattr(store, "read", fail)
    with pytest.raises(OperationalError):
        exporter.close()
    store.close()
    page = metrics.all.render_metrics_page()
    assert page is not None
    assert 'countersign_workspace_pending_calls{workspace="T0ONE"} 0.0' in page
