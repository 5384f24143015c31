"""A card leaves out a value that is already in its effect; if in doubt, it shows the value."""

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


def do_nothing(_args: BaseModel, _context: ToolContext) -> str:
    return ""


def make_call(
    effect: str,
    before: dict[str, Any] | None = None,
    source: EffectSource = EffectSource.BY_AUTHOR,
    **given: Any,
) -> CallView:
    """Make a call of a tool with that effect, whose arguments are labelled One, Two …"""
    model: Any = create_model("Given", **{name: (type(each), ...) for name, each in given.items()})
    tool = Tool("act", "Act", effect, Effect.WRITE, model, do_nothing, effect_source=source)
    args = model(**given)
    now = build_readable_arguments(tool, dump_arguments(args))
    old = before and build_readable_arguments(tool, json.dumps(before))
    rows = mark_displayed_values(tool, args, list_argument_values(tool, now, old))
    return replace(REFUND, effect=tool.effect_sentence(args), values=rows, agent_reason="")


def list_shown_labels(call: CallView) -> set[str]:
    """List the labels of the values on its card; Review has all of them."""
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
        ("Order {one}", {"one": 1042, "two": 1042}, {"Two"}),  # by chance, or another argument
        ("Order 1042", {"one": 1042}, {"One"}),
        ("Tell {one}", {"one": "Ana and Ben"}, {"One"}),  # its end is not clear
        ("Tell {one}{two}", {"one": "a", "two": "b"}, {"One", "Two"}),
        ("Tell {one}-{two}", {"one": 5, "two": 7}, {"One", "Two"}),
        ("Pay {one}", {"one": "-5"}, {"One"}),
        ("Post “{one}”", {"one": "a” and “b"}, {"One"}),
        ("Post “{one}”", {"one": "two  blanks"}, {"One"}),
        ("Post “{one}”", {"one": "two\nlines"}, {"One"}),
        ("Post “{one}”", {"one": ""}, {"One"}),
        ("Keep {one}", {"one": True}, {"One"}),  # "True" in the effect, "yes" in the list
        ("Pay {one!r}", {"one": "x"}, {"One"}),
        ("Pay {one:>5}", {"one": "x"}, {"One"}),
        ("Pay {one.real}", {"one": 5}, {"One"}),
        ("Pay {one[0]}", {"one": ["x"]}, {"One"}),
        ("Pay {one} of {three}", {"one": 5}, {"One"}),  # no such field, so the effect is the title
        ("Send {one}", {"one": SecretStr("hush")}, {"One"}),
        ("Send “{one}”", {"one": "שלום abc"}, {"One"}),  # isolated because it is right-to-left
    ],
)
def test_a_value_that_the_effect_shows_is_left_out(
    effect: str, given: dict[str, Any], left: set[str]
) -> None:
    """The template shows it unchanged, as one word or in quotes."""
    assert list_shown_labels(make_call(effect, **given)) == left


def test_an_edited_value_is_shown_although_the_effect_has_it() -> None:
    """It is shown with its previous value; values that are not edited are left out."""
    call = make_call("Pay {one} to {two}", {"one": 5, "two": "ana"}, one=6, two="ana")
    assert list_shown_labels(call) == {"One"}


@pytest.mark.parametrize("source", list(EffectSource))
def test_no_value_is_left_out_unless_the_author_wrote_the_effect(source: EffectSource) -> None:
    """The effect of an untrusted server's tool may not be true."""
    call = make_call("Pay {one}", None, source, one=5)
    assert list_shown_labels(call) == (set() if source is EffectSource.BY_AUTHOR else {"One"})


def test_a_masked_value_is_shown_although_the_effect_has_it() -> None:
    """Onlookers see a mask in both places, and that the value is masked."""
    text = "the key is xoxb-123456789012-abcdefghijkl"
    call = make_call("Post “{one}”", one=text)
    assert list_shown_labels(call) == set()
    seen = mask_call_for_viewers(call)
    assert seen.effect != call.effect
    assert list_shown_labels(seen) == {"One"}
