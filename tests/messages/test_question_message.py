"""The message and the form of a question: valid however odd its words, which mention nobody."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from bot.cards.button_codec import CallTarget
from bot.cards.field_layout import FieldErrors
from bot.cards.question_message import (
    QuestionView,
    list_readable_answer_values,
    parse_question_answer_submission,
    render_question_answer_dialog,
    render_question_message,
)
from bot.tools.names import SlackIdResolver
from bot.tools.person_question import AskPerson, build_suggested_answers
from storage.states import CallStatus
from tests.messages.cards_support import NOW, accept_message, accept_view, inside
from tests.runs.fakes import FakeDirectory

EVIL = "<!channel> <@UEVE00001> *now* &"
FIELD = {"label": "Order", "kind": "number", "suggestion": "1042"}
MANY = [{**FIELD, "label": f"{number}{'<' * 70}"} for number in range(5)]


def question_of(**fields: Any) -> AskPerson:
    """A question as the model words it."""
    return AskPerson(**fields)


def view(asked: AskPerson, **changes: Any) -> QuestionView:
    """A question that waits for Ben."""
    base = QuestionView(
        "call-1",
        1,
        asked,
        CallStatus.PENDING,
        "run-1",
        "UBEN00001",
        ("UBEN00001",),
        deadline=NOW + timedelta(hours=1),
    )
    return replace(base, **changes)


ODD = [
    question_of(question="<" * 600),
    question_of(question=EVIL, kind="yes_no"),
    question_of(question=EVIL, kind="choice", options=["<" * 75, "&" * 74, EVIL, "d", "e"]),
    question_of(question=EVIL, kind="choice", options=[f"{n} {EVIL}" for n in range(25)]),
    AskPerson(question=EVIL, kind="form", fields=MANY),
    question_of(question=EVIL, kind="date", suggestion="2026-11-20"),
]


@pytest.mark.parametrize("asked", ODD)
def test_every_question_is_a_message_that_slack_takes(asked: AskPerson) -> None:
    """While it waits, once it is answered, and when it is over; words mention nobody."""
    lines = (("Order", "<" * 2_000, None), (EVIL, EVIL, None))
    done = {"answered_by": "UBEN00001", "answered_at": NOW, "lines": lines}
    for each in (
        view(asked),
        view(asked, group="S0LEADS", users=()),
        view(asked, status=CallStatus.ANSWERED, **done),
        view(asked, status=CallStatus.ANSWERED, declined=True, **done),
        *(view(asked, status=status) for status in (CallStatus.EXPIRED, CallStatus.SUPERSEDED)),
    ):
        text, blocks = render_question_message(each, NOW)
        accept_message(blocks)
        marked = [part["text"] for part in inside(blocks) if part.get("type") == "mrkdwn"]
        assert "UEVE" not in "".join(marked)
        assert "<!channel" not in text


@pytest.mark.parametrize("asked", ODD)
def test_every_form_is_a_dialog_that_slack_takes(asked: AskPerson) -> None:
    """Also with labels, options and suggestions at their longest."""
    accept_view(render_question_answer_dialog(asked, CallTarget("call-1", 1)))


def test_a_form_left_as_it_is_needs_its_fields() -> None:
    """What is required and not suggested has to be filled in; suggestions alone may do."""
    both = [FIELD, {"label": "Day", "kind": "date"}]
    asked = question_of(question="What came?", kind="form", fields=both)
    names = SlackIdResolver(FakeDirectory(), None)
    assert isinstance(parse_question_answer_submission(asked, {}, names), FieldErrors)
    one = question_of(question="What came?", kind="form", fields=[FIELD])
    assert parse_question_answer_submission(one, {}, names) == {"a0": "1042"}


def test_only_what_was_corrected_is_told_as_corrected() -> None:
    """A value that is as suggested, in another form, is no correction."""
    asked = question_of(question="How much?", kind="form", fields=[FIELD])
    assert list_readable_answer_values(asked, {"a0": "1042"}) == (("Order", "1042", None),)
    assert list_readable_answer_values(asked, {"a0": "1043"}) == (("Order", "1043", "1042"),)


def test_a_suggestion_of_another_kind_is_refused() -> None:
    """A date that is none is found before anybody is asked."""
    with pytest.raises(ValueError, match="suggestion"):
        build_suggested_answers(
            question_of(question="When was it?", kind="date", suggestion="soon")
        )


def test_only_a_chosen_name_mentions_somebody() -> None:
    """Who was chosen is a mention; the same marks in a text that was written are text."""
    fields = [{"label": "Who", "kind": "person"}, {"label": "Why"}]
    asked = question_of(question="Who?", kind="form", fields=fields)
    given = {"a0": "UDAN00001", "a1": "<@UEVE00001>"}
    lines = list_readable_answer_values(asked, given)
    assert lines == (("Who", "<@UDAN00001>", None), ("Why", "<@UEVE00001>", None))
    shown = view(asked, status=CallStatus.ANSWERED, answered_by="UANA00001", lines=lines)
    blocks = render_question_message(shown, NOW)[1]
    accept_message(blocks)
    named = [each["user_id"] for each in inside(blocks) if each.get("type") == "user"]
    assert named == ["UANA00001", "UDAN00001"]
