"""A thread is told each thing once: one sentence for a decision, with who asked and who did it."""

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


def told(harness: Harness, thread: str) -> list[str]:
    """What the bot said in the thread, but for cards and answers, in order."""
    all_sent(harness)
    said = [m for m in harness.thread(SUPPORT, thread) if m.get("bot_id")]
    return [str(m["text"]) for m in said if [b["block_id"] for b in m["blocks"]] == ["n"]]


def below(harness: Harness, thread: str) -> list[dict[str, Any]]:
    """What stands below the model's last words, as rich-text elements."""
    blocks = harness.said(SUPPORT, thread, "That is all.")["blocks"]
    found = [b for b in blocks if b["block_id"].startswith("rec:")]
    return [leaf for b in found for part in b["elements"] for leaf in part["elements"]]


MENTION = {"type": "user", "user_id": "UBEN00001"}


def line(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def test_an_approval_is_told_by_what_came_of_it(harness: Harness) -> None:
    """In the tool's own sentence, below the answer, to who asked; no other message tells it."""
    left = harness.shop.get_order(1035).refundable_amount - 20
    thread = ask(harness, REFUND)
    vote(harness, "ana", harness.card(SUPPORT, thread))
    said = f" ✅ Refunded 20.00 EUR of order 1035, {left} left."
    assert below(harness, thread) == [MENTION, line(said)]
    assert told(harness, thread) == []
    card = words(harness.said(SUPPORT, thread, "✅"))
    assert f"Refunded 20.00 EUR of order 1035, {left} left" in card
    assert "left to refund" not in card
    assert "On record" not in str(harness.thread(SUPPORT, thread))


def test_a_tool_without_a_sentence_is_told_by_its_effect(
    harness: Harness, fakes: FakeTools
) -> None:
    """Done and failed read as sentences; why it failed is quoted."""
    thread = ask(harness, ("async_note", {"text": "once told"}))
    vote(harness, "ana", harness.card(SUPPORT, thread))
    assert below(harness, thread) == [MENTION, line(" ✅ Done: Write “once told”.")]
    assert fakes.did("async_note", "once told") == 1
    thread = ask(harness, ("refuse", {"text": "this"}))
    vote(harness, "ana", harness.card(SUPPORT, thread))
    [_, said] = below(harness, thread)
    assert said["text"].startswith(" ❌ It failed: Refuse “this” — “")
    assert told(harness, thread) == []


def test_a_rejection_names_who_asked(harness: Harness) -> None:
    """Who asked is told of it, with the words; nothing else is said of it."""
    thread = ask(harness, ("note", {"text": "told no"}))
    reject(harness, "ana", SUPPORT, harness.card(SUPPORT, thread), "paid twice")
    assert below(harness, thread) == []
    assert told(harness, thread) == [
        f"🚫 Ana Ruiz rejected: Write “told no” — “paid twice”. {ASKED}."
    ]


def test_nobody_answered_comes_before_what_follows(harness: Harness) -> None:
    """The deadline is told in one line, to who asked, and before the answer."""
    thread = ask(harness, ("note", {"text": "told late"}))
    harness.card(SUPPORT, thread)
    harness.settle()
    later(harness, 86_400)
    assert below(harness, thread) == []
    [said] = told(harness, thread)
    assert said.startswith("⏰ Nobody answered by ")
    assert said.endswith(f"so this will not happen: Write “told late”. {ASKED}.")
    texts = [str(m["text"]) for m in harness.thread(SUPPORT, thread)]
    assert texts.index(said) < next(n for n, each in enumerate(texts) if "That is all." in each)


def test_a_plan_is_told_in_one_list(harness: Harness) -> None:
    """However its calls were approved: one by one and by several, or all at once."""
    thread = ask(harness, *(("note", {"text": f"each {n}"}) for n in range(3)))
    card = harness.card(SUPPORT, thread)
    press(harness, "cleo", SUPPORT, card, "approve")
    drawn = harness.said(SUPPORT, thread, "runs once the rest is decided")
    press(harness, "ana", SUPPORT, drawn, "approve_all")
    done = "\n".join(f"✅ Done: Write “each {n}”." for n in range(3))
    assert below(harness, thread) == [MENTION, line(f"\n{done}")]
    assert told(harness, thread) == []


def test_a_long_plan_is_told_in_ten_lines(harness: Harness) -> None:
    """The cards have the rest."""
    thread = ask(harness, *(("note", {"text": f"of many {n}"}) for n in range(12)))
    harness.slack.wait(lambda: len(showing(harness, SUPPORT, thread, "approve_all")) == 3)
    all_sent(harness)
    for card in showing(harness, SUPPORT, thread, "approve_all"):
        press(harness, "ana", SUPPORT, card, "approve_all")
        all_sent(harness)
    [_, said] = below(harness, thread)
    assert said["text"].count("✅") == 9
    assert said["text"].endswith("\nAnd 3 more: the cards show them.")


def test_the_first_of_two_plans_is_told_when_the_second_waits(harness: Harness) -> None:
    """For nobody knows how long that takes; the answer does not say it again."""
    first, second = (("note", {"text": f"plan {n}"}) for n in (1, 2))
    harness.planner.script(Turn(calls=[first]), Turn(calls=[second]), Turn(text="That is all."))
    thread = str(harness.person("ben").say(SUPPORT, "@bot please"))
    vote(harness, "ana", harness.card(SUPPORT, thread))
    card = harness.said(SUPPORT, thread, "asks to write “plan 2”")
    assert told(harness, thread) == [f"✅ Done: Write “plan 1”. {ASKED}."]
    vote(harness, "ana", card)
    assert below(harness, thread) == [MENTION, line(" ✅ Done: Write “plan 2”.")]


def test_what_was_done_is_told_where_no_answer_comes(harness: Harness) -> None:
    """The model fails after the call has run: the thread has its outcome, and who asked has it."""
    harness.planner.script(Turn(calls=[("note", {"text": "then silence"})]))
    thread = str(harness.person("ben").say(SUPPORT, "@bot please"))
    card = harness.card(SUPPORT, thread)
    harness.planner.fail_next_requests(400)
    vote(harness, "ana", card)
    harness.said(SUPPORT, thread, "refused on demand")
    assert f"✅ Done: Write “then silence”. {ASKED}." in told(harness, thread)


def test_an_edit_is_told_to_who_asked(own_harness: Any) -> None:
    """What it changed, whether its editor approves it at once or another person does later."""
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
        assert below(harness, thread) == [MENTION, line(f" ✅ Done: Write “final {also}”.")]
        [call] = harness.calls_in(thread)
        assert call.status is CallStatus.SUCCEEDED
        edit = f"✏️ Ana Ruiz edited: Write “final {also}” (Text: draft → final {also}). {ASKED}."
        assert told(harness, thread) == [edit]
        assert '"draft"' in words(harness.said(SUPPORT, thread, "✅"))
