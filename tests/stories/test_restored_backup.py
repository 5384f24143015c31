"""A backup is restored: calls that were open in it are asked again, and none runs twice."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from countersign.cli.commands import main
from storage.states import CallStatus
from tests.stories.fakes import FakeTools
from tests.stories.harness import SUPPORT, Harness
from tests.stories.steps import arrived, ask, press, waiting
from tests.stories.test_remember import OFFERS, approve, login

POLICY = '[defaults]\napprovers = ["@shop-leads"]\n'
C = CallStatus


def command(harness: Harness, monkeypatch: pytest.MonkeyPatch, *typed: str) -> None:
    """Run a command with the settings of the bot."""
    settings = harness.settings()
    monkeypatch.setenv("DATABASE_URL", settings.database_url)
    monkeypatch.setenv("COUNTERSIGN_POLICY", str(settings.policy_path))
    monkeypatch.delenv("COUNTERSIGN_KEY", raising=False)
    if settings.key is not None:
        monkeypatch.setenv("COUNTERSIGN_KEY", settings.key.get_secret_value())
    assert main(list(typed)) == 0


def check_asked_again(
    harness: Harness, fakes: FakeTools, thread: str, card: dict[str, Any]
) -> None:
    """The bot has started on the older record: people read it, and the old button does nothing."""
    harness.said(SUPPORT, thread, "I am asking again what was open.")
    press(harness, "ana", SUPPORT, card, "approve")
    arrived(harness)
    [call] = harness.calls_in(thread)
    assert (call.status, call.revision, fakes.did("note", "pay it once")) == (C.PENDING, 2, 1)


def test_calls_that_ran_after_the_backup_are_asked_again(
    own_harness: Callable[..., Harness], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The call is pending in the backup, is approved and runs; then the backup is restored.

    The old button does nothing; a new approval runs it again. A call proposed after the backup is
    not in it, and its card does nothing.
    """
    fakes = FakeTools()
    harness = own_harness(fakes.tools, POLICY)
    thread = ask(harness, ("note", {"text": "pay it once"}))
    card = harness.card(SUPPORT, thread)
    harness.settle()
    backup = str(harness.folder / "backup.db")
    command(harness, monkeypatch, "backup", backup)
    press(harness, "ana", SUPPORT, card, "approve")
    harness.said(SUPPORT, thread, "That is all.")
    later = waiting(harness, ("note", {"text": "asked later"}))
    orphan = harness.card(SUPPORT, later)
    arrived(harness)
    assert fakes.did("note", "pay it once") == 1

    harness.app.stop()
    command(harness, monkeypatch, "restore", backup)
    harness.start()
    check_asked_again(harness, fakes, thread, card)
    press(harness, "ana", SUPPORT, orphan, "approve")
    arrived(harness)
    assert fakes.did("note", "asked later") == 0

    harness.restart()
    assert [(each.status, each.revision) for each in harness.calls_in(thread)] == [(C.PENDING, 2)]
    press(harness, "cleo", SUPPORT, harness.card(SUPPORT, thread), "approve")
    arrived(harness)
    assert fakes.did("note", "pay it once") == 2


def test_a_saved_approval_in_a_restored_backup_is_void(
    own_harness: Callable[..., Harness], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may have been used up or revoked since."""
    fakes = FakeTools()
    harness = own_harness(fakes.tools, OFFERS)
    approve(harness, ask(harness, login("first")), offer=0)
    arrived(harness)
    backup = str(harness.folder / "backup.db")
    command(harness, monkeypatch, "backup", backup)
    harness.app.stop()
    command(harness, monkeypatch, "restore", backup)
    harness.start()
    thread = ask(harness, login("second"))
    harness.card(SUPPORT, thread)
    assert [each.status for each in harness.calls_in(thread)] == [C.PENDING]
