"""Slack may report edits and deletions of a message in any order."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from sqlalchemy import select
from sqlmodel import col

from storage.models import Delivery
from storage.states import DeliveryStatus
from storage.transaction import fetch_rows
from tests.runs.fakes import BOT
from tests.runs.harness import LoopHarness
from tests.storage.builders import TEAM


def deliver_change(harness: LoopHarness, **event: Any) -> None:
    """Slack reports a change of a message, and the loop takes it."""

    def make(key: str) -> Delivery:
        told = {"type": "message", "channel": "C0SUPPORT", **event}
        body = json.dumps({"event": told})
        place = {"team": TEAM, "user": "", "channel": "C0SUPPORT"}
        return Delivery(key=f"event:{key}", kind="message", body=body, **place)

    harness.arrive(make)
    harness.loop.tick()


def test_an_edit_reported_after_the_deletion_is_ignored(tmp_path: Path) -> None:
    """The message stays deleted, and the edit is handled at once."""
    harness = LoopHarness(tmp_path / "db")
    harness.model.script = [[("note", "a")]]
    harness.say("please")
    harness.loop.tick()
    harness.work()
    harness.say("and this")
    harness.loop.tick()
    ts = str(harness.number)
    deliver_change(harness, subtype="message_deleted", deleted_ts=ts)
    edited = {"ts": ts, "text": f"<@{BOT}> and that"}
    deliver_change(harness, subtype="message_changed", message=edited)
    with harness.store.read() as tx:
        found = fetch_rows(tx, Delivery, select(Delivery).order_by(col(Delivery.seq)))
    assert [row.status for row in found] == [DeliveryStatus.DONE] * 4
    assert found[-1].attempts == 0
    assert found[1].body == "{}"
    harness.stop()
