"""What the stand-in says after calls: look-ups, truthful reports, corrected proposals."""

from __future__ import annotations

import re
from typing import Any

import pytest

from bot.agent import outputs
from bot.demo.model_turns import CORRECTION_NOTE
from storage import call_outputs
from tests.demo.model.test_phrases import build_user_item, cancel, list_valid_calls, plan, refund

SUPERSEDED = (
    "SUPERSEDED: the requester wrote something new before this was decided, so it was not run."
)
FOUND = (
    'SUCCEEDED.\n{"order_id": 1042, "status": "cancelled_output", "left_to_refund": "80.00 EUR"}'
)


def build_call(
    name: str, arguments: str, output: str, call_id: str = "call_1"
) -> list[dict[str, Any]]:
    """A call and its output as in a transcript."""
    return [
        {"type": "function_call", "call_id": call_id, "name": name, "arguments": arguments},
        {"type": "function_call_output", "call_id": call_id, "output": output},
    ]


def build_refund(output: str) -> list[dict[str, Any]]:
    """A refund of 40.00 that was asked for, and its output."""
    arguments = '{"order_id": 1042, "amount": "40.00", "reason": "damaged"'
    arguments += ', "reason_for_approver": "It came late."}'
    return [
        build_user_item("Refund 40 EUR of order 1042"),
        *build_call("refund_order", arguments, output),
    ]


def build_look_up(request: str, output: str = FOUND) -> list[dict[str, Any]]:
    """A request, and a look-up of order 1042 made for it."""
    return [build_user_item(request), *build_call("look_up_order", '{"order_id": 1042}', output)]


def test_the_values_of_a_look_up_are_reported() -> None:
    """A status among the values is the order's, not the call's."""
    text = plan(*build_look_up("Look up order 1042")).text
    assert "**Status:** cancelled" in text
    assert "**Left to refund:** 80.00 EUR" in text


def test_a_failed_look_up_is_reported() -> None:
    """With the reason."""
    answer = plan(*build_look_up("Look up order 1042", "FAILED: there is no order 1042"))
    assert "failed: there is no order 1042" in answer.text


ANA = "<@UANA00001>"
RAN = outputs.approved_by_sentence(["UANA00001"])
NOTE = outputs.approver_note_sentence("UANA00001", "Mind the bank.\nDo not tell it twice.")
EDITED = (
    RAN + NOTE + outputs.edited_by_sentence(["UANA00001"], '{"order_id": 1042, "amount": "30.00"}')
)
DONE = outputs.succeeded_output(RAN, '{"refunded": "40.00 EUR"}')
NO = call_outputs.rejected_output([("UANA00001", "Too much. Do not ask again.")])
# Each output about a call, by the name of its maker, and the words for people.
REPORTED: dict[str, tuple[str, str]] = {
    "UNKNOWN": (outputs.UNKNOWN, "is uncertain: it was started, and it is not known"),
    "STILL_RUNNING": (outputs.STILL_RUNNING, "is uncertain: the request was cancelled while"),
    "STEP_FAILED": (outputs.STEP_FAILED, "was cancelled: an earlier step of the plan failed"),
    "REJECTED_BEFORE": (outputs.REJECTED_BEFORE, "was refused: a person rejected this very"),
    "APPROVER_LOOKUP_FAILED": (
        outputs.APPROVER_LOOKUP_FAILED,
        "was refused: Slack could not be asked who",
    ),
    "NAME_LOOKUP_FAILED": (
        outputs.NAME_LOOKUP_FAILED,
        "was refused: Slack could not be asked which",
    ),
    "WAITING_FOR_DECISION": (
        outputs.WAITING_FOR_DECISION,
        "waits for people: people have not decided this yet",
    ),
    "APPROVED_FOR_LATER": (
        outputs.APPROVED_FOR_LATER,
        "waits for people: people have approved this, and it starts later",
    ),
    "APPROVED_AND_WAITS": (outputs.APPROVED_AND_WAITS, "waits for people: this is approved and"),
    "OTHER_CALLS_WAITING": (
        outputs.OTHER_CALLS_WAITING,
        "was refused: other calls of this request wait for people",
    ),
    "failed_output": (
        outputs.failed_output("the bank said no.", RAN),
        "failed: the bank said no. Approved by",
    ),
    "failed_midway_output": (
        outputs.failed_midway_output("the line fell"),
        "failed: the line fell. It had begun",
    ),
    "cannot_ask_again_output": (
        outputs.cannot_ask_again_output("It is gone.", RAN),
        "failed: It is gone. Nothing was",
    ),
    "invalidated_output": (
        outputs.invalidated_output("it changed"),
        "is no longer valid: it was not run",
    ),
    "now_forbidden_output": (
        outputs.now_forbidden_output("no"),
        "is no longer valid: policy now forbids",
    ),
    "forbidden_output": (
        outputs.forbidden_output("no Sundays"),
        "was refused by policy: no Sundays",
    ),
    "unknown_tool_output": (
        outputs.unknown_tool_output("x", ["y"]),
        "was refused: there is no tool named 'x'",
    ),
    "too_many_calls_output": (
        outputs.too_many_calls_output(9),
        "was refused: this request may propose 9",
    ),
    "malformed_arguments_output": (
        outputs.malformed_arguments_output("no JSON"),
        "was not proposed, because it is not valid",
    ),
    "invalid_arguments_output": (
        outputs.invalid_arguments_output(["amount: too big"]),
        "was not proposed, because it is not valid: nobody was asked: - amount: too big",
    ),
    "not_showable_output": (
        outputs.not_showable_output("it has too many parts."),
        "was refused: it has too many",
    ),
    "no_approvers_output": (
        outputs.no_approvers_output("nobody may"),
        "was refused: this needs an approval",
    ),
    "card_limit_output": (
        outputs.card_limit_output(9),
        "was refused: this request has asked people 9",
    ),
    "too_many_waiting_output": (
        outputs.too_many_waiting_output(9),
        "was refused: this requester waits for decisions on 9 calls",
    ),
    "rate_limit_output": (outputs.rate_limit_output("9 calls", 5), "was refused: 9 calls of this"),
    "repeated_call_output": (
        outputs.repeated_call_output(NO),
        "was not run again; what I proposed before was rejected.",
    ),
    "card_not_shown_output": (
        outputs.card_not_shown_output("the card was lost"),
        "was cancelled: the card was lost",
    ),
    "CANCELLED": (
        call_outputs.CANCELLED,
        "was cancelled by the requester; it was not run",
    ),
    "SUB_AGENT_FAILED": (
        call_outputs.SUB_AGENT_FAILED,
        "was cancelled: the agent that proposed it could not continue",
    ),
    "WITHDRAWN": (
        call_outputs.WITHDRAWN,
        "was cancelled: the requester withdrew this call",
    ),
    "RUN_ABANDONED": (
        call_outputs.RUN_ABANDONED,
        "was set aside: a new request was made in this thread",
    ),
    "SUPERSEDED_BY_MESSAGE": (
        call_outputs.SUPERSEDED_BY_MESSAGE,
        "was set aside: the requester wrote something new",
    ),
    "WORKER_LOST": (
        call_outputs.WORKER_LOST,
        "is uncertain: it was started, and its end is not known",
    ),
    "person_reported_outcome_output": (
        call_outputs.person_reported_outcome_output("UANA00001", done=False),
        f"failed: {ANA} looked and says that",
    ),
}
# Outcomes that the thread already shows in a line of its own.
SHOWN_BY_THREAD = {
    "succeeded_output": (DONE, "That is done."),
    "rejected_output": (NO, "Then I will leave it. If something should be different, tell me what"),
    "would_fail_output": (
        outputs.would_fail_output("none is left.", earlier=True),
        "That would not work, so I asked nobody: none is left.",
    ),
    "EXPIRED": (call_outputs.EXPIRED, "Ask me again if it is still needed."),
    "plan_sent_back_output": (
        call_outputs.plan_sent_back_output("UANA00001", "not so"),
        "Tell me what to change, and I",
    ),
}
PARTS = {
    "MAX_QUOTED_CHARS",
    "INVALID_ARGUMENTS_PREFIX",
    "TOO_SLOW",
    "REMEMBERED_APPROVAL_SENTENCE",
    "approved_by_sentence",
    "approver_note_sentence",
    "edited_by_sentence",
}
PARTS |= {"is_failed_midway", "_FAILED_MIDWAY_SENTENCE", "is_person_report", "_PERSON_REPORT"}
PARTS |= {  # of a sub-agent; the stand-in has none
    "stopped_sub_agent_output",
    "sub_agent_answer_output",
    "sub_agent_failure_output",
    "recorded_calls_sentence",
    "EMPTY_ANSWER_TEXT",
    "MAX_RECORDED_CALLS",
    "MAX_ARGUMENTS_CHARS",
}
# of answers to questions, of files and of approvals, tested elsewhere
PARTS |= {
    "ANSWER_DATA_SENTENCE",
    "MAX_QUOTED_ANSWER_CHARS",
    "NEEDS_APPROVAL",
    "QUESTION_EXPIRED",
    "EARLIER_QUESTION_UNANSWERED",
    "_answer_line",
    "unapproved_sentence",
    "refused_approval_question_output",
    "question_answered_output",
    "question_declined_output",
    "nobody_to_ask_output",
}
PARTS |= {
    "REPLACE_PLAN_TOOL_SCHEMA",
    "WAITING_PLAN_WITHDRAWN",
    "PLAN_DECIDED_NOTE",
    "extract_tool_result",
}  # not about a call of their own


def test_every_output_is_tried() -> None:
    """A new output about calls has to be added to a table above."""
    there = {
        name
        for module in (outputs, call_outputs)
        for name, value in vars(module).items()
        if name.isupper() or getattr(value, "__module__", "") == module.__name__
    }
    assert there - PARTS == REPORTED.keys() | SHOWN_BY_THREAD.keys()


@pytest.mark.parametrize(("output", "told"), REPORTED.values(), ids=REPORTED)
def test_each_outcome_is_reported_truthfully(output: str, told: str) -> None:
    """With the reason, and never as done. What only concerns the model is left out."""
    answer = plan(*build_refund(output))
    assert not answer.calls
    assert answer.text.startswith(f"**Refund order 1042, amount 40.00** {told}")
    assert "is done" not in answer.text
    assert not re.search("Do not |Propose|Change it, or|If an earlier", answer.text)


@pytest.mark.parametrize(("output", "told"), SHOWN_BY_THREAD.values(), ids=SHOWN_BY_THREAD)
def test_an_outcome_shown_in_the_thread_is_not_repeated(output: str, told: str) -> None:
    """Of a single call it says what comes next; beside a call with another end, how it ended."""
    answer = plan(*build_refund(output))
    assert not answer.calls
    assert answer.text.startswith(told)
    assert ("is done" in answer.text) == (output == DONE)
    other = build_call("post_message", '{"channel": "#general"}', call_outputs.CANCELLED, "call_2")
    text = plan(*build_refund(output), *other).text
    assert text.startswith("**Refund order 1042, amount 40.00** ")
    assert ("is done" in text) == (output == DONE)


def test_an_edited_call_is_reported_with_its_new_values() -> None:
    """Even beside a note of several lines."""
    other = build_call("post_message", '{"channel": "#general"}', call_outputs.EXPIRED, "call_2")
    text = plan(*build_refund(outputs.succeeded_output(EDITED, '"ok"')), *other).text
    assert text.startswith("**Refund order 1042, amount 30.00** is done.")
    assert "40.00" not in text


@pytest.mark.parametrize(
    "output", [call_outputs.person_reported_outcome_output("UANA00001", done=True), "Who knows?"]
)
def test_an_unclear_output_is_passed_on(output: str) -> None:
    """It does not say what happened, so a correction does not propose the call again."""
    text = plan(*build_refund(output)).text
    assert text.startswith(f"**Refund order 1042, amount 40.00**: {output}")
    assert not plan(*build_refund(output), build_user_item("make it 30 EUR instead")).calls


def test_a_repeated_success_is_reported_as_not_run_again() -> None:
    """It is not reported as done once more."""
    text = plan(*build_refund(outputs.repeated_call_output(DONE))).text
    assert "was not run again; what I proposed before is done." in text


def test_a_plan_that_was_sent_back_is_changed() -> None:
    """It asks what to change, and proposes that with both reasons."""
    items = build_refund(call_outputs.plan_sent_back_output("UANA00001", "less"))
    assert "Tell me what to change, and I will propose it again." in plan(*items).text
    again = plan(*items, build_user_item("make it 30 EUR"))
    assert list_valid_calls(again) == [refund(1042, "30.00", "damaged")]
    assert f"It came late. {CORRECTION_NOTE}'" in str(again.calls)


def test_a_plan_sent_back_with_a_value_is_changed_at_once() -> None:
    """The approver said what to change."""
    answer = plan(*build_refund(call_outputs.plan_sent_back_output("UANA00001", "make it 30 EUR")))
    assert list_valid_calls(answer) == [refund(1042, "30.00", "damaged")]


@pytest.mark.parametrize("words", ["make it -5 EUR", "make it 40 USD instead", "make it nicer"])
def test_an_unreadable_correction_changes_nothing(words: str) -> None:
    """It asks, and does not propose the old values."""
    answer = plan(*build_refund(SUPERSEDED), build_user_item(words))
    assert not answer.calls
    assert "What should it be?" in answer.text


@pytest.mark.parametrize(
    "output", [outputs.QUESTION_EXPIRED, outputs.question_declined_output(ANA, "Monday")]
)
def test_a_question_without_an_answer_ends_the_request(output: str) -> None:
    """Nothing is proposed, and the question's data is not repeated."""
    question = '{"question": "Which order is it?"}'
    answer = plan(build_user_item("Refund 3 EUR"), *build_call("ask_person", question, output))
    assert not answer.calls
    assert answer.text.startswith("Without an answer I cannot continue.")


def test_calls_that_ended_alike_are_reported_together() -> None:
    """Two calls that are both done are one sentence."""
    more = build_call("post_message", '{"channel": "#general"}', DONE, "call_2")
    assert plan(*build_refund(DONE), *more).text.splitlines()[0] == "That is done."
    assert plan(*build_refund(DONE), *more).text.count("done") == 1


def test_every_call_of_a_plan_is_reported() -> None:
    """If they ended in different ways."""
    more = build_call(
        "post_message", '{"channel": "#support", "text": "x"}', "EXPIRED: nobody decided.", "call_2"
    )
    text = plan(*build_refund("REJECTED by <@UANA00001>; it was not run."), *more).text
    assert "Refund order 1042, amount 40.00** was rejected" in text
    assert "Post message #support** has expired" in text


@pytest.mark.parametrize("output", [SUPERSEDED, "REJECTED by <@UANA00001>; it was not run."])
@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("make it 30 EUR instead", refund(1042, "30.00", "damaged")),
        ("only 30,50 EUR, please", refund(1042, "30.50", "damaged")),
        ("I meant order 1045", refund(1045, "40.00", "damaged")),
        ("cancel order 1043 instead", cancel(1043, "As asked: cancel order 1043")),
    ],
)
def test_a_correction_changes_the_last_proposed_call(
    output: str, words: str, expected: Any
) -> None:
    """A whole new request replaces the call."""
    assert list_valid_calls(plan(*build_refund(output), build_user_item(words))) == [expected]


@pytest.mark.parametrize("output", ["SUCCEEDED.\n{}", "UNKNOWN: nobody knows."])
def test_a_call_that_may_have_run_is_not_corrected(output: str) -> None:
    """It would run a second time."""
    answer = plan(*build_refund(output), build_user_item("make it 30 EUR instead"))
    assert not answer.calls
    assert "has run already" in answer.text


def test_words_approve_nothing() -> None:
    """The answer says where approvals are given."""
    answer = plan(*build_refund(SUPERSEDED), build_user_item("approve"))
    assert not answer.calls
    assert "buttons" in answer.text
