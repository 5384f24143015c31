"""Answers, help and sentences: valid blocks, in which foreign words mention and format nothing."""

from __future__ import annotations

import inspect
import re
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from bot.cards import decided_call, delegation_dialog, notices, passkey_views, sentences, slack_text
from bot.cards.answers import (
    greeting_text,
    help_text,
    render_model_answer_part,
    render_notice_sentence,
    render_retry_message,
)
from bot.cards.slack_text import unescape_mrkdwn
from bot.cards.views import ArgumentValue
from bot.policy.gates import GrantOffer
from storage.passkeys import Passkey
from storage.states import CallStatus, ChannelMode, RunSource, Surface
from tests.messages.cards_support import REFUND, accept_message, list_objects, map_buttons

AT = datetime(2026, 11, 21, 14, 2, tzinfo=UTC)
EVIL = "<!channel> <@UEVE00001> <https://evil.example|ok>\n\u202e&"
TOOLS = [
    ("Look up an order", "read"),
    ("Refund an order", "write"),
    ("Cancel <an> order", "destructive"),
]

ARGUMENTS_OF_SENTENCES = {
    "already_decided_reply": ("UANA00001", "approve", AT),
    "dialog_not_opened_reply": ("view_too_large",),
    "repeated_click_reply": ("approve",),
    "vote_shared_with_delegate_reply": ("UANA00001", "approve"),
    "delegation_started_notice": ("UANA00001", AT),
    "delegate_appointed_notice": ("UANA00001", AT, EVIL),
    "waits_for_delegate_notice": ("UCLEO0001", "UANA00001", [EVIL], AT),
    "cannot_take_over_reply": ("UBEN00001", "<@UANA00001>"),
    "hand_over_notice": ("UANA00001", "UCLEO0001", EVIL, AT),
    "delegation_line": ("UANA00001", "UCLEO0001", AT, EVIL),
    "delegation_ended_notice": ("UANA00001",),
    "not_an_approver_reply": ("<@UANA00001>",),
    "perhaps_lost_message_notice": ("https://example.slack.com/archives/C1/p1", True),
    "not_your_stage_reply": ("<@UANA00001>",),
    "stage_already_approved_reply": ("<@UANA00001>",),
    "grant_offer_label": (GrantOffer(), {}),
    "approval_saved_notice": (AT, 3, "Order 1042"),
    "calls_withdrawn_line": ("UBEN00001", [EVIL]),
    "quoted_request_notice": ("C0PARTNER", EVIL),
    "moved_from_shared_channel_notice": ("C0PARTNER", EVIL),
    "request_continues_in_private_notice": ("UBEN00001",),
    "delegated_task_line": (EVIL, EVIL, EVIL),
    "asking_program_line": (EVIL,),
    "through_program_suffix": (EVIL,),
    "requester_line": ("UBEN00001", EVIL),
    "asking_server_line": (EVIL, EVIL),
    "describe_asker": (RunSource.PROGRAM, EVIL),
    "describe_wordless_request_origin": (RunSource.PROGRAM, EVIL),
    "approvals_void_notice": (["UANA00001", "UDAN00001"], "UBEN00001", [EVIL]),
    "message_unanswered_notice": (EVIL,),
    "plan_sent_back_line": ("UANA00001", EVIL),
    "send_back_limit_reply": (3,),
    "requester_left_notice": ("UBEN00001",),
    "decision_reminder_notice": ([EVIL], "<@UANA00001>", AT),
    "silent_approvers_suffix": (["<!subteam^S0LEADS>", "<@UANA00001>"],),
    "review_approvers_line": ([f"@{EVIL}", "UANA00001", "C0FINANCE"], ["UDAN00001"]),
    "next_stage_notice": ([EVIL], "<@UANA00001>", AT, [("UCLEO0001", EVIL)]),
    "further_approvers_may_decide_notice": ([EVIL], "<@UANA00001>", AT),
    "decision_too_late_reply": (AT,),
    "thread_is_busy_reply": ("UBEN00001",),
    "card_posted_elsewhere_notice": ("C0FINANCE", "https://a.example/|x"),
    "join_effects": ([EVIL] * 5,),
    "call_edited_line": (
        "UANA00001",
        replace(REFUND, effect=EVIL, values=(ArgumentValue(EVIL, EVIL, EVIL),)),
        "UBEN00001",
    ),
    "call_decision_line": ("reject", "UANA00001", [EVIL], EVIL, 2, "UBEN00001"),
    "run_without_approval_sentence": ("UBEN00001", EVIL),
    "look_request_notice": ([EVIL], "<@UANA00001>", None, "UBEN00001", EVIL),
    "objection_notice": ([EVIL], "UANA00001", EVIL, "UBEN00001", ["UBEN00001"]),
    "call_outcome_line": (CallStatus.FAILED, EVIL),
    "viewers_note": ({"UANA00001": AT, "UCLEO0001": AT},),
    "asked_by_sentence": ("UBEN00001", ["UANA00001", "UDAN00001"]),
    "nobody_decided_in_time_line": ([EVIL], AT, "UBEN00001"),
    "approved_for_later_line": (EVIL, AT, "UANA00001", "UBEN00001"),
    "approved_for_later_sentence": (replace(REFUND, effect=EVIL, starts_at=AT),),
    "outcome_sentence": (replace(REFUND, status=CallStatus.APPROVED, effect=EVIL),),
    "request_cancelled_line": ("UBEN00001", EVIL),
    "run_failed_notice": (EVIL,),
    "too_few_approvers_after_edit_reply": (2,),
    "only_requester_may_reply": ("withdraw", "UBEN00001"),
    "call_refused_before_asking_notice": (EVIL, EVIL),
    "edit_not_saved_reply": (EVIL,),
    "event_handling_failed_reply": (True,),
    "answer_too_long_reply": (2_000,),
    "sanitise_for_mrkdwn": (EVIL,),
    "format_past_tense": ("approve",),
    "request_opening_line": ("UBEN00001", EVIL, EVIL),
    "call_done_notice": (EVIL, EVIL),
    "call_failed_notice": (EVIL, EVIL),
    "outcome_reporter_sentence": ("UANA00001",),
    "call_outcome_unknown_notice": (EVIL,),
    "outcome_not_reported_notice": (EVIL,),
    "call_not_done_notice": (EVIL, EVIL),
    "no_approver_asked_notice": (EVIL,),
    "policy_forbids_sentence": (EVIL,),
    "unknown_form_reply": (EVIL,),
    "request_not_made_reply": (EVIL,),
    "no_model_reply": ("UBEN00001",),
    "away_approvers_note": ([("UANA00001", AT), ("UCLEO0001", None)],),
    "global_mode_text": (ChannelMode.OBSERVE, ("UANA00001", AT)),
    "global_mode_not_allowed_reply": ("<@UANA00001>",),
    "channel_mode_text": (ChannelMode.STRICT, ("UANA00001", AT), "<@UANA00001>"),
    "mode_unchanged_reply": (ChannelMode.ASK,),
    "mode_set_reply": (ChannelMode.OBSERVE,),
    "mode_loosening_not_allowed_reply": (ChannelMode.STRICT, ""),
    "mode_switched_notice": ("UANA00001", ChannelMode.OBSERVE),
    "request_mode_note": (ChannelMode.STRICT,),
    "join_mentions": (["UANA00001"], ["S0LEADS"]),
    "question_asked_privately_notice": ("<@UANA00001>", EVIL),
    "question_answered_notice": ("UANA00001", False),
    "answer_reminder_notice": ("<@UANA00001>", EVIL, AT),
    "questions_unanswered_line": ([EVIL] * 4, AT),
    "already_answered_reply": ("UANA00001", AT),
    "answer_too_late_reply": (AT,),
    "not_asked_of_you_reply": ("<@UANA00001>",),
    "ask_again_not_allowed_reply": ("UBEN00001",),
    "words_typed_elsewhere_line": (Surface.ADDED, "UBEN00001", EVIL),
    "unusable_passkey_reply": ("revoked",),
    "other_persons_link_reply": ("UANA00001",),
    "not_set_up_reply": (EVIL,),
    "cloned_passkey_notice": ("UANA00001", EVIL),
    "describe_model": ("ee882879-721c-4913-9775-3dfcce97072a", True),
    "choose_passkey_name": ("ee882879-721c-4913-9775-3dfcce97072a", AT),
    "new_passkey_notice": (EVIL, EVIL, AT, "0a1b 2c3d", False),
    "disowned_passkey_notice": ("UANA00001", EVIL, 2),
    "revoked_passkey_notice": ("UANA00001", EVIL),
    "passkey_withdrawn_line": (EVIL,),
    "passkey_line": (Passkey(name=EVIL, aaguid=EVIL, created_at=AT), "counts"),
    "parse_passkey_name": ({"words": {"text": {"value": "Ana’s phone"}}},),
    "tool_status_text": (EVIL, ""),
    "tool_step_label": ("", EVIL),
}


MODULES = [notices, sentences, passkey_views, passkey_views, delegation_dialog, decided_call]
SENTENCES = {
    name: each
    for module in MODULES
    for name, each in inspect.getmembers(module, inspect.isfunction)
    if each.__module__ == module.__name__
    and not name.startswith("_")
    and inspect.signature(each).return_annotation == "str"
} | {
    each.__name__: each
    for each in (
        slack_text.sanitise_for_mrkdwn,
        slack_text.format_past_tense,
        slack_text.join_effects,
    )
}
CONSTANTS = {
    name: text
    for module in MODULES
    for name, text in vars(module).items()
    if name.endswith(("_REPLY", "_NOTICE", "_TEXT"))
}


def build_sentence(name: str) -> str:
    """Return the sentence of this name, with hostile text in each place."""
    sentence: str = (
        CONSTANTS[name] if name in CONSTANTS else SENTENCES[name](*ARGUMENTS_OF_SENTENCES[name])
    )
    return sentence


@pytest.mark.parametrize("name", [*ARGUMENTS_OF_SENTENCES, *CONSTANTS])
def test_no_sentence_formats_hostile_text(name: str) -> None:
    """It has no broadcast, mention or link that others wrote."""
    sentence = build_sentence(name)
    assert sentence.strip()
    assert "<!channel" not in sentence
    assert "UEVE" not in "".join(re.findall(r"<[^>]*>", sentence))
    assert "evil.example|" not in "".join(re.findall(r"<[^>]*>", sentence))
    assert "\u202e" not in sentence


def test_every_sentence_is_tested() -> None:
    """A new sentence has to be added to the table above."""
    assert set(SENTENCES) == set(ARGUMENTS_OF_SENTENCES)


def test_a_click_after_a_decision_is_told_who_decided_and_when() -> None:
    """If nobody did, the sentence says what happened."""
    sentence = sentences.already_decided_reply("UANA00001", "approve", AT)
    assert sentence.startswith("<@UANA00001> already approved this, <!date^1795269720^")
    assert sentences.already_decided_reply("", "reject", None).startswith(
        "This is already rejected."
    )
    assert "12" not in sentences.decision_too_late_reply(None)


def test_a_refused_click_is_told_who_may_approve() -> None:
    """If nobody may, it says so."""
    assert "<@UANA00001>" in sentences.not_an_approver_reply("<@UANA00001>")
    assert "nobody" in sentences.not_an_approver_reply("")


def test_the_line_about_a_decision_is_one_line_with_the_reason() -> None:
    """The reason is quoted without its line end."""
    line = notices.call_decision_line(
        "reject", "UANA00001", ["Refund 40.00 EUR of order 1042"], "paid\ntwice"
    )
    assert line == "🚫 <@UANA00001> rejected: Refund 40.00 EUR of order 1042 — “paid twice”"
    assert slack_text.join_effects(["a", "b", "c", "d", "e"]) == "a; b; c; and 2 more"


def test_lines_about_a_call_name_its_requester_and_its_outcome() -> None:
    """They also name those who approved."""
    line = notices.call_decision_line(
        "reject", "UANA00001", ["Refund 40.00 EUR"], requester="UBEN00001"
    )
    assert line == "🚫 <@UANA00001> rejected: Refund 40.00 EUR. Asked by <@UBEN00001>."
    what = "Refunded 30.00 EUR of order 1042, 59.90 left"
    assert notices.call_outcome_line(CallStatus.SUCCEEDED, what) == f"✅ {what}."
    line = notices.call_outcome_line(CallStatus.SUCCEEDED, what, saved_by="UANA00001")
    assert line == f"✅ {what}. Nobody was asked: <@UANA00001> had saved the approval."
    line = notices.call_outcome_line(CallStatus.FAILED, "Refund 30.00 EUR", why="no such order")
    assert line == "❌ It failed: Refund 30.00 EUR — “no such order”."
    by = notices.asked_by_sentence("UBEN00001", ["UANA00001", "UDAN00001"])
    assert by == "Asked by <@UBEN00001>, approved by <@UANA00001> and <@UDAN00001>."
    assert notices.asked_by_sentence("UBEN00001") == "Asked by <@UBEN00001>."


def test_only_the_last_part_of_an_answer_has_feedback_buttons() -> None:
    """The buttons carry the run."""
    assert [block["type"] for block in render_model_answer_part("Hi", "run-1", False)] == [
        "markdown"
    ]
    blocks = render_model_answer_part("Hi <!here>", "run-1", True)
    accept_message(blocks)
    assert blocks[0]["text"] == "> Hi @here"
    values = [each["value"] for each in list_objects(blocks) if "value" in each]
    assert values == ["good:run-1", "bad:run-1"]
    assert [block["type"] for block in render_model_answer_part("  ", "run-1", True)] == [
        "context_actions"
    ]


@pytest.mark.parametrize("name", [*ARGUMENTS_OF_SENTENCES, *CONSTANTS])
def test_only_our_own_tokens_are_formatted_in_a_sentences_blocks(name: str) -> None:
    """These are mentions, times and links; everything else is literal text."""
    sentence = build_sentence(name)
    blocks = render_notice_sentence(sentence)
    accept_message(blocks)
    leaves = blocks[0]["elements"][0]["elements"]
    literal = "".join(leaf["text"] for leaf in leaves if leaf["type"] == "text")
    assert "&lt;" not in literal
    assert literal == unescape_mrkdwn(re.sub(r"<[^>]*>", "", sentence))
    assert len(leaves) - sum(leaf["type"] == "text" for leaf in leaves) == len(
        re.findall(r"<[^>]*>", sentence)
    )


def test_each_token_of_a_sentence_becomes_a_leaf_of_its_kind() -> None:
    """People, groups, channels, times and links."""
    sentence = (
        "<@U1> <!subteam^S1> <#C1> <!date^5^{time}|noon> "
        "<https://a.example/?x=1&amp;y|see it> &amp;lt; `x`"
    )
    leaves = render_notice_sentence(sentence)[0]["elements"][0]["elements"]
    assert [leaf for leaf in leaves if leaf != {"type": "text", "text": " "}] == [
        {"type": "user", "user_id": "U1"},
        {"type": "usergroup", "usergroup_id": "S1"},
        {"type": "channel", "channel_id": "C1"},
        {"type": "date", "timestamp": 5, "format": "{time}", "fallback": "noon"},
        {"type": "link", "url": "https://a.example/?x=1&y", "text": "see it"},
        {"type": "text", "text": " &lt; `x`"},
    ]


def test_the_retry_button_carries_the_run() -> None:
    """It is the only button below the error."""
    blocks = render_retry_message(notices.run_failed_notice(EVIL), "run-1")
    accept_message(blocks)
    assert list(map_buttons(blocks)) == [("retry", "run-1")]


def test_greeting_and_help_name_the_tools_and_mention_an_ai() -> None:
    """Help lists every tool, escaped."""
    hello = greeting_text("UBOT00001", TOOLS)
    assert "an AI" in hello
    assert "look up an order" in hello
    text = help_text(TOOLS)
    assert "AI" in text
    assert "• Refund an order" in text
    assert "• Cancel &lt;an&gt; order" in text
