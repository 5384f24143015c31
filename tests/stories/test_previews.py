"""Previews of tools: calls known to fail need no approver, and slow previews block nobody."""

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


def test_a_call_known_to_fail_is_refused_without_a_card(harness: Harness, fakes: FakeTools) -> None:
    """Its preview raises an error, which the model is given."""
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


def test_a_refused_call_may_be_proposed_again_after_the_plan(harness: Harness) -> None:
    """An earlier call of the plan might make it work, so the model is told to try it then."""
    thread = ask(harness, ("note", {"text": "before it"}), ("luck", {"text": "in vain"}))
    harness.person("ana").click(SUPPORT, harness.card(SUPPORT, thread)["ts"], "approve")
    harness.said(SUPPORT, thread, "That is all.")
    first, second = (each["output"] for each in harness.outputs()[-2:])
    assert first.startswith("SUCCEEDED")
    assert second.endswith("has to run first, propose it again after that.")


def test_an_async_preview_is_shown_and_knows_the_requester(harness: Harness) -> None:
    """It also knows the channel."""
    _, card = ask_for(harness, "today", "luck")
    assert f"fortune for UBEN00001 in {SUPPORT}" in words(card)


def test_an_edit_known_to_fail_is_an_error_at_its_field(harness: Harness, fakes: FakeTools) -> None:
    """Nothing is stored until the edit is one whose preview succeeds."""
    thread, card = ask_for(harness, "today", "luck")
    open_modal(harness, "ana", SUPPORT, card, "edit")
    outcome = harness.person("ana").submit(typed(text="in vain"))
    assert outcome["errors"] == {"f:text": "there is no luck in in vain"}
    assert harness.person("ana").submit(typed(text="tomorrow"))["outcome"] == "closed"
    harness.said(SUPPORT, thread, "✏️")
    harness.person("cleo").click(SUPPORT, card["ts"], "approve")
    harness.said(SUPPORT, thread, "lucky")
    assert (fakes.did("luck", "in vain"), fakes.did("luck", "tomorrow")) == (0, 1)


def submit_slow_edit(
    harness: Harness, fakes: FakeTools, card: dict[str, Any], name: str, text: str
) -> None:
    """Have somebody submit an edit whose preview does not end before `go_on` is set."""
    fakes.entered.clear()
    fakes.go_on.clear()
    open_modal(harness, name, SUPPORT, card, "edit")
    assert harness.person(name).submit(typed(text=text))["outcome"] == "closed"
    assert fakes.entered.is_set()


def test_a_slow_preview_of_an_edit_blocks_nobody(harness: Harness, fakes: FakeTools) -> None:
    """Others decide meanwhile; then the edit is stored, or refused."""
    thread, card = ask_for(harness, "today", "luck")
    other, waiting = ask_for(harness, "meanwhile")
    submit_slow_edit(harness, fakes, card, "ana", "slowly in vain")
    harness.person("ana").click(SUPPORT, waiting["ts"], "approve")
    harness.slack.wait(lambda: fakes.did("note", "meanwhile"))
    fakes.go_on.set()
    told(harness, "ana", SUPPORT, thread, "was not saved: there is no luck in slowly in vain")
    submit_slow_edit(harness, fakes, card, "cleo", "slowly")
    assert "Edited" not in words(now_at(harness, SUPPORT, card["ts"]))
    fakes.go_on.set()
    harness.said(SUPPORT, thread, "✏️")
    arrived(harness)
    assert harness.calls_in(thread)[0].revision == 2
    assert statuses(harness, other) == [CallStatus.SUCCEEDED]
