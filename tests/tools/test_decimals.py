"""Amounts are shown everywhere with as many decimals as their type declares."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, Any, NamedTuple

import pytest
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, RootModel

from bot.cards.button_codec import CallTarget
from bot.cards.edit_form import ParsedEdit, parse_edit_submission, render_edit_dialog
from bot.cards.field_values import list_argument_values
from bot.tools import Effect, Tool, ToolContext
from bot.tools.arguments import build_readable_arguments, dump_arguments, load_arguments
from slack_sandbox.blockkit.inputs import states

Eur = Annotated[Decimal, Field(decimal_places=2)]


@dataclass
class Line:
    """A dataclass with an amount."""

    price: Eur


class Inner(BaseModel):
    """A model that holds itself."""

    price: Eur
    parts: list[Inner] = []


class Root(RootModel[list[Eur]]):
    """A list of amounts."""


class Named(NamedTuple):
    """A tuple with names."""

    price: Eur


class Holder(BaseModel):
    """An amount in each place where a type can have one."""

    model_config = ConfigDict(frozen=True)
    plain: Decimal = Field(Decimal(1), decimal_places=2, max_digits=8, gt=0)
    maybe: Eur | None = None
    text_too: Eur | str | None = None
    in_list: list[Eur] = []
    in_set: set[Eur] = set()
    in_dict: dict[str, Eur] = {}
    in_pair: tuple[str, Eur] | None = None
    in_many: tuple[Eur, ...] = ()
    in_model: Inner | None = None
    in_models: list[Inner] = []
    in_line: Line | None = None
    in_root: Root | None = None
    in_named: Named | None = None
    checked: Annotated[Decimal, AfterValidator(lambda v: v), Field(decimal_places=2)] | None = None


GIVEN = (
    '{"plain": 412.5}',
    '{"maybe": "412.5"}',
    '{"text_too": "412.5"}',
    '{"in_list": ["412.5"]}',
    '{"in_set": ["412.5"]}',
    '{"in_dict": {"a": 412.5}}',
    '{"in_pair": ["a", "412.5"]}',
    '{"in_many": ["1", "412.5"]}',
    '{"in_model": {"price": "1", "parts": [{"price": "412.5"}]}}',
    '{"in_models": [{"price": "412.5"}]}',
    '{"in_line": {"price": "412.5"}}',
    '{"in_root": ["412.5"]}',
    '{"in_named": ["412.5"]}',
    '{"checked": "412.5"}',
)


def make_tool(model: type[BaseModel], effect: str = "Act") -> Tool[Any]:
    """Make a tool that takes this model."""

    def act(args: BaseModel, context: ToolContext) -> None:
        return None

    return Tool("act", "Act", effect, Effect.WRITE, model, act)


@pytest.mark.parametrize("given", GIVEN)
def test_an_amount_is_shown_with_its_declared_decimals(given: str) -> None:
    """The card, Review, Edit and the tool all see 412.50; the record keeps 412.5."""
    tool = make_tool(Holder)
    stored = dump_arguments(load_arguments(tool, given))
    assert "412.50" not in stored
    assert "412.5" in stored
    again = load_arguments(tool, stored)
    assert "412.50" in str(again)
    assert dump_arguments(again) == stored
    shown = [row.text for row in list_argument_values(tool, build_readable_arguments(tool, stored))]
    assert any("412.50" in text for text in shown), shown


def test_the_effect_shows_an_amount_like_the_card() -> None:
    """The sentence at the top of the card has the same decimals."""
    tool = make_tool(Holder, "Refund {plain} EUR")
    assert tool.effect_sentence(load_arguments(tool, '{"plain": 412.5}')) == "Refund 412.50 EUR"


@pytest.mark.parametrize(
    ("given", "read"),
    [("1e2", "100.00"), ("-0.5", "-0.50"), ("0", "0.00"), ("99999999999999999999.1", None)],
)
def test_no_digit_of_an_amount_is_lost(given: str, read: str | None) -> None:
    """This holds for exponents, negative amounts and amounts of more than 20 digits."""
    tool = make_tool(Root)
    found = load_arguments(tool, f'["{given}"]')
    (amount,) = found.root  # type: ignore[attr-defined] # of Root
    assert str(amount) == (read or f"{given}0")
    assert amount == Decimal(given)


def test_a_number_without_declared_decimals_is_shown_as_it_is() -> None:
    """The bot does not make up a precision."""

    class Loose(BaseModel):
        ratio: Decimal
        other: Eur = Decimal(1)

    tool = make_tool(Loose)
    assert "ratio=Decimal('0.5')" in repr(load_arguments(tool, '{"ratio": "0.5"}'))


def test_typing_the_same_amount_again_is_no_edit() -> None:
    """The dialog shows 412.50; somebody types 412.5 over it."""
    tool = make_tool(Holder)
    given = build_readable_arguments(tool, dump_arguments(load_arguments(tool, '{"plain": 412.5}')))
    modal = render_edit_dialog(tool, given, target=CallTarget("call-1", 1), save_and_approve=False)
    state = states(modal["blocks"])
    action = next(iter(state["f:plain"]))
    assert state["f:plain"][action]["value"] == "412.50"
    state["f:plain"] = {action: {**state["f:plain"][action], "value": "412.5"}}
    parsed = parse_edit_submission(tool, given, state)
    assert isinstance(parsed, ParsedEdit)
    assert not parsed.changed
