"""After a crash at any commit, things that belong together are both stored, or neither is."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from bot.cards.action_names import DialogId
from bot.cards.button_codec import CallTarget, DialogSubject, encode_dialog_metadata
from bot.policy.evaluation import parse
from storage.states import CallStatus
from storage.transaction import Trace, Transaction
from tests.runs.fakes import ANA, POLICY
from tests.runs.harness import Crash, LoopHarness
from tests.storage.builders import submission

C = CallStatus
LENIENT = POLICY.replace("[defaults]", "[defaults]\neditor_counts = true")


class DiesAfterCommit(Trace):
    """The process dies after its next commit that changed anything."""

    def __init__(self) -> None:
        self.alive = True

    def after_commit(self, tx: Transaction) -> None:
        """Die at the first such commit."""
        if self.alive and tx.writes and tx.has_changes:
            self.alive = False
            raise Crash


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[LoopHarness]:
    """Two notes on one card wait for people."""
    made = LoopHarness(tmp_path / "db")
    made.core.policy.policy = parse(LENIENT)
    made.model.script = [[("note", "one"), ("note", "two")]]
    made.say("please")
    made.loop.tick()
    made.work()
    assert [call.status for call in made.all()[1]] == [C.PENDING, C.PENDING]
    yield made
    made.stop()


def crash_and_restart(harness: LoopHarness) -> None:
    """Die after the next commit of the loop, and start again."""
    harness.store.trace = DiesAfterCommit()
    with pytest.raises(Crash):
        harness.loop.tick()
    harness.stop()
    harness.start()
    harness.core.policy.policy = parse(LENIENT)


def list_notices(harness: LoopHarness) -> list[str]:
    """The thread's messages besides the cards."""
    return [json.loads(row.body)["text"] for row in harness.all()[3] if row.kind == "notice"]


def test_an_edit_and_its_approval_are_stored_together(harness: LoopHarness) -> None:
    """The person asked for both in one dialog."""
    call = harness.all()[1][0]
    about = DialogSubject(DialogId.EDIT, CallTarget(call.id, 1))
    options = {"v": {"selected_options": [{"value": "approve"}]}}
    state = {"f:text": {"v": {"value": "other"}}, "then": options}
    metadata = json.loads(encode_dialog_metadata(about))
    harness.arrive(lambda key: submission(key, about.dialog, metadata, state, ANA))
    crash_and_restart(harness)
    harness.loop.tick()
    call = harness.all()[1][0]
    assert (call.status, call.revision) == (C.APPROVED, 2)
    assert [vote.person for vote in harness.votes(call.id, 2)] == [ANA]
    assert [line.split()[1:3] for line in list_notices(harness)] == [[f"<@{ANA}>", "edited:"]]


def test_an_expiry_and_its_notice_are_stored_together(harness: LoopHarness) -> None:
    """The thread is told once for the whole plan."""
    harness.clock.at += timedelta(hours=2)
    crash_and_restart(harness)
    assert [call.status for call in harness.all()[1]] == [C.EXPIRED, C.EXPIRED]
    [line] = list_notices(harness)
    assert "Nobody answered" in line
    assert "one" in line
    assert "two" in line
