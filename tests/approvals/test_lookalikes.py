"""No two calls look the same: whatever differs in what would run differs in what people read.

No code of ours says how a value is written here: both calls are drawn and compared.
"""

from __future__ import annotations

import json
import os
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from bot.approvals.call_checks import explain_incomplete_display
from bot.cards.card import render_card
from bot.cards.field_values import list_argument_values
from bot.cards.review_dialog import render_review_dialog
from bot.tools import Effect, Tool
from bot.tools.arguments import build_readable_arguments, dump_arguments, load_arguments
from bot.tools.names import PersonId
from storage.digest import NonCanonicalValueError
from tests.approvals.every_leaf import do_nothing, texts
from tests.approvals.lookalikes import change_one_thing, make_arguments, make_tools
from tests.messages.cards_support import NOW, REFUND, read, view

MANY = int(os.environ.get("COUNTERSIGN_TEST_LEAVES", "600")) // 3  # pairs for each source


def get_stored_arguments(tool: Tool[Any], given: dict[str, Any]) -> str | None:
    """The arguments that would run; None if they are refused."""
    try:
        return dump_arguments(load_arguments(tool, json.dumps(given)))
    except (ValidationError, NonCanonicalValueError):
        return None


def draw_call(tool: Tool[Any], runs: str) -> tuple[str, str | None] | None:
    """Review's text, and the card's if it has Approve; None if nobody is asked."""
    if explain_incomplete_display(tool, runs, {}):
        return None
    rows = list_argument_values(tool, build_readable_arguments(tool, runs))
    call = replace(REFUND, effect="Act on it", values=rows)
    blocks = render_card(view(call), NOW).blocks
    on_card = read(blocks) if "Approve" in list(texts(blocks)) else None
    return read(render_review_dialog(call)["blocks"]), on_card


def look_different(tool: Tool[Any], one: str, other: str) -> bool:
    """Whether people can tell two calls from one another wherever they may approve them."""
    first, second = draw_call(tool, one), draw_call(tool, other)
    if first is None or second is None:
        return True
    return first[0] != second[0] and (first[1] is None or first[1] != second[1])


@pytest.mark.parametrize("source", ["program", "server", "python"])
def test_random_calls_that_differ_look_different(source: str) -> None:
    """They differ in one key or value, and many are made to deceive."""
    tool, chance, compared = make_tools()[source], Random(source), 0
    for _ in range(MANY * 60):
        given = make_arguments(chance)
        one, other = (
            get_stored_arguments(tool, given),
            get_stored_arguments(tool, change_one_thing(given, chance)),
        )
        if one is None or other is None or one == other:
            continue
        assert look_different(tool, one, other), (one, other)
        if (compared := compared + 1) == MANY:
            return
    pytest.fail(f"only {compared} pairs could be made")


class Lists(BaseModel):
    """Lists with members of any type, of one, or of several."""

    loose: list[Any] = []
    lines: list[str] = []
    mixed: list[str | int | bool | None] = []
    either: str | list[str] = ""


@pytest.mark.parametrize(
    ("field", "one", "other"),
    [
        ("loose", [1], ["1"]),
        ("loose", [True], ["yes"]),
        ("loose", [None], ["—"]),
        ("loose", ["a", "b"], ["a, b"]),
        ("loose", [[]], ["(empty list)"]),
        ("loose", [None], ["no value"]),
        ("lines", [], ["none"]),
        ("lines", [""], ["empty"]),
        ("lines", ["a", "b"], ["a, b"]),
        ("lines", ["a", "b"], ["a\nb"]),
        ("lines", ["a, b", "c"], ["a", "b, c"]),
        ("lines", [], ["(empty list)"]),
        ("mixed", [1, "1"], ["1", 1]),
        ("mixed", [True], ["yes"]),
        ("mixed", [None], ["null"]),
        ("either", "a", ["a"]),
        ("either", "a, b", ["a", "b"]),
        ("either", "", []),
    ],
)
def test_different_lists_and_texts_look_different(field: str, one: Any, other: Any) -> None:
    """A list never looks like a text, nor its members like those of another list."""
    tool = Tool("act", "Act", "Act on it", Effect.WRITE, Lists, do_nothing)
    first, second = (
        get_stored_arguments(tool, {field: one}),
        get_stored_arguments(tool, {field: other}),
    )
    assert first is not None
    assert second is not None
    assert first != second
    assert look_different(tool, first, second)


def test_a_person_field_with_more_than_an_id_is_not_asked_about() -> None:
    """A mention shows the id alone and would hide the rest."""

    class Who(BaseModel):
        who: PersonId

    tool = Tool("act", "Act", "Act on it", Effect.WRITE, Who, do_nothing)
    named = {"UDAN00001": "Dan Weber"}
    assert explain_incomplete_display(tool, '{"who":"UDAN00001"}', named) == ""
    [row] = list_argument_values(tool, build_readable_arguments(tool, '{"who":"UDAN00001"}', named))
    assert (row.text, row.mentions) == ("Dan Weber (UDAN00001)", ("UDAN00001",))
    for odd in ("Dan (UDAN00001)", "(UDAN00001)", "UDAN00001)"):
        assert explain_incomplete_display(tool, json.dumps({"who": odd}), {})
