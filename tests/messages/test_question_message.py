"""The message and the form of a question to people: valid for any words, which mention nobody."""

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
from tests.messages.cards_support import NOW, accept_message, accept_view, list_objects
from tests.runs.fakes import FakeDirectory

EVIL = "<!channel> <@UEVE00001> *now* &"
FIELD = {"label": "Order", "kind": "number", "suggestion": "1042"}
MANY = [{**FIELD, "label": f"{number}{'<' * 70}"} for number in range(5)]


def make_question(**fields: Any) -> AskPerson:
    """Make a question as the model words it."""
    return AskPerson(**fields)


def build_view(asked: AskPerson, **changes: Any) -> QuestionView:
    """Build the view of a question that waits for Ben."""
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
    make_question(question="<" * 600),
    make_question(question=EVIL, kind="yes_no"),
    make_question(question=EVIL, kind="choice", options=["<" * 75, "&" * 74, EVIL, "d", "e"]),
    make_question(question=EVIL, kind="choice", options=[f"{n} {EVIL}" for n in range(25)]),
    AskPerson(question=EVIL, kind="form", fields=MANY),
    make_question(question=EVIL, kind="date", suggestion="2026-11-20"),
]


@pytest.mark.parametrize("asked", ODD)
def test_the_message_of_any_question_is_valid(asked: AskPerson) -> None:
    """While it waits, after an answer, and when it is over; its words mention nobody."""
    lines = (("Order", "<" * 2_000, None), (EVIL, EVIL, None))
    done = {"answered_by": "UBEN00001", "answered_at": NOW, "lines": lines}
    for each in (
        build_view(asked),
        build_view(asked, group="S0LEADS", users=()),
        build_view(asked, status=CallStatus.ANSWERED, **done),
        build_view(asked, status=CallStatus.ANSWERED, declined=True, **done),
        *(
            build_view(asked, status=status)
            for status in (CallStatus.EXPIRED, CallStatus.SUPERSEDED)
        ),
    ):
        text, blocks = render_question_message(each, NOW)
        accept_message(blocks)
        marked = [part["text"] for part in list_objects(blocks) if part.get("type") == "mrkdwn"]
        assert "UEVE" not in "".join(marked)
        assert "<!channel" not in text


@pytest.mark.parametrize("asked", ODD)
def test_the_form_of_any_question_is_valid(asked: AskPerson) -> None:
    """Labels, options and suggestions may be as long as allowed."""
    accept_view(render_question_answer_dialog(asked, CallTarget("call-1", 1)))


def test_a_form_left_as_it_is_has_its_suggestions_as_answers() -> None:
    """A required field without a suggestion has to be filled in."""
    both = [FIELD, {"label": "Day", "kind": "date"}]
    asked = make_question(question="What came?", kind="form", fields=both)
    names = SlackIdResolver(FakeDirectory(), None)
    assert isinstance(parse_question_answer_submission(asked, {}, names), FieldErrors)
    one = make_question(question="What came?", kind="form", fields=[FIELD])
    assert parse_question_answer_submission(one, {}, names) == {"a0": "1042"}


def test_only_an_answer_that_differs_is_shown_as_a_correction() -> None:
    """The suggested value, in another form, is no correction."""
    asked = make_question(question="How much?", kind="form", fields=[FIELD])
    assert list_readable_answer_values(asked, {"a0": "1042"}) == (("Order", "1042", None),)
    assert list_readable_answer_values(asked, {"a0": "1043"}) == (("Order", "1043", "1042"),)


def test_a_suggestion_that_does_not_fit_its_field_is_refused() -> None:
    """A date that is none is found before anybody is asked."""
    with pytest.raises(ValueError, match="suggestion"):
        build_suggested_answers(
            make_question(question="When was it?", kind="date", suggestion="soon")
        )


def test_only_a_person_who_was_chosen_is_mentioned() -> None:
    """The same characters in a typed text stay text."""
    fields = [{"label": "Who", "kind": "person"}, {"label": "Why"}]
    asked = make_question(question="Who?", kind="form", fields=fields)
    given = {"a0": "UDAN00001", "a1": "<@UEVE00001>"}
    lines = list_readable_answer_values(asked, given)
    assert lines == (("Who", "<@UDAN00001>", None), ("Why", "<@UEVE00001>", None))
    shown = build_view(asked, status=CallStatus.ANSWERED, answered_by="UANA00001", lines=lines)
    blocks = render_question_message(shown, NOW)[1]
    accept_message(blocks)
    named = [each["user_id"] for each in list_objects(blocks) if each.get("type") == "user"]
    assert named == ["UANA00001", "UDAN00001"]
