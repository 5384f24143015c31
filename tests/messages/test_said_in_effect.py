"""A card leaves out a value that its effect sentence has already, and in doubt shows it."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from pydantic import BaseModel, SecretStr, create_model

from bot.cards.card import render_card
from bot.cards.field_values import list_argument_values, mark_displayed_values
from bot.cards.review_dialog import mask_call_for_viewers, render_review_dialog
from bot.cards.views import CallView
from bot.tools import Effect, EffectSource, Tool, ToolContext
from bot.tools.arguments import build_readable_arguments, dump_arguments
from tests.messages.cards_support import NOW, REFUND, accept_message, read, view


def nothing(_args: BaseModel, _context: ToolContext) -> str:
    return ""


def call_with(
    effect: str,
    before: dict[str, Any] | None = None,
    source: EffectSource = EffectSource.BY_AUTHOR,
    **given: Any,
) -> CallView:
    """A call of a tool with that template, whose arguments are labelled One, Two …"""
    model: Any = create_model("Given", **{name: (type(each), ...) for name, each in given.items()})
    tool = Tool("act", "Act", effect, Effect.WRITE, model, nothing, effect_source=source)
    args = model(**given)
    now = build_readable_arguments(tool, dump_arguments(args))
    old = before and build_readable_arguments(tool, json.dumps(before))
    rows = mark_displayed_values(tool, args, list_argument_values(tool, now, old))
    return replace(REFUND, effect=tool.effect_sentence(args), values=rows, agent_reason="")


def shown(call: CallView) -> set[str]:
    """The labels of the values that stand on its card; Review has all of them."""
    drawn = render_card(view(call), NOW).blocks
    accept_message(drawn)
    labels = {each.label for each in call.values}
    review = read(render_review_dialog(call)["blocks"])
    assert all(any(each + end in review for end in (":", ", now:", " (")) for each in labels)
    return {each for each in labels if f"{each}:" in read(drawn)}


@pytest.mark.parametrize(
    ("effect", "given", "left"),
    [
        ("Refund {one} EUR of order {two}", {"one": "40.00", "two": 1042}, set()),
        ("Post “{one}” in {two}", {"one": "all is well", "two": "general"}, set()),
        ('Post "{one}".', {"one": "all is well"}, set()),
        ("Tell {one}.", {"one": "ana@example.com"}, set()),
        ("Order {one}", {"one": 1042, "two": 1042}, {"Two"}),  # by chance, or of another
        ("Order 1042", {"one": 1042}, {"One"}),
        ("Tell {one}", {"one": "Ana and Ben"}, {"One"}),  # where does it end?
        ("Tell {one}{two}", {"one": "a", "two": "b"}, {"One", "Two"}),
        ("Tell {one}-{two}", {"one": 5, "two": 7}, {"One", "Two"}),
        ("Pay {one}", {"one": "-5"}, {"One"}),
        ("Post “{one}”", {"one": "a” and “b"}, {"One"}),
        ("Post “{one}”", {"one": "two  blanks"}, {"One"}),
        ("Post “{one}”", {"one": "two\nlines"}, {"One"}),
        ("Post “{one}”", {"one": ""}, {"One"}),
        ("Keep {one}", {"one": True}, {"One"}),  # True in the sentence, yes in words
        ("Pay {one!r}", {"one": "x"}, {"One"}),
        ("Pay {one:>5}", {"one": "x"}, {"One"}),
        ("Pay {one.real}", {"one": 5}, {"One"}),
        ("Pay {one[0]}", {"one": ["x"]}, {"One"}),
        ("Pay {one} of {three}", {"one": 5}, {"One"}),  # then the title stands for the effect
        ("Send {one}", {"one": SecretStr("hush")}, {"One"}),
        ("Send “{one}”", {"one": "שלום abc"}, {"One"}),  # isolated for reading from right to left
    ],
)
def test_what_the_effect_says_is_not_listed_again(
    effect: str, given: dict[str, Any], left: set[str]
) -> None:
    """As one word or in quotes, by the template, and unchanged."""
    assert shown(call_with(effect, **given)) == left


def test_what_was_edited_is_listed() -> None:
    """With what it was before; the others are said as they were."""
    call = call_with("Pay {one} to {two}", {"one": 5, "two": "ana"}, one=6, two="ana")
    assert shown(call) == {"One"}


@pytest.mark.parametrize("source", list(EffectSource))
def test_only_an_author_is_believed(source: EffectSource) -> None:
    """What a server says of itself says nothing of the values."""
    call = call_with("Pay {one}", None, source, one=5)
    assert shown(call) == (set() if source is EffectSource.BY_AUTHOR else {"One"})


def test_what_is_masked_is_listed() -> None:
    """Where onlookers see a mask in both, they see that the value is masked."""
    text = "the key is xoxb-123456789012-abcdefghijkl"
    call = call_with("Post “{one}”", one=text)
    assert shown(call) == set()
    seen = mask_call_for_viewers(call)
    assert seen.effect != call.effect
    assert shown(seen) == {"One"}
