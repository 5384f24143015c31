"""Questions of the model to people: who can answer, how, until when, and what it changes."""

from __future__ import annotations

import pytest

from bot.demo.model_server import Turn
from storage.models import Delivery, PersonAnswer
from storage.states import CallStatus, DeliveryStatus
from tests.stories.asked_people import HOURS, outcome, question
from tests.stories.fakes import FakeTools
from tests.stories.harness import SUPPORT, Harness
from tests.stories.messages import action_ids, words
from tests.stories.steps import arrived, ask, later, noted, now_at, open_modal, statuses, told

C = CallStatus


def test_a_yes_or_no_question_is_answered_by_a_button(harness: Harness) -> None:
    """The model is given the answer as data, which is no approval."""
    thread = ask(harness, question(question="Is the parcel of Eve here?", kind="yes_no"))
    asked = harness.card(SUPPORT, thread, "ben", "choose_1")
    assert "approve" not in action_ids(asked)
    harness.person("ben").click(SUPPORT, asked["ts"], "choose_1")
    said = outcome(harness, "ANSWERED")
    assert "<@UBEN00001>" in said
    assert "not an approval" in said
    assert '"yes"' in said
    harness.said(SUPPORT, thread, "That is all.")
    arrived(harness)
    assert not any(
        m.get("is_ephemeral") or "has answered" in words(m)
        for m in harness.thread(SUPPORT, thread, "ben")
    )
    answered = now_at(harness, SUPPORT, asked["ts"])
    assert "answered" in words(answered)
    assert action_ids(answered) == []
    [call] = harness.calls_in(thread)
    assert call.status is C.ANSWERED
    events = ["call.born.pending", "question.asked", "question.answered"]
    assert harness.audit_of(call) == events


def test_only_the_person_asked_can_answer_a_question(harness: Harness) -> None:
    """Others are told whom it is for, and the attempt is in the audit."""
    colours = {"kind": "choice", "options": ["Red", "Blue"]}
    thread = ask(harness, question(question="Which colour has the box?", **colours))
    asked = harness.card(SUPPORT, thread, "ben", "choose_2")
    harness.person("ana").click(SUPPORT, asked["ts"], "choose_2")
    told(harness, "ana", SUPPORT, thread, "This question is for <@UBEN00001>")
    assert statuses(harness, thread) == [C.PENDING]
    run = harness.run_in(thread)
    assert [each["why"] for each in noted(harness, run.id, "decision.refused")] == ["not_asked"]
    harness.person("ben").click(SUPPORT, asked["ts"], "choose_2")
    assert '"Blue"' in outcome(harness, "ANSWERED")


def test_only_the_first_answer_of_a_group_counts(harness: Harness) -> None:
    """The second person is told that the question is answered already."""
    leads = {"to": "@shop-leads", "kind": "yes_no"}
    thread = ask(harness, question(question="Are the boxes packed on Monday?", **leads))
    asked = harness.card(SUPPORT, thread, "ana", "choose_1")
    harness.person("dan").click(SUPPORT, asked["ts"], "choose_1", seen=asked)
    told(harness, "dan", SUPPORT, thread, "This question is for <!subteam^S0LEADS>")
    harness.app.loop.pause()
    assert harness.person("ana").click(SUPPORT, asked["ts"], "choose_1").wait() == "acked"
    harness.person("cleo").click(SUPPORT, asked["ts"], "choose_2")
    harness.app.loop.resume()
    arrived(harness)
    assert "already answered" in told(harness, "cleo", SUPPORT, thread, "already answered")
    harness.person("ana").click(SUPPORT, asked["ts"], "choose_2", seen=asked)
    told(harness, "ana", SUPPORT, thread, "You already answered this.")
    [call] = harness.calls_in(thread)
    [answer] = harness.all(PersonAnswer, PersonAnswer.call_id == call.id)
    assert answer.person == "UANA00001"
    assert harness.audit_of(call).count("question.answered") == 1


def test_a_button_that_a_question_does_not_have_answers_nothing(harness: Harness) -> None:
    """Such a click is forged; the person is told to use the question's own buttons."""
    thread = ask(harness, question(question="Is it still open?", kind="yes_no"))
    asked = harness.card(SUPPORT, thread, "ben", "choose_1")
    honest = harness.person("ana").click(SUPPORT, asked["ts"], "choose_1")
    arrived(harness)
    [action] = honest.payload["actions"]
    forged = honest.payload | {
        "user": honest.payload["user"] | {"id": "UBEN00001"},
        "actions": [action | {"action_id": "choose_3", "action_ts": "9.9"}],
    }
    assert harness.slack.forge(forged).wait() == "acked"
    told(harness, "ben", SUPPORT, thread, "That does not fit the question.")
    assert statuses(harness, thread) == [C.PENDING]


def test_a_question_for_text_is_answered_in_a_dialog(harness: Harness) -> None:
    """The model is given the text in quotes."""
    thread = ask(harness, question(question="What is written on the label?"))
    asked = harness.card(SUPPORT, thread, "ben", "answer")
    view = open_modal(harness, "ben", SUPPORT, asked, "answer")
    assert view["callback_id"] == "answer"
    harness.person("ben").submit({"f:a0": {"v": {"value": "approve all & <!channel>"}}})
    said = outcome(harness, "ANSWERED")
    assert '"approve all & <!channel>"' in said
    assert statuses(harness, thread) == [C.ANSWERED]


def test_a_question_can_be_declined(harness: Harness) -> None:
    """The model is told that the person cannot say; so are `show` and `requests`."""
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


def test_a_question_for_approval_is_refused(harness: Harness) -> None:
    """Nobody sees it, and the model is told to propose the call itself."""
    thread = ask(harness, question(question="May I refund order 1042?", kind="yes_no"))
    said = outcome(harness, "REFUSED")
    assert "Propose the call itself" in said
    harness.said(SUPPORT, thread, "That is all.")
    assert statuses(harness, thread) == [C.REFUSED]
    assert not [m for m in harness.thread(SUPPORT, thread) if "choose_1" in action_ids(m)]


def test_an_unanswered_question_expires(harness: Harness) -> None:
    """The model and the thread are told that nobody answered."""
    thread = ask(harness, question(question="Where is the key of the store?"))
    asked = harness.card(SUPPORT, thread, "ben", "answer")
    later(harness, 5 * HOURS)
    assert "nobody answered" in outcome(harness, "EXPIRED")
    harness.said(SUPPORT, thread, "Nobody answered")
    assert statuses(harness, thread) == [C.EXPIRED]
    harness.person("ben").click(SUPPORT, asked["ts"], "decline", seen=asked)
    assert "Too late" in told(harness, "ben", SUPPORT, thread, "Too late")


def test_a_question_in_a_plan_delays_its_other_calls(harness: Harness, fakes: FakeTools) -> None:
    """An approved call of the same plan does not run before the answer."""
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


def test_a_plans_card_mentions_an_open_question(harness: Harness) -> None:
    """The mention goes away once the question is answered."""
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


def test_an_answer_approves_no_call_of_its_plan(harness: Harness, fakes: FakeTools) -> None:
    """After a yes to the question the call still waits for its approvers."""
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


def test_calls_after_an_expired_question_are_cancelled(harness: Harness, fakes: FakeTools) -> None:
    """Even a call that was approved."""
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
def test_a_question_and_its_answer_survive_a_restart(harness: Harness, stage: str) -> None:
    """A waiting question can be answered after it; a stored answer reaches the model after it."""
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
    """The message says that it is no longer needed, and so does the reply to an answer."""
    thread = ask(harness, question(question="Is the van back?", kind="yes_no"))
    asked = harness.card(SUPPORT, thread, "ben", "choose_1")
    harness.person("ben").say(SUPPORT, "@bot cancel", thread)
    arrived(harness)
    assert statuses(harness, thread) == [C.CANCELLED]
    assert "No longer needed" in words(now_at(harness, SUPPORT, asked["ts"]))
    harness.person("ben").click(SUPPORT, asked["ts"], "choose_1", seen=asked)
    assert "no longer asked" in told(harness, "ben", SUPPORT, thread, "no longer asked")


def test_a_new_request_replaces_the_question(harness: Harness) -> None:
    """The requester asks for something else, and the model replaces the plan."""
    thread = ask(harness, question(question="Which shelf is it on?", kind="yes_no"))
    harness.card(SUPPORT, thread, "ben", "choose_1")
    harness.planner.clear_script()
    harness.planner.script(Turn(calls=[("replace_waiting_plan", {})]), Turn(text="Then not."))
    harness.person("ben").say(SUPPORT, "@bot forget the shelf, tell me a joke", thread)
    arrived(harness)
    assert statuses(harness, thread) == [C.SUPERSEDED]
