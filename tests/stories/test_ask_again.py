"""Ask again: the form of an earlier call with its values, for its requester."""

from __future__ import annotations

from typing import Any

from tests.stories.fakes import FakeTools
from tests.stories.harness import SUPPORT, Harness
from tests.stories.messages import words
from tests.stories.steps import ask, menu, now_at, reject, told, typed, vote


def complete_request(harness: Harness, text: str) -> tuple[str, dict[str, Any]]:
    """The agent writes a note for Ben that Ana approves; returns the thread and the final card."""
    thread = ask(harness, ("note", {"text": text}), answer=f"{text} is noted.")
    card = harness.card(SUPPORT, thread)
    vote(harness, "ana", card)
    harness.said(SUPPORT, thread, f"{text} is noted.")
    harness.settle()
    return thread, now_at(harness, SUPPORT, card["ts"], "ben")


def wait_for_first_message(harness: Harness, text: str) -> dict[str, Any]:
    """The first message of Ben's request with this text, waited for."""

    def look() -> dict[str, Any] | None:
        seen = [(m, words(m)) for m in harness.person("ben").messages(SUPPORT)]
        return next((m for m, said in seen if "asks: " in said and text in said), None)

    root: dict[str, Any] = harness.slack.wait(look)
    return root


def test_the_form_is_filled_with_the_old_values(harness: Harness, fakes: FakeTools) -> None:
    """The agent's call is asked for again with another value; no model is asked."""
    _, card = complete_request(harness, "a dozen eggs")
    ben, asked = harness.person("ben"), len(harness.planner.requests)
    menu(harness, "ben", card, "ask_again:")
    view = harness.slack.wait(ben.view)
    [field] = [b for b in view["blocks"] if b.get("block_id") == "f:text"]
    assert field["element"]["initial_value"] == "a dozen eggs"
    assert ben.submit(typed(text="two dozen eggs"))["outcome"] == "closed"
    root = wait_for_first_message(harness, "two dozen eggs")
    vote(harness, "ana", harness.card(SUPPORT, root["ts"]))
    harness.said(SUPPORT, root["ts"], "✅ Done")
    assert fakes.did("note", "two dozen eggs") == 1
    assert len(harness.planner.requests) == asked


def test_a_rejected_request_is_asked_again_unchanged(harness: Harness, fakes: FakeTools) -> None:
    """It may be approved this time."""
    thread = ask(harness, ("note", {"text": "more chairs"}), answer="Ana said no.")
    card = harness.card(SUPPORT, thread)
    reject(harness, "ana", SUPPORT, card, "not today")
    harness.said(SUPPORT, thread, "Ana said no.")
    harness.settle()
    ben = harness.person("ben")
    menu(harness, "ben", now_at(harness, SUPPORT, card["ts"], "ben"), "ask_again:")
    harness.slack.wait(ben.view)
    assert ben.submit({})["outcome"] == "closed"
    root = wait_for_first_message(harness, "more chairs")
    vote(harness, "ana", harness.card(SUPPORT, root["ts"]))
    harness.said(SUPPORT, root["ts"], "✅ Done")
    assert fakes.did("note", "more chairs") == 1


def test_only_the_requester_sees_the_old_values(harness: Harness) -> None:
    """Somebody else gets no form and is told how to ask for their own."""
    thread, card = complete_request(harness, "a quiet room")
    menu(harness, "dan", card, "ask_again:")
    assert told(harness, "dan", SUPPORT, thread, "can ask for this again")
    assert harness.person("dan").view() is None


def test_a_call_that_no_form_can_hold_is_not_offered_again(harness: Harness) -> None:
    """A secret that is required is not entered in a form."""
    thread = ask(harness, ("login", {"account": "shop", "password": "hunter2-of-the-shop"}))
    card = harness.card(SUPPORT, thread)
    vote(harness, "ana", card)
    harness.said(SUPPORT, thread, "That is all.")
    harness.settle()
    now = words(now_at(harness, SUPPORT, card["ts"], "ben"))
    assert ("Done" in now, "Ask again" in now) == (True, False)
