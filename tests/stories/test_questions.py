"""Questions to people: asked where they are seen, answered once, told to the model as data."""

from __future__ import annotations

import pytest

from bot.demo.model_server import Turn
from storage.models import Delivery, PersonAnswer
from storage.states import CallStatus, DeliveryStatus
from tests.stories.asked_people import HOURS, outcome, question
from tests.stories.fakes import FakeTools
from tests.stories.harness import SUPPORT, Harness
from tests.stories.messages import action_ids, words
from tests.stories.steps import (
    arrived,
    ask,
    later,
    noted,
    now_at,
    open_modal,
    statuses,
    told,
)

C = CallStatus


def test_yes_or_no_is_answered_by_a_button(harness: Harness) -> None:
    """The requester is asked in the thread, and one click is the call's result, as data."""
    thread = ask(harness, question(question="Is the parcel of Eve here?", kind="yes_no"))
    asked = harness.card(SUPPORT, thread, "ben", "choose_1")
    assert "approve" not in action_ids(asked)
    harness.person("ben").click(SUPPORT, asked["ts"], "choose_1")
    said = outcome(harness, "ANSWERED")
    assert "<@UBEN00001>" in said
    assert "not an approval" in said
    assert '"yes"' in said
    harness.said(SUPPORT, thread, "That is all.")
    answered = now_at(harness, SUPPORT, asked["ts"])
    assert "answered" in words(answered)
    assert action_ids(answered) == []
    [call] = harness.calls_in(thread)
    assert call.status is C.ANSWERED
    events = ["call.born.pending", "question.asked", "question.answered"]
    assert harness.audit_of(call) == events


def test_only_who_is_asked_answers_a_question(harness: Harness) -> None:
    """Somebody else hears whom it is for, which is written down; nothing changes."""
    colours = {"kind": "choice", "options": ["Red", "Blue"]}
    thread = ask(harness, question(question="Which colour has the box?", **colours))
    asked = harness.card(SUPPORT, thread, "ben", "choose_2")
    harness.person("ana").click(SUPPORT, asked["ts"], "choose_2")
    assert "is for" in told(harness, "ana", SUPPORT, thread, "This question")
    assert statuses(harness, thread) == [C.PENDING]
    run = harness.run_in(thread)
    assert [each["why"] for each in noted(harness, run.id, "decision.refused")] == ["not_asked"]
    harness.person("ben").click(SUPPORT, asked["ts"], "choose_2")
    assert '"Blue"' in outcome(harness, "ANSWERED")


def test_the_second_answer_hears_who_was_first(harness: Harness) -> None:
    """A group is asked: the first answer counts, and the second person is told by whom and when."""
    leads = {"to": "@shop-leads", "kind": "yes_no"}
    thread = ask(harness, question(question="Are the boxes packed on Monday?", **leads))
    asked = harness.card(SUPPORT, thread, "ana", "choose_1")
    harness.app.loop.pause()
    assert harness.person("ana").click(SUPPORT, asked["ts"], "choose_1").wait() == "acked"
    harness.person("cleo").click(SUPPORT, asked["ts"], "choose_2")
    harness.app.loop.resume()
    arrived(harness)
    assert "already answered" in told(harness, "cleo", SUPPORT, thread, "already answered")
    [call] = harness.calls_in(thread)
    [answer] = harness.all(PersonAnswer, PersonAnswer.call_id == call.id)
    assert answer.person == "UANA00001"
    assert harness.audit_of(call).count("question.answered") == 1


def test_free_text_is_written_in_a_form(harness: Harness) -> None:
    """The button opens a form; what is written there is quoted to the model."""
    thread = ask(harness, question(question="What is written on the label?"))
    asked = harness.card(SUPPORT, thread, "ben", "answer")
    view = open_modal(harness, "ben", SUPPORT, asked, "answer")
    assert view["callback_id"] == "answer"
    harness.person("ben").submit({"f:a0": {"v": {"value": "approve all & <!channel>"}}})
    said = outcome(harness, "ANSWERED")
    assert '"approve all & <!channel>"' in said
    assert statuses(harness, thread) == [C.ANSWERED]


def test_who_cannot_say_says_so(harness: Harness) -> None:
    """A declined question is answered, and the model hears that they cannot say."""
    thread = ask(harness, question(question="How heavy was the first box?"))
    asked = harness.card(SUPPORT, thread, "ben", "decline")
    harness.person("ben").click(SUPPORT, asked["ts"], "decline")
    assert "cannot say" in outcome(harness, "ANSWERED")
    [call] = harness.calls_in(thread)
    [answer] = harness.all(PersonAnswer, PersonAnswer.call_id == call.id)
    assert answer.declined
    harness.said(SUPPORT, thread, "That is all.")
    assert "cannot answer a question" in now_at(harness, SUPPORT, asked["ts"])["text"]
    harness.person("ben").command(SUPPORT, f"/approvals show {call.run_id}")
    told(harness, "ben", SUPPORT, thread, "Declined: they cannot say")
    harness.person("ben").command(SUPPORT, "/approvals requests")
    told(harness, "ben", SUPPORT, thread, "💬 Declined: they cannot say: Ask “How heavy")


def test_a_question_about_approval_reaches_nobody(harness: Harness) -> None:
    """It is refused before anybody sees it, and the model is told how approval is asked."""
    thread = ask(harness, question(question="May I refund order 1042?", kind="yes_no"))
    said = outcome(harness, "REFUSED")
    assert "Propose the call itself" in said
    harness.said(SUPPORT, thread, "That is all.")
    assert statuses(harness, thread) == [C.REFUSED]
    assert not [m for m in harness.thread(SUPPORT, thread) if "choose_1" in action_ids(m)]


def test_nobody_answers_in_time(harness: Harness) -> None:
    """The deadline ends the question; the model and the thread hear that nobody answered."""
    thread = ask(harness, question(question="Where is the key of the store?"))
    asked = harness.card(SUPPORT, thread, "ben", "answer")
    later(harness, 5 * HOURS)
    assert "nobody answered" in outcome(harness, "EXPIRED")
    harness.said(SUPPORT, thread, "Nobody answered")
    assert statuses(harness, thread) == [C.EXPIRED]
    harness.person("ben").click(SUPPORT, asked["ts"], "decline", seen=asked)
    assert "Too late" in told(harness, "ben", SUPPORT, thread, "Too late")


def test_a_question_in_a_plan_holds_up_the_rest(harness: Harness, fakes: FakeTools) -> None:
    """An approved call of the same plan runs after the answer, and not before."""
    thread = ask(
        harness,
        question(question="Is the shelf free?", kind="yes_no"),
        ("note", {"text": "after the answer"}),
    )
    card = harness.card(SUPPORT, thread, "ana", "approve")
    assert "Runs once the question next to it is answered" in words(card)
    harness.person("ana").click(SUPPORT, card["ts"], "approve")
    arrived(harness)
    assert statuses(harness, thread) == [C.PENDING, C.APPROVED]
    assert not fakes.did("note", "after the answer")
    asked = harness.card(SUPPORT, thread, "ben", "choose_1")
    harness.person("ben").click(SUPPORT, asked["ts"], "choose_2")
    harness.said(SUPPORT, thread, "That is all.")
    assert statuses(harness, thread) == [C.ANSWERED, C.SUCCEEDED]
    assert fakes.did("note", "after the answer") == 1


def test_the_head_of_a_plan_names_its_questions(harness: Harness) -> None:
    """The card of a plan in which the agent asks something says so, until it is answered."""
    asks = question(question="Is the cellar dry?", kind="yes_no")
    notes = [("note", {"text": text}) for text in ("a damp one", "a dry one")]
    thread = ask(harness, *notes, asks)
    card = harness.card(SUPPORT, thread)
    assert "2 things to decide, and a question to answer" in words(card)
    harness.person("ben").click(
        SUPPORT, harness.card(SUPPORT, thread, "ben", "choose_1")["ts"], "choose_1"
    )
    harness.slack.wait(lambda: "a question" not in words(now_at(harness, SUPPORT, card["ts"])))
    assert "2 things to decide" in words(now_at(harness, SUPPORT, card["ts"]))


def test_an_answer_approves_nothing_beside_it(harness: Harness, fakes: FakeTools) -> None:
    """Yes to a question leaves the call of the same plan to its approvers."""
    thread = ask(
        harness,
        question(question="Is the door open?", kind="yes_no"),
        ("note", {"text": "waits for approvers"}),
    )
    asked = harness.card(SUPPORT, thread, "ben", "choose_1")
    harness.person("ben").click(SUPPORT, asked["ts"], "choose_1")
    arrived(harness)
    assert statuses(harness, thread) == [C.ANSWERED, C.PENDING]
    assert not fakes.did("note", "waits for approvers")


def test_what_comes_after_an_unanswered_question_is_not_run(
    harness: Harness, fakes: FakeTools
) -> None:
    """A call that was approved, behind a question that nobody answered, is cancelled."""
    thread = ask(
        harness,
        question(question="How many boxes are left?"),
        ("note", {"text": "behind silence"}),
    )
    card = harness.card(SUPPORT, thread, "ana", "approve")
    harness.person("ana").click(SUPPORT, card["ts"], "approve")
    arrived(harness)
    later(harness, 5 * HOURS)
    assert "got no answer" in outcome(harness, "CANCELLED")
    assert statuses(harness, thread) == [C.EXPIRED, C.CANCELLED]
    assert not fakes.did("note", "behind silence")


@pytest.mark.parametrize("stage", ["asked", "answered"])
def test_a_restart_loses_no_question(harness: Harness, stage: str) -> None:
    """A question that waits is answered after a restart; a stored answer is told after one."""
    text = f"What is in box {stage}?"
    thread = ask(harness, question(question=text, kind="yes_no"))
    asked = harness.card(SUPPORT, thread, "ben", "choose_1")
    if stage == "answered":
        harness.app.loop.pause()
        harness.person("ben").click(SUPPORT, asked["ts"], "choose_1")
        harness.slack.wait(lambda: harness.all(Delivery, Delivery.status == DeliveryStatus.NEW))
    harness.restart()
    if stage == "asked":
        harness.person("ben").click(SUPPORT, asked["ts"], "choose_1")
    assert '"yes"' in outcome(harness, "ANSWERED")


def test_cancelling_a_request_ends_its_question(harness: Harness) -> None:
    """The message says that it is no longer needed, and an answer to it is told so."""
    thread = ask(harness, question(question="Is the van back?", kind="yes_no"))
    asked = harness.card(SUPPORT, thread, "ben", "choose_1")
    harness.person("ben").say(SUPPORT, "@bot cancel", thread)
    arrived(harness)
    assert statuses(harness, thread) == [C.CANCELLED]
    assert "No longer needed" in words(now_at(harness, SUPPORT, asked["ts"]))
    harness.person("ben").click(SUPPORT, asked["ts"], "choose_1", seen=asked)
    assert "no longer asked" in told(harness, "ben", SUPPORT, thread, "no longer asked")


def test_a_new_request_replaces_the_question(harness: Harness) -> None:
    """Who asks for something else by a mention has the plan remade; the question goes with it."""
    thread = ask(harness, question(question="Which shelf is it on?", kind="yes_no"))
    harness.card(SUPPORT, thread, "ben", "choose_1")
    harness.planner.clear_script()
    harness.planner.script(Turn(calls=[("replace_waiting_plan", {})]), Turn(text="Then not."))
    harness.person("ben").say(SUPPORT, "@bot forget the shelf, tell me a joke", thread)
    arrived(harness)
    assert statuses(harness, thread) == [C.SUPERSEDED]
