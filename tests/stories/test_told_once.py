"""A thread is told each thing once: one sentence for a decision, with who asked and who did it."""

from __future__ import annotations

from typing import Any

import pytest

from storage.states import CallStatus
from tests.stories.fakes import FakeTools
from tests.stories.harness import SUPPORT, Harness
from tests.stories.messages import value_of, words
from tests.stories.steps import all_sent, ask, later, open_modal, press, reject, typed, vote

REFUND = ("refund_order", {"order_id": 1035, "amount": "20", "reason": "damaged"})
COUNTS = """
[defaults]
approvers = ["@shop-leads"]
editor_counts = true
"""
ASKED = "Asked by <@UBEN00001>"


def told(harness: Harness, thread: str) -> list[str]:
    """What the bot said in the thread, but for cards and answers, in order."""
    all_sent(harness)
    said = [m for m in harness.thread(SUPPORT, thread) if m.get("bot_id")]
    return [str(m["text"]) for m in said if [b["block_id"] for b in m["blocks"]] == ["n"]]


def test_an_approval_is_told_by_what_came_of_it(harness: Harness) -> None:
    """In the tool's own sentence; the record below the answer does not say it once more."""
    left = harness.shop.get_order(1035).refundable_amount - 20
    thread = ask(harness, REFUND)
    vote(harness, "ana", harness.card(SUPPORT, thread))
    answer = words(harness.said(SUPPORT, thread, "That is all."))
    assert told(harness, thread) == [
        f"✅ Refunded 20.00 EUR of order 1035, {left} left. {ASKED}, approved by <@UANA00001>."
    ]
    assert "On record: done." in answer
    card = words(harness.said(SUPPORT, thread, "✅"))
    assert f"Refunded 20.00 EUR of order 1035, {left} left" in card
    assert "left to refund" not in card


def test_a_tool_without_a_sentence_is_told_by_its_effect(
    harness: Harness, fakes: FakeTools
) -> None:
    """Done and failed read as sentences; why it failed is quoted."""
    thread = ask(harness, ("async_note", {"text": "once told"}))
    vote(harness, "ana", harness.card(SUPPORT, thread))
    harness.said(SUPPORT, thread, "That is all.")
    assert fakes.did("async_note", "once told") == 1
    assert told(harness, thread) == [
        f"✅ Done: Write “once told”. {ASKED}, approved by <@UANA00001>."
    ]
    thread = ask(harness, ("refuse", {"text": "this"}))
    vote(harness, "ana", harness.card(SUPPORT, thread))
    harness.said(SUPPORT, thread, "That is all.")
    [line] = told(harness, thread)
    assert line.startswith("❌ It failed: Refuse “this” — “")
    assert line.endswith(f"”. {ASKED}, approved by <@UANA00001>.")


def test_a_rejection_names_who_asked(harness: Harness) -> None:
    """Who asked is told of it, with the words; nothing else is said of it."""
    thread = ask(harness, ("note", {"text": "told no"}))
    reject(harness, "ana", SUPPORT, harness.card(SUPPORT, thread), "paid twice")
    harness.said(SUPPORT, thread, "That is all.")
    assert told(harness, thread) == [
        f"🚫 <@UANA00001> rejected: Write “told no” — “paid twice”. {ASKED}."
    ]


def test_nobody_answered_comes_before_what_follows(harness: Harness) -> None:
    """The deadline is told in one line, to who asked, and before the answer."""
    thread = ask(harness, ("note", {"text": "told late"}))
    harness.card(SUPPORT, thread)
    harness.settle()
    later(harness, 86_400)
    harness.said(SUPPORT, thread, "That is all.")
    [line] = told(harness, thread)
    assert line.startswith("⏰ Nobody answered by ")
    assert line.endswith(f"so this will not happen: Write “told late”. {ASKED}.")
    texts = [str(m["text"]) for m in harness.thread(SUPPORT, thread)]
    assert texts.index(line) < next(n for n, each in enumerate(texts) if "That is all." in each)


def test_in_a_plan_an_approval_that_waits_is_told(harness: Harness) -> None:
    """The first of two is told as approved; the second starts both, and their outcomes follow."""
    thread = ask(harness, ("note", {"text": "told one"}), ("note", {"text": "told two"}))
    card = harness.card(SUPPORT, thread)
    press(harness, "ana", SUPPORT, card, "approve")
    drawn = harness.said(SUPPORT, thread, "runs once the rest is decided")
    harness.person("ana").click(SUPPORT, card["ts"], "approve", value=value_of(drawn, "approve"))
    harness.said(SUPPORT, thread, "That is all.")
    assert told(harness, thread) == [
        "✅ <@UANA00001> approved: Write “told one”",
        "✅ Done: Write “told one”.",
        f"✅ Done: Write “told two”. {ASKED}, approved by <@UANA00001>.",
    ]


def test_of_a_plan_the_people_are_told_once(harness: Harness) -> None:
    """The last line has them; where others approved a call, its own line does."""
    thread = ask(harness, *(("note", {"text": f"each {n}"}) for n in range(3)))
    card = harness.card(SUPPORT, thread)
    press(harness, "cleo", SUPPORT, card, "approve")
    drawn = harness.said(SUPPORT, thread, "runs once the rest is decided")
    press(harness, "ana", SUPPORT, drawn, "approve_all")
    harness.said(SUPPORT, thread, "That is all.")
    assert told(harness, thread)[1:] == [
        f"✅ Done: Write “each 0”. {ASKED}, approved by <@UCLEO0001>.",
        "✅ Done: Write “each 1”.",
        f"✅ Done: Write “each 2”. {ASKED}, approved by <@UANA00001>.",
    ]


@pytest.mark.parametrize("also", [True, False])
def test_an_edit_that_is_approved_at_once_is_one_sentence(own_harness: Any, also: bool) -> None:
    """Edited and approved by one person is told once; an edit that still waits is told as one."""
    fakes = FakeTools()
    harness = own_harness(fakes.tools, COUNTS)
    thread = ask(harness, ("note", {"text": "draft"}))
    view = open_modal(harness, "ana", SUPPORT, harness.card(SUPPORT, thread), "edit")
    [box] = [b["element"] for b in view["blocks"] if b.get("block_id") == "then"]
    chosen = {"then": {"v": {"selected_options": box["options"] if also else []}}}
    harness.person("ana").submit(typed(text="final") | chosen)
    if not also:
        edited = harness.said(SUPPORT, thread, "→")
        vote(harness, "cleo", edited)
    harness.said(SUPPORT, thread, "That is all.")
    [call] = harness.calls_in(thread)
    assert call.status is CallStatus.SUCCEEDED
    who = ["edited and approved by <@UANA00001>"] if also else ["approved by <@UCLEO0001>"]
    line = f"✅ Done: Write “final”. {', '.join([ASKED, *who])}."
    edit = [] if also else [f"✏️ <@UANA00001> edited: Write “final” (Text: draft → final). {ASKED}."]
    assert told(harness, thread) == [*edit, line]
    card = harness.said(SUPPORT, thread, "✅")
    assert '"draft"' in words(card)
