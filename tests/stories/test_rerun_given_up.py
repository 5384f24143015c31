"""Calls with an unknown outcome whose approved rerun is given up: they stay unknown."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from bot.approvals.call_state import compute_next_revision_digest
from storage import decisions, runs
from storage.digest import compute_key_id
from storage.record import Store
from storage.states import CallStatus, UnknownCallResolution
from tests.storage.builders import build_vote
from tests.stories.fakes import FakeTools
from tests.stories.harness import SUPPORT, Harness
from tests.stories.messages import action_ids, words
from tests.stories.steps import arrived, ask, now_at, press
from tests.stories.test_restored_backup import command

C = CallStatus
POLICY = """
[defaults]
approvers = ["@shop-leads"]

[[rule]]
name = "of the parcel"
tool = "lose"
verdict = "{}"
"""


@pytest.fixture(params=["allow", "ask"])
def approved_rerun(
    own_harness: Callable[..., Harness], request: pytest.FixtureRequest
) -> tuple[Harness, str, dict[str, Any]]:
    """A bot that was stopped between “Run it again” and the rerun; with thread and card."""
    harness = own_harness(FakeTools().tools, POLICY.format(request.param))
    thread = ask(harness, ("lose", {"text": "parcel"}))
    if request.param == "ask":
        press(harness, "ana", SUPPORT, harness.card(SUPPORT, thread), "approve")
    card = harness.card(SUPPORT, thread, having="run_again")
    arrived(harness)
    core, [call] = harness.app.core, harness.calls_in(thread)
    harness.app.stop()
    store = Store(harness.settings().database_url, key=core.key).open()
    with store.write() as tx:
        run = runs.find_run(tx, call.run_id)
        assert run is not None
        digest = compute_next_revision_digest(tx, core.key, run, call, core.tools)
        decisions.resolve_unknown_call(
            tx,
            call.id,
            call.revision,
            "UANA00001",
            UnknownCallResolution.AGAIN,
            at=harness.clock.now(),
            rerun=build_vote(call.id, call.revision + 1, "approve", "UANA00001", digest=digest),
        )
    store.close()
    return harness, thread, card


def test_a_rerun_approved_under_a_lost_key_stays_unknown(
    approved_rerun: tuple[Harness, str, dict[str, Any]],
) -> None:
    """It does not run again, but it may have run before."""
    harness, thread, card = approved_rerun
    lost = compute_key_id(harness.app.core.key)
    key = "another-key-of-at-least-32-characters"
    harness.extra |= {"COUNTERSIGN_KEY": key, "COUNTERSIGN_LOST_KEY": lost}
    harness.start()
    harness.said(SUPPORT, thread, "That is all.")
    arrived(harness)
    assert [each.status for each in harness.calls_in(thread)] == [C.UNKNOWN]
    assert harness.outputs()[-1]["output"].startswith("UNKNOWN")
    shown = words(now_at(harness, SUPPORT, card["ts"]))
    assert ("it was not run again" in shown, "Not run" in shown) == (True, False)


def test_a_rerun_in_a_restored_backup_can_be_resolved(
    approved_rerun: tuple[Harness, str, dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It does not run; people are asked about it, as about any other unknown call."""
    harness, thread, _ = approved_rerun
    backup = str(harness.folder / "backup.db")
    command(harness, monkeypatch, "backup", backup)
    command(harness, monkeypatch, "restore", backup)
    harness.start()
    harness.said(SUPPORT, thread, "My data may be an older copy now")
    arrived(harness)
    assert [(each.status, each.revision) for each in harness.calls_in(thread)] == [(C.UNKNOWN, 3)]
    shown = harness.card(SUPPORT, thread, having="run_again")
    assert "resolve_done" in action_ids(shown)
    told = words(shown)
    assert ("may have been done since" in told, "not run again" in told) == (True, False)
