"""Answers, help and sentences are valid blocks, in which nobody's words mention or format."""

from __future__ import annotations

import inspect
import re
from datetime import UTC, datetime

import pytest

from bot.cards import notices, refusals, request_sentences, sentence_words
from bot.cards.answers import (
    greeting_text,
    help_text,
    render_answer_part,
    render_notice,
    render_retry_message,
)
from bot.cards.slack_text import unescape_mrkdwn
from bot.policy.gates import GrantOffer
from storage.states import CallStatus, ChannelMode, RunSource, Surface
from tests.messages.cards_support import accept_message, buttons, inside

AT = datetime(2026, 11, 21, 14, 2, tzinfo=UTC)
EVIL = "<!channel> <@UEVE00001> <https://evil.example|ok>\n\u202e&"
TOOLS = [
    ("Look up an order", "read"),
    ("Refund an order", "write"),
    ("Cancel <an> order", "destructive"),
]

PEOPLE = notices.CallParticipants(
    "UBEN00001", ("UCLEO0001",), (("UANA00001", EVIL), ("UDAN00001", ""))
)
SAID = {
    "already_decided": ("UANA00001", "approve", AT),
    "late_message": (),
    "not_opened": ("view_too_large",),
    "your_own_click": ("approve",),
    "said_for_you": ("UANA00001", "approve"),
    "delegated": ("UANA00001", AT),
    "asked_to_decide": ("UANA00001", AT, EVIL),
    "waits_for_you": ("UCLEO0001", "UANA00001", [EVIL], AT),
    "decides_for": ("UANA00001", "UCLEO0001", AT, EVIL),
    "no_longer_decides": ("UANA00001",),
    "over_already": (),
    "not_an_approver": ("<@UANA00001>",),
    "not_an_editor": (),
    "not_stored": (),
    "perhaps_said": ("https://example.slack.com/archives/C1/p1", True),
    "not_yet": ("<@UANA00001>",),
    "enough": ("<@UANA00001>",),
    "again_needs_all": (),
    "offer_label": (GrantOffer(), {}),
    "remembered": (AT, 3, "Order 1042"),
    "words_needed": (),
    "not_the_requester": ("UBEN00001",),
    "withdrawn_line": ("UBEN00001", [EVIL]),
    "asked_there": ("C0PARTNER", EVIL),
    "goes_on_here": ("C0PARTNER", EVIL),
    "goes_on_in_private": ("UBEN00001",),
    "outsiders_read_along": (),
    "delegated_task_line": (EVIL, EVIL, EVIL),
    "program_line": (EVIL,),
    "not_done": (CallStatus.REJECTED,),
    "through": (EVIL,),
    "server_line": (EVIL, EVIL),
    "who_asks": (RunSource.PROGRAM, EVIL),
    "asked_without_words": (RunSource.PROGRAM, EVIL),
    "votes_void": (["UANA00001", "UDAN00001"], "UBEN00001", [EVIL]),
    "unanswered_beside": (EVIL,),
    "sent_back_line": ("UANA00001", EVIL),
    "sent_back_enough": (3,),
    "requester_left": ("UBEN00001",),
    "requester_gone": (),
    "reminder": ([EVIL], "<@UANA00001>", AT),
    "next_step": ([EVIL], "<@UANA00001>", AT, [("UCLEO0001", EVIL)]),
    "escalation_line": ([EVIL], "<@UANA00001>", AT),
    "own_request": (),
    "own_edit": (),
    "lookup_failed": (),
    "stale_card": (),
    "too_late": (AT,),
    "waits_for": ("UBEN00001",),
    "card_elsewhere": ("C0FINANCE", "https://a.example/|x"),
    "effect_list": ([EVIL] * 5,),
    "decision_line": ("reject", "UANA00001", [EVIL], EVIL, 2, "UBEN00001"),
    "outcome_line": (CallStatus.FAILED, EVIL, PEOPLE),
    "expired_line": ([EVIL], AT, "UBEN00001"),
    "cancelled_line": ("UBEN00001", EVIL),
    "gave_up": (EVIL,),
    "trigger_expired": (),
    "not_remembered": (),
    "too_few_after_edit": (2,),
    "not_your_run": ("UBEN00001",),
    "nothing_to_cancel": (),
    "nothing_to_retry": (),
    "not_asked": (EVIL, EVIL),
    "edit_not_saved": (EVIL,),
    "could_not": (True,),
    "answer_by_buttons": (),
    "answer_too_long": (2_000,),
    "words_decide_nothing": (),
    "cite": (EVIL,),
    "past": ("approve",),
    "asks": ("UBEN00001", EVIL, EVIL),
    "was_done": (EVIL, EVIL),
    "did_not_work": (EVIL, EVIL),
    "not_known": (EVIL,),
    "handed_on": (EVIL,),
    "no_longer": (EVIL, EVIL),
    "nobody_asked": (EVIL,),
    "policy_forbids": (EVIL,),
    "not_there": (EVIL,),
    "nothing_to_ask": (),
    "members_only": (),
    "form_changed": (),
    "not_begun": (EVIL,),
    "nobody_plans": (),
    "no_model": ("UBEN00001",),
    "away_note": ([("UANA00001", AT), ("UCLEO0001", None)],),
    "mode_everywhere": (ChannelMode.OBSERVE, ("UANA00001", AT)),
    "may_not_switch_all": ("<@UANA00001>",),
    "mode_now": (ChannelMode.STRICT, ("UANA00001", AT), "<@UANA00001>"),
    "mode_as_before": (ChannelMode.ASK,),
    "mode_set": (ChannelMode.OBSERVE,),
    "may_not_loosen": (ChannelMode.STRICT, ""),
    "mode_switched": ("UANA00001", ChannelMode.OBSERVE),
    "mode_note": (ChannelMode.STRICT,),
    "people_named": (["UANA00001"], ["S0LEADS"]),
    "asked_elsewhere": ("<@UANA00001>", EVIL),
    "was_answered": ("UANA00001", False),
    "answer_reminder": ("<@UANA00001>", EVIL, AT),
    "unanswered_line": ([EVIL] * 4, AT),
    "already_answered": ("UANA00001", AT),
    "own_answer_stands": (),
    "answer_too_late": (AT,),
    "no_longer_asked": (),
    "not_asked_of_you": ("<@UANA00001>",),
    "not_yours": ("UBEN00001",),
    "typed_there": (Surface.ADDED, "UBEN00001", EVIL),
    "no_model_there": (),
    "members_only_there": (),
    "doing_now": (EVIL, ""),
    "step_title": ("", EVIL),
    "beginning_left_out": (),
}


MODULES = [sentence_words, notices, refusals, request_sentences]
SENTENCES = {
    name: each
    for module in MODULES
    for name, each in inspect.getmembers(module, inspect.isfunction)
    if each.__module__ == module.__name__ and not name.startswith("_")
}


@pytest.mark.parametrize("name", SAID)
def test_no_sentence_passes_on_what_others_wrote(name: str) -> None:
    """A sentence holds mentions of ours and escaped text.

    It never holds a broadcast, a foreign mention or a link.
    """
    sentence = SENTENCES[name](*SAID[name])
    assert sentence.strip()
    assert "<!channel" not in sentence
    assert "UEVE" not in "".join(re.findall(r"<[^>]*>", sentence))
    assert "evil.example|" not in "".join(re.findall(r"<[^>]*>", sentence))
    assert "\u202e" not in sentence


def test_every_sentence_is_looked_at() -> None:
    """A new sentence has to be added to the list above."""
    assert set(SENTENCES) == set(SAID)


def test_who_clicks_too_late_is_told_by_whom_and_when() -> None:
    """The second click hears who was first.

    Where it was nobody, it hears what the clock or policy did.
    """
    sentence = refusals.already_decided_reply("UANA00001", "approve", AT)
    assert sentence.startswith("<@UANA00001> already approved this, <!date^1795269720^")
    assert refusals.already_decided_reply("", "reject", None).startswith(
        "This is already rejected."
    )
    assert "12" not in refusals.deadline_passed_reply(None)


def test_a_refusal_says_who_may() -> None:
    """And an empty list says that nobody may."""
    assert "<@UANA00001>" in refusals.not_an_approver_reply("<@UANA00001>")
    assert "nobody" in refusals.not_an_approver_reply("")


def test_the_thread_line_is_one_line() -> None:
    """The thread is told in one line, with the reason quoted."""
    line = notices.decision_line(
        "reject", "UANA00001", ["Refund 40.00 EUR of order 1042"], "paid\ntwice"
    )
    assert line == "🚫 <@UANA00001> rejected: Refund 40.00 EUR of order 1042 — “paid twice”"
    assert sentence_words.join_effects(["a", "b", "c", "d", "e"]) == "a; b; c; and 2 more"


def test_who_asked_is_told_how_it_ended() -> None:
    """A decision that ends a call names who asked; so does what came of it, with all who did it."""
    line = notices.decision_line("reject", "UANA00001", ["Refund 40.00 EUR"], requester="UBEN00001")
    assert line == "🚫 <@UANA00001> rejected: Refund 40.00 EUR. Asked by <@UBEN00001>."
    what = "Refunded 30.00 EUR of order 1042, 59.90 left"
    line = notices.outcome_line(CallStatus.SUCCEEDED, what, PEOPLE)
    assert line.startswith(f"✅ {what}. Asked by <@UBEN00001>, approved by <@UANA00001> (“")
    assert line.endswith("”) and <@UDAN00001>.")
    alone = notices.CallParticipants("UBEN00001", ("UANA00001",), (("UANA00001", ""),))
    line = notices.outcome_line(CallStatus.FAILED, "Refund 30.00 EUR", alone, why="no such order")
    assert line == (
        "❌ It failed: Refund 30.00 EUR — “no such order”. "
        "Asked by <@UBEN00001>, edited and approved by <@UANA00001>."
    )


def test_only_the_last_part_of_an_answer_asks_for_feedback() -> None:
    """Feedback buttons come once, below the end, and carry the run."""
    assert [block["type"] for block in render_answer_part("Hi", "run-1", False)] == ["markdown"]
    blocks = render_answer_part("Hi <!here>", "run-1", True)
    accept_message(blocks)
    assert blocks[0]["text"] == "> Hi @here"
    values = [each["value"] for each in inside(blocks) if "value" in each]
    assert values == ["good:run-1", "bad:run-1"]
    assert [block["type"] for block in render_answer_part("  ", "run-1", True)] == [
        "context_actions"
    ]


@pytest.mark.parametrize("name", SAID)
def test_a_sentence_as_blocks_is_literal_beside_our_mentions(name: str) -> None:
    """As blocks, a sentence formats nothing and reads as meant.

    Its mentions, times and links act.
    """
    sentence = SENTENCES[name](*SAID[name])
    blocks = render_notice(sentence)
    accept_message(blocks)
    leaves = blocks[0]["elements"][0]["elements"]
    literal = "".join(leaf["text"] for leaf in leaves if leaf["type"] == "text")
    assert "&lt;" not in literal
    assert literal == unescape_mrkdwn(re.sub(r"<[^>]*>", "", sentence))
    assert len(leaves) - sum(leaf["type"] == "text" for leaf in leaves) == len(
        re.findall(r"<[^>]*>", sentence)
    )


def test_a_decision_as_blocks_keeps_person_time_and_link() -> None:
    """Each kind of token becomes the leaf that acts as it does in a text."""
    sentence = (
        "<@U1> <!subteam^S1> <#C1> <!date^5^{time}|noon> "
        "<https://a.example/?x=1&amp;y|see it> &amp;lt; `x`"
    )
    leaves = render_notice(sentence)[0]["elements"][0]["elements"]
    assert [leaf for leaf in leaves if leaf != {"type": "text", "text": " "}] == [
        {"type": "user", "user_id": "U1"},
        {"type": "usergroup", "usergroup_id": "S1"},
        {"type": "channel", "channel_id": "C1"},
        {"type": "date", "timestamp": 5, "format": "{time}", "fallback": "noon"},
        {"type": "link", "url": "https://a.example/?x=1&y", "text": "see it"},
        {"type": "text", "text": " &lt; `x`"},
    ]


def test_retry_carries_the_run() -> None:
    """What went wrong is said, and one button continues."""
    blocks = render_retry_message(notices.run_failed_notice(EVIL), "run-1")
    accept_message(blocks)
    assert list(buttons(blocks)) == [("retry", "run-1")]


def test_greeting_and_help_name_the_tools_and_the_ai() -> None:
    """First contact says what it can do and that it is an AI; help lists every tool, escaped."""
    hello = greeting_text("UBOT00001", TOOLS)
    assert "an AI" in hello
    assert "look up an order" in hello
    text = help_text(TOOLS)
    assert "AI" in text
    assert "• Refund an order" in text
    assert "• Cancel &lt;an&gt; order" in text
