"""What a tool says beforehand: what is known to fail asks nobody, and slow tools stop nobody."""

from __future__ import annotations

from typing import Any

from storage.states import CallStatus
from tests.stories.fakes import FakeTools
from tests.stories.harness import SUPPORT, Harness
from tests.stories.messages import words
from tests.stories.steps import (
    arrived,
    ask,
    ask_for,
    now_at,
    open_modal,
    showing,
    statuses,
    told,
    typed,
)


def test_what_is_known_to_fail_asks_nobody(harness: Harness, fakes: FakeTools) -> None:
    """A call whose tool says that it would fail goes back to the model, without a card."""
    thread = ask(harness, ("luck", {"text": "in vain"}))
    harness.said(SUPPORT, thread, "That is all.")
    [output] = harness.outputs()
    assert output["output"] == (
        "FAILED before it was run, and nobody was asked: there is no luck in in vain"
    )
    assert statuses(harness, thread) == [CallStatus.REFUSED]
    [answer] = showing(harness, SUPPORT, thread, "That is all.")
    assert "✅" not in words(answer)
    assert fakes.did("luck", "in vain") == 0


def test_beside_a_call_that_waits(harness: Harness) -> None:
    """Where an earlier call of its plan might help, the model is told to propose it again."""
    thread = ask(harness, ("note", {"text": "before it"}), ("luck", {"text": "in vain"}))
    harness.person("ana").click(SUPPORT, harness.card(SUPPORT, thread)["ts"], "approve")
    harness.said(SUPPORT, thread, "That is all.")
    first, second = (each["output"] for each in harness.outputs()[-2:])
    assert first.startswith("SUCCEEDED")
    assert second.endswith("has to run first, propose it again after that.")


def test_an_async_preview_knows_who_asks(harness: Harness) -> None:
    """What an async preview says is on the card; it is told who asks, and where."""
    _, card = ask_for(harness, "today", "luck")
    assert f"fortune for UBEN00001 in {SUPPORT}" in words(card)


def test_an_edit_that_would_fail(harness: Harness, fakes: FakeTools) -> None:
    """In Edit it is an error at the field that was changed, and nothing is stored."""
    thread, card = ask_for(harness, "today", "luck")
    open_modal(harness, "ana", SUPPORT, card, "edit")
    outcome = harness.person("ana").submit(typed(text="in vain"))
    assert outcome["errors"] == {"f:text": "there is no luck in in vain"}
    assert harness.person("ana").submit(typed(text="tomorrow"))["outcome"] == "closed"
    harness.said(SUPPORT, thread, "✏️")
    harness.person("cleo").click(SUPPORT, card["ts"], "approve")
    harness.said(SUPPORT, thread, "lucky")
    assert (fakes.did("luck", "in vain"), fakes.did("luck", "tomorrow")) == (0, 1)


def type_slowly(
    harness: Harness, fakes: FakeTools, card: dict[str, Any], name: str, text: str
) -> None:
    """Have somebody submit an edit whose preview is not there before `go_on` is set."""
    fakes.entered.clear()
    fakes.go_on.clear()
    open_modal(harness, name, SUPPORT, card, "edit")
    assert harness.person(name).submit(typed(text=text))["outcome"] == "closed"
    assert fakes.entered.is_set()


def test_a_slow_preview_holds_up_nobody(harness: Harness, fakes: FakeTools) -> None:
    """While a tool is asked about an edit, others decide; then the edit is stored, or refused."""
    thread, card = ask_for(harness, "today", "luck")
    other, waiting = ask_for(harness, "meanwhile")
    type_slowly(harness, fakes, card, "ana", "slowly in vain")
    harness.person("ana").click(SUPPORT, waiting["ts"], "approve")
    harness.slack.wait(lambda: fakes.did("note", "meanwhile"))
    fakes.go_on.set()
    told(harness, "ana", SUPPORT, thread, "was not saved: there is no luck in slowly in vain")
    type_slowly(harness, fakes, card, "cleo", "slowly")
    assert "Edited" not in words(now_at(harness, SUPPORT, card["ts"]))
    fakes.go_on.set()
    harness.said(SUPPORT, thread, "✏️")
    arrived(harness)
    assert harness.calls_in(thread)[0].revision == 2
    assert statuses(harness, other) == [CallStatus.SUCCEEDED]
