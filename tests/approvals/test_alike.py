"""No two calls look the same: whatever differs in what would run differs in what people read.

It asks no code of ours what a value is called or how it is written: it draws both and compares.
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
from tests.approvals.alike import arguments, changed, tools
from tests.approvals.every_leaf import nothing, texts
from tests.messages.cards_support import NOW, REFUND, read, view

MANY = int(os.environ.get("COUNTERSIGN_TEST_LEAVES", "600")) // 3  # pairs for each source


def stored(tool: Tool[Any], given: dict[str, Any]) -> str | None:
    """What would run; None where it is refused."""
    try:
        return dump_arguments(load_arguments(tool, json.dumps(given)))
    except (ValidationError, NonCanonicalValueError):
        return None


def drawn(tool: Tool[Any], runs: str) -> tuple[str, str | None] | None:
    """Review, and the card where it has Approve; None where nobody is asked."""
    if explain_incomplete_display(tool, runs, {}):
        return None
    rows = list_argument_values(tool, build_readable_arguments(tool, runs))
    call = replace(REFUND, effect="Act on it", values=rows)
    blocks = render_card(view(call), NOW).blocks
    on_card = read(blocks) if "Approve" in list(texts(blocks)) else None
    return read(render_review_dialog(call)["blocks"]), on_card


def differ(tool: Tool[Any], one: str, other: str) -> bool:
    """Whether people can tell these two from one another, wherever they may approve them."""
    first, second = drawn(tool, one), drawn(tool, other)
    if first is None or second is None:
        return True
    return first[0] != second[0] and (first[1] is None or first[1] != second[1])


@pytest.mark.parametrize("source", ["program", "server", "python"])
def test_no_two_calls_look_alike(source: str) -> None:
    """Random pairs that differ in one key or one value, many of them made to deceive."""
    tool, chance, compared = tools()[source], Random(source), 0
    for _ in range(MANY * 60):
        given = arguments(chance)
        one, other = stored(tool, given), stored(tool, changed(given, chance))
        if one is None or other is None or one == other:
            continue
        assert differ(tool, one, other), (one, other)
        if (compared := compared + 1) == MANY:
            return
    pytest.fail(f"only {compared} pairs could be made")


class Lists(BaseModel):
    """Lists of which nobody says what they hold, or several things."""

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
def test_lists_that_are_not_the_same(field: str, one: Any, other: Any) -> None:
    """A list never looks like a text, nor its members like those of another one."""
    tool = Tool("act", "Act", "Act on it", Effect.WRITE, Lists, nothing)
    first, second = stored(tool, {field: one}), stored(tool, {field: other})
    assert first is not None
    assert second is not None
    assert first != second
    assert differ(tool, first, second)


def test_a_text_with_an_id_in_it_is_no_mention() -> None:
    """A mention shows the id alone, so nobody is asked about a value that says more than that."""

    class Who(BaseModel):
        who: PersonId

    tool = Tool("act", "Act", "Act on it", Effect.WRITE, Who, nothing)
    named = {"UDAN00001": "Dan Weber"}
    assert explain_incomplete_display(tool, '{"who":"UDAN00001"}', named) == ""
    [row] = list_argument_values(tool, build_readable_arguments(tool, '{"who":"UDAN00001"}', named))
    assert (row.text, row.mentions) == ("Dan Weber (UDAN00001)", ("UDAN00001",))
    for odd in ("Dan (UDAN00001)", "(UDAN00001)", "UDAN00001)"):
        assert explain_incomplete_display(tool, json.dumps({"who": odd}), {})
