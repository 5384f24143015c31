"""What several people do on one card keeps its order, whichever replica stored it."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path

from bot.cards.action_names import Action, DialogId
from bot.cards.button_codec import (
    CallTarget,
    DialogSubject,
    encode_button_value,
    encode_dialog_metadata,
)
from bot.runs.worker_pool import OtherProcesses, WorkerPool
from storage.models import Delivery
from storage.states import CallStatus, DeliveryKind
from tests.runs.fakes import ANA, CLEO
from tests.runs.harness import LoopHarness
from tests.storage.builders import click, submission


class OneOther(OtherProcesses):
    """Another replica, which has stored every submitted dialog."""

    is_alive = True

    def is_handled_by_other_replica(self, delivery: Delivery, now: datetime) -> bool:
        """Whether that replica still lives and this is a dialog."""
        return self.is_alive and delivery.kind is DeliveryKind.SUBMISSION


def test_an_approval_does_not_overtake_an_edit(tmp_path: Path) -> None:
    """Another replica acknowledged the edit and died.

    The later approval was of the old version, so nothing runs.
    """
    harness, other = LoopHarness(tmp_path / "countersign.db"), OneOther()
    loop = harness.core.build_loop(
        harness.core.build_intake(lambda _: False, lambda _: None),
        WorkerPool(lambda *_: None, 1, harness.core.signals),
        lambda _: None,
        others=other,
    )
    harness.model.script = [[("note", "draft")]]
    harness.say("please")
    loop.tick()
    harness.work()
    target = CallTarget(harness.all()[1][0].id, 1)
    about, state = DialogSubject(DialogId.EDIT, target), {"f:text": {"v": {"value": "final"}}}
    metadata = json.loads(encode_dialog_metadata(about))
    harness.arrive(lambda key: submission(key, about.dialog, metadata, state, ANA))
    harness.arrive(lambda key: click(key, Action.APPROVE, encode_button_value(target), CLEO))
    loop.tick()
    [call] = harness.all()[1]
    assert (call.status, call.revision) == (CallStatus.PENDING, 1)
    other.is_alive = False
    loop.tick()
    [call] = harness.all()[1]
    assert (call.status, call.revision) == (CallStatus.PENDING, 2)
    assert harness.votes(call.id, 2) == []
