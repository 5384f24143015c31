"""Answers to questions: plain replies, direct messages, forms, reminders, Home."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bot.demo.model_server import Turn
from storage.models import Delivery, Message
from storage.states import CallStatus, DeliveryStatus
from tests.stories.asked_people import HOURS, outcome, question
from tests.stories.fakes import FakeTools
from tests.stories.harness import PARTNERS, SUPPORT, Harness
from tests.stories.messages import action_ids, having, words
from tests.stories.statements import PausedStatement
from tests.stories.steps import arrived, ask, later, menu, now_at, open_modal, statuses, told
from tests.stories.sub_agents import AGENTS, errand

C = CallStatus


def test_a_plain_reply_answers_a_question_for_text(harness: Harness) -> None:
    """In the thread, without a mention, by the person asked; nobody else's reply counts."""
    thread = ask(harness, question(question="What is the name of the driver?"))
    harness.card(SUPPORT, thread, "ben", "answer")
    harness.person("ana").say(SUPPORT, "it is not me", thread)
    arrived(harness)
    assert statuses(harness, thread) == [C.PENDING]
    harness.person("ben").say(SUPPORT, "Frederick", thread)
    assert '"Frederick"' in outcome(harness, "ANSWERED")


def test_a_mention_or_cancel_is_no_answer(harness: Harness) -> None:
    """A mention is a new message to the agent, and the word "cancel" ends the request."""
    thread = ask(harness, question(question="Who locks up?"))
    harness.card(SUPPORT, thread, "ben", "answer")
    harness.settle()
    harness.person("ben").say(SUPPORT, "@bot what are you waiting for?", thread)
    harness.said(SUPPORT, thread, "That is all.")
    assert statuses(harness, thread) == [C.PENDING]
    harness.person("ben").say(SUPPORT, "cancel", thread)
    harness.slack.wait(lambda: statuses(harness, thread) == [C.CANCELLED])


def test_a_reply_to_several_questions_is_not_taken(harness: Harness) -> None:
    """Nobody can tell which of them it answers."""
    asked = [question(question=each) for each in ("Which gate?", "Which ramp?")]
    thread = ask(harness, *asked)
    harness.slack.wait(
        lambda: sum("answer" in action_ids(m) for m in harness.thread(SUPPORT, thread)) == 2
    )
    harness.settle()
    harness.person("ben").say(SUPPORT, "the second", thread)
    told(harness, "ben", SUPPORT, thread, "Several questions are waiting in this thread.")
    assert statuses(harness, thread) == [C.PENDING, C.PENDING]


def test_a_reply_that_is_too_long_is_not_taken(harness: Harness) -> None:
    """Its writer is told how long an answer may be, and the question stays open."""
    thread = ask(harness, question(question="What did the driver say?"))
    harness.card(SUPPORT, thread, "ben", "answer")
    harness.person("ben").say(SUPPORT, "and so on " * 300, thread)
    told(harness, "ben", SUPPORT, thread, "2,000 characters at most")
    assert statuses(harness, thread) == [C.PENDING]
    harness.person("ben").say(SUPPORT, "that it is late", thread)
    assert "that it is late" in outcome(harness, "ANSWERED")


def test_a_reply_does_not_answer_a_question_with_buttons(harness: Harness) -> None:
    """Each time the person is told to use the buttons."""
    thread = ask(harness, question(question="Is the lamp on?", kind="yes_no"))
    harness.card(SUPPORT, thread, "ben", "choose_1")
    for word in ("yes", "it is on"):
        harness.person("ben").say(SUPPORT, word, thread)
        told(harness, "ben", SUPPORT, thread, "please answer with the buttons under it")
        arrived(harness)
    hints = [m for m in harness.person("ben").everything(SUPPORT) if m["ts"] > thread]
    assert sum("with the buttons under it" in words(m) for m in hints) == 2
    assert statuses(harness, thread) == [C.PENDING]


def test_a_reply_to_a_sub_agents_question_points_to_the_buttons(
    own_harness: Callable[..., Harness],
) -> None:
    """The request's own agent waits for the sub-agent meanwhile."""
    policy = '[defaults]\napprovers = ["@shop-leads"]\n'
    harness = own_harness([*FakeTools().tools, *AGENTS], policy)
    asks = Turn(calls=[question(question="Is the shed open?", kind="yes_no")])
    harness.planner.script(Turn(calls=[errand("look after the shed")]), asks)
    thread = harness.person("ben").say(SUPPORT, "@bot see to the shed")
    harness.card(SUPPORT, thread, "ben", "choose_1")
    harness.settle()
    harness.person("ben").say(SUPPORT, "yes", thread)
    told(harness, "ben", SUPPORT, thread, "please answer with the buttons under it")


def test_a_reply_stored_before_the_deadline_counts(harness: Harness) -> None:
    """The bot was busy while the deadline passed."""
    thread = ask(harness, question(question="Which dock is it at?"))
    harness.card(SUPPORT, thread, "ben", "answer")
    harness.app.loop.pause()
    harness.person("ben").say(SUPPORT, "Dock seven", thread)
    harness.slack.wait(lambda: harness.all(Delivery, Delivery.status == DeliveryStatus.NEW))
    harness.clock.advance(5 * HOURS)
    harness.app.loop.resume()
    assert '"Dock seven"' in outcome(harness, "ANSWERED")


def test_a_person_outside_the_channel_is_asked_by_dm(harness: Harness) -> None:
    """A reply in the direct messages answers the question."""
    asks = question(question="Who has the spare key?", to="@dan")
    thread = ask(harness, asks, channel=PARTNERS)
    dan = harness.person("dan")

    def asked() -> dict[str, Any] | None:
        mine = dan.messages(dan.dm_channel)
        return next(
            (m for m in mine if "spare key" in words(m) and "answer" in action_ids(m)), None
        )

    message = harness.slack.wait(asked)
    dan.say(dan.dm_channel, "Gus has it", message["ts"])
    assert '"Gus has it"' in outcome(harness, "ANSWERED")
    harness.said(PARTNERS, thread, "has answered the question.")


def test_a_reply_may_arrive_before_slack_confirms_the_question(harness: Harness) -> None:
    """Slack shows the question before it returns its ts: the reply waits, and is no request."""
    asks = question(question="Who has the loading ramp?", to="@dan")
    posted = having("I can't say")  # in the question, not in the line about it
    hold = harness.slack.faults.hold("chat.postMessage", "after", posted)
    ask(harness, asks, channel=PARTNERS)
    dan = harness.person("dan")
    message = harness.slack.wait(
        lambda: next((m for m in dan.messages(dan.dm_channel) if "ramp" in words(m)), None)
    )
    dan.say(dan.dm_channel, "Hal has it", message["ts"])
    waits = (Delivery.user == dan.id, Delivery.status == DeliveryStatus.NEW)
    harness.slack.wait(lambda: harness.all(Delivery, *waits))
    turns = len(harness.planner.requests)
    harness.app.loop.wake()
    harness.slack.wait(harness.app.loop.is_idle)
    [stored] = harness.all(Delivery, *waits)
    assert "Hal has it" in stored.body
    hold.release()
    assert '"Hal has it"' in outcome(harness, "ANSWERED")
    harness.settle()
    assert len(harness.planner.requests) == turns + 1  # for the answer, not for Dan's message


def test_a_reply_is_an_answer_while_the_ts_of_the_question_is_stored(harness: Harness) -> None:
    """Slack confirms the question between two looks for it."""
    asks = question(question="Who has the long ladder?", to="@dan")
    hold = harness.slack.faults.hold("chat.postMessage", "after", having("I can't say"))
    ask(harness, asks, channel=PARTNERS)
    dan = harness.person("dan")
    message = harness.slack.wait(
        lambda: next((m for m in dan.messages(dan.dm_channel) if "ladder" in words(m)), None)
    )
    store = harness.app.core.store
    kept, store.trace = store.trace, (looks := PausedStatement("is_question_being_posted"))
    try:
        dan.say(dan.dm_channel, "Ida has it", message["ts"])
        assert looks.arrived.wait(20)
        hold.release()
        harness.slack.wait(lambda: harness.all(Message, Message.ts == message["ts"]))
    finally:
        looks.go_on.set()
        store.trace = kept
    assert '"Ida has it"' in outcome(harness, "ANSWERED")


def test_a_person_asked_is_reminded_once(harness: Harness) -> None:
    """The reminder comes halfway to the deadline, in the question's thread."""
    thread = ask(harness, question(question="When does the courier come?"))
    harness.card(SUPPORT, thread, "ben", "answer")
    for _ in range(3):
        later(harness, HOURS // 4)
    reminders = [
        m for m in harness.thread(SUPPORT, thread) if "still waiting for an answer" in words(m)
    ]
    assert len(reminders) == 1


def test_the_model_is_told_which_suggestions_were_corrected(harness: Harness) -> None:
    """Errors of the form are shown at their fields."""
    fields = [
        {"label": "Order", "kind": "number", "suggestion": "1042"},
        {"label": "Arrived on", "kind": "date"},
        {"label": "Remark", "optional": True},
    ]
    thread = ask(harness, question(question="Please complete this.", kind="form", fields=fields))
    asked = harness.card(SUPPORT, thread, "ben", "answer")
    open_modal(harness, "ben", SUPPORT, asked, "answer")
    day = {"f:a1": {"v": {"selected_date": "2026-11-20"}}}
    wrong = harness.person("ben").submit({**day, "f:a0": {"v": {"value": "12.1234567"}}})
    assert set(wrong["errors"]) == {"f:a0"}
    harness.person("ben").submit({**day, "f:a0": {"v": {"value": "1043"}}})
    said = outcome(harness, "ANSWERED")
    assert 'Order: "1043" (corrected; you had suggested "1042")' in said
    assert 'Arrived on: "2026-11-20"' in said
    harness.slack.wait(lambda: "Arrived on" in words(now_at(harness, SUPPORT, asked["ts"])))
    answered = words(now_at(harness, SUPPORT, asked["ts"]))
    assert "(suggested: 1042)" in answered
    assert "Remark" not in answered


def test_only_the_requester_can_withdraw_a_question(harness: Harness) -> None:
    """From the question's menu; the request goes on without an answer."""
    thread = ask(harness, question(question="Is the gate shut?", kind="yes_no"))
    asked = harness.card(SUPPORT, thread, "ben", "choose_1")
    menu(harness, "ana", asked, "withdraw:")
    told(harness, "ana", SUPPORT, thread, "who asked for this")
    menu(harness, "ben", asked, "withdraw:")
    harness.said(SUPPORT, thread, "That is all.")
    assert "withdrew" in outcome(harness, "CANCELLED")
    assert statuses(harness, thread) == [C.CANCELLED]
    assert "No longer needed" in words(now_at(harness, SUPPORT, asked["ts"]))


def test_home_shows_a_person_the_questions_for_them(harness: Harness) -> None:
    """They can answer from Home; nobody else sees the question there."""
    thread = ask(harness, question(question="Is the roof tight?", kind="yes_no"))
    harness.card(SUPPORT, thread, "ben", "choose_1")
    ben, ana = harness.person("ben"), harness.person("ana")
    for each in (ben, ana):
        each.open_home()
    harness.slack.wait(lambda: "Is the roof tight?" in str(ben.home()))
    arrived(harness)
    assert "Is the roof tight?" not in str(harness.slack.wait(ana.home))
    ben.click_home("answer")
    harness.slack.wait(ben.view)
    [choice] = [each for each in ben.view()["blocks"] if each.get("block_id") == "f:a0"]
    ben.submit({"f:a0": {"v": {"selected_option": choice["element"]["options"][0]}}})
    assert '"yes"' in outcome(harness, "ANSWERED")
