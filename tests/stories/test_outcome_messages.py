"""What a request's thread says of decisions and outcomes: each of them once."""

from __future__ import annotations

from typing import Any

from bot.demo.model_server import Turn
from storage.states import CallStatus
from tests.stories.fakes import FakeTools
from tests.stories.harness import SUPPORT, Harness
from tests.stories.messages import words
from tests.stories.steps import (
    all_sent,
    ask,
    later,
    open_modal,
    press,
    reject,
    showing,
    typed,
    vote,
)

REFUND = ("refund_order", {"order_id": 1035, "amount": "20", "reason": "damaged"})
COUNTS = """
[defaults]
approvers = ["@shop-leads"]
editor_counts = true
"""
ASKED = "Asked by <@UBEN00001>"


def list_notes(harness: Harness, thread: str) -> list[str]:
    """Return the bot's messages in the thread in order, without cards and answers."""
    all_sent(harness)
    said = [m for m in harness.thread(SUPPORT, thread) if m.get("bot_id")]
    return [str(m["text"]) for m in said if [b["block_id"] for b in m["blocks"]] == ["n"]]


def list_elements_below_answer(harness: Harness, thread: str) -> list[dict[str, Any]]:
    """Return the rich-text elements below the model's answer."""
    blocks = harness.said(SUPPORT, thread, "That is all.")["blocks"]
    found = [b for b in blocks if b["block_id"].startswith("rec:")]
    return [leaf for b in found for part in b["elements"] for leaf in part["elements"]]


MENTION = {"type": "user", "user_id": "UBEN00001"}


def build_text_element(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def test_the_outcome_of_an_approved_call_is_below_the_answer(harness: Harness) -> None:
    """In the tool's own sentence with a mention of the requester, and in no other message."""
    left = harness.shop.get_order(1035).refundable_amount - 20
    thread = ask(harness, REFUND)
    vote(harness, "ana", harness.card(SUPPORT, thread))
    said = f" ✅ Refunded 20.00 EUR of order 1035, {left} left."
    assert list_elements_below_answer(harness, thread) == [MENTION, build_text_element(said)]
    assert list_notes(harness, thread) == []
    card = words(harness.said(SUPPORT, thread, "✅"))
    assert f"Refunded 20.00 EUR of order 1035, {left} left" in card
    assert "left to refund" not in card
    assert "On record" not in str(harness.thread(SUPPORT, thread))


def test_an_outcome_without_a_sentence_of_the_tool_names_the_effect(
    harness: Harness, fakes: FakeTools
) -> None:
    """As done or failed, with the error in quotes."""
    thread = ask(harness, ("async_note", {"text": "once told"}))
    vote(harness, "ana", harness.card(SUPPORT, thread))
    assert list_elements_below_answer(harness, thread) == [
        MENTION,
        build_text_element(" ✅ Done: Write “once told”."),
    ]
    assert fakes.did("async_note", "once told") == 1
    thread = ask(harness, ("refuse", {"text": "this"}))
    vote(harness, "ana", harness.card(SUPPORT, thread))
    [_, said] = list_elements_below_answer(harness, thread)
    assert said["text"].startswith(" ❌ It failed: Refuse “this” — “")
    assert list_notes(harness, thread) == []


def test_a_rejection_is_posted_once_with_reason_and_requester(harness: Harness) -> None:
    """The line mentions the requester; there is nothing below the answer."""
    thread = ask(harness, ("note", {"text": "told no"}))
    reject(harness, "ana", SUPPORT, harness.card(SUPPORT, thread), "paid twice")
    assert list_elements_below_answer(harness, thread) == []
    assert list_notes(harness, thread) == [
        f"🚫 Ana Ruiz rejected: Write “told no” — “paid twice”. {ASKED}."
    ]


def test_an_expiry_is_posted_once_before_the_answer(harness: Harness) -> None:
    """The line mentions the requester."""
    thread = ask(harness, ("note", {"text": "told late"}))
    harness.card(SUPPORT, thread)
    harness.settle()
    later(harness, 86_400)
    assert list_elements_below_answer(harness, thread) == []
    [said] = list_notes(harness, thread)
    assert said.startswith("⏰ Nobody answered by ")
    assert said.endswith(f"so this will not happen: Write “told late”. {ASKED}.")
    texts = [str(m["text"]) for m in harness.thread(SUPPORT, thread)]
    assert texts.index(said) < next(n for n, each in enumerate(texts) if "That is all." in each)


def test_the_outcomes_of_a_plan_are_one_list(harness: Harness) -> None:
    """One call is approved by itself, and the rest together by another person."""
    thread = ask(harness, *(("note", {"text": f"each {n}"}) for n in range(3)))
    card = harness.card(SUPPORT, thread)
    press(harness, "cleo", SUPPORT, card, "approve")
    drawn = harness.said(SUPPORT, thread, "runs once the rest is decided")
    press(harness, "ana", SUPPORT, drawn, "approve_all")
    done = "\n".join(f"✅ Done: Write “each {n}”." for n in range(3))
    assert list_elements_below_answer(harness, thread) == [MENTION, build_text_element(f"\n{done}")]
    assert list_notes(harness, thread) == []


def test_the_outcomes_of_a_long_plan_are_cut_to_ten_lines(harness: Harness) -> None:
    """The last line points to the cards."""
    thread = ask(harness, *(("note", {"text": f"of many {n}"}) for n in range(12)))
    harness.slack.wait(lambda: len(showing(harness, SUPPORT, thread, "approve_all")) == 3)
    all_sent(harness)
    for card in showing(harness, SUPPORT, thread, "approve_all"):
        press(harness, "ana", SUPPORT, card, "approve_all")
        all_sent(harness)
    [_, said] = list_elements_below_answer(harness, thread)
    assert said["text"].count("✅") == 9
    assert said["text"].endswith("\nAnd 3 more: the cards show them.")


def test_the_outcome_of_a_first_plan_is_posted_while_a_second_waits(harness: Harness) -> None:
    """The answer does not repeat it."""
    first, second = (("note", {"text": f"plan {n}"}) for n in (1, 2))
    harness.planner.script(Turn(calls=[first]), Turn(calls=[second]), Turn(text="That is all."))
    thread = str(harness.person("ben").say(SUPPORT, "@bot please"))
    vote(harness, "ana", harness.card(SUPPORT, thread))
    card = harness.said(SUPPORT, thread, "asks to write “plan 2”")
    assert list_notes(harness, thread) == [f"✅ Done: Write “plan 1”. {ASKED}."]
    vote(harness, "ana", card)
    assert list_elements_below_answer(harness, thread) == [
        MENTION,
        build_text_element(" ✅ Done: Write “plan 2”."),
    ]


def test_the_outcome_is_posted_if_the_model_does_not_answer(harness: Harness) -> None:
    """The model fails after the call has run; the line mentions the requester."""
    harness.planner.script(Turn(calls=[("note", {"text": "then silence"})]))
    thread = str(harness.person("ben").say(SUPPORT, "@bot please"))
    card = harness.card(SUPPORT, thread)
    harness.planner.fail_next_requests(400)
    vote(harness, "ana", card)
    harness.said(SUPPORT, thread, "refused on demand")
    assert f"✅ Done: Write “then silence”. {ASKED}." in list_notes(harness, thread)


def test_an_edit_is_posted_with_its_changes_and_the_requester(own_harness: Any) -> None:
    """Whether its editor approves it at once or another person does later."""
    fakes = FakeTools()
    harness = own_harness(fakes.tools, COUNTS)
    for also in (True, False):
        thread = ask(harness, ("note", {"text": "draft"}))
        view = open_modal(harness, "ana", SUPPORT, harness.card(SUPPORT, thread), "edit")
        [box] = [b["element"] for b in view["blocks"] if b.get("block_id") == "then"]
        chosen = {"then": {"v": {"selected_options": box["options"] if also else []}}}
        harness.person("ana").submit(typed(text=f"final {also}") | chosen)
        if not also:
            vote(harness, "cleo", harness.said(SUPPORT, thread, "→"))
        assert list_elements_below_answer(harness, thread) == [
            MENTION,
            build_text_element(f" ✅ Done: Write “final {also}”."),
        ]
        [call] = harness.calls_in(thread)
        assert call.status is CallStatus.SUCCEEDED
        edit = f"✏️ Ana Ruiz edited: Write “final {also}” (Text: draft → final {also}). {ASKED}."
        assert list_notes(harness, thread) == [edit]
        assert '"draft"' in words(harness.said(SUPPORT, thread, "✅"))
