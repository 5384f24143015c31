"""Arguments are stored and loaded again as they were validated."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Any, Literal
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import (
    AliasChoices,
    BaseModel,
    Field,
    SecretBytes,
    SecretStr,
    ValidationError,
    computed_field,
)

from bot.tools import Effect, Tool, ToolContext
from bot.tools.arguments import build_readable_arguments, dump_arguments, load_arguments
from bot.tools.names import PersonId
from storage.digest import NonCanonicalValueError


class Size(Enum):
    SMALL = "s"
    LARGE = "l"


class Line(BaseModel):
    sku: str
    price: Decimal
    password: SecretStr | None = None


class Everything(BaseModel):
    amount: Decimal = Decimal(1)
    day: date = date(2026, 3, 2)
    moment: datetime = datetime(2026, 3, 2, 12, tzinfo=UTC)
    clock: time = time(12, 30)
    wait: timedelta = timedelta(minutes=90)
    size: Size = Size.SMALL
    choice: Literal["a", "b"] = "a"
    secret: SecretStr = SecretStr("")
    raw: SecretBytes = SecretBytes(b"")
    number: int = 0
    ratio: float = 0.0
    key: UUID = UUID(int=0)
    tags: set[str] = set()
    lines: list[Line] = []
    by_size: dict[str, Line] = {}
    pair: tuple[int, str] = (0, "")
    where: Path = Path("x")
    maybe: int | None = None
    city: str = Field("", alias="cityName")
    zip: str = Field(
        "", validation_alias=AliasChoices("zip-code", "postcode"), serialization_alias="plz"
    )

    @computed_field  # type: ignore[prop-decorator] # as Pydantic documents it
    @property
    def label(self) -> str:
        """Derived, and no argument."""
        return f"{self.size.value}-{self.number}"


def make_tool(model: type[BaseModel]) -> Tool[Any]:
    """A tool that takes this model."""

    def act(args: Any, context: ToolContext) -> None:
        return None

    return Tool(
        name="act", title="Act", effect="Act", does=Effect.WRITE, arguments=model, function=act
    )


TOOL = make_tool(Everything)
words = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
prices = st.decimals(min_value=-(10**20), max_value=10**20, allow_nan=False, allow_infinity=False)
lines = st.builds(Line, sku=words, price=prices, password=st.none() | words.map(SecretStr))
everything = st.builds(
    Everything,
    amount=prices,
    day=st.dates(),
    moment=st.datetimes(timezones=st.none() | st.just(UTC)),
    clock=st.times(),
    wait=st.timedeltas(timedelta(days=-400), timedelta(days=400)),
    size=st.sampled_from(Size),
    choice=st.sampled_from(["a", "b"]),
    secret=words.map(SecretStr),
    raw=words.map(lambda word: SecretBytes(word.encode())),
    number=st.integers(),
    ratio=st.floats(allow_nan=False, allow_infinity=False),
    key=st.uuids(),
    tags=st.sets(words, max_size=4),
    lines=st.lists(lines, max_size=2),
    by_size=st.dictionaries(words, lines, max_size=2),
    pair=st.tuples(st.integers(), words),
    maybe=st.none() | st.integers(),
    cityName=words,
    postcode=words,
)


@given(everything)
def test_arguments_are_loaded_as_they_were_stored(args: Everything) -> None:
    """The tool gets what was validated, secrets included.

    Dumping them again gives the very same text.
    """
    text = dump_arguments(args)
    loaded = load_arguments(TOOL, text)
    assert loaded == args
    assert dump_arguments(loaded) == text


@given(everything)
def test_the_record_holds_fields_and_nothing_derived(args: Everything) -> None:
    """Every field is stored under its own name; secrets are stored in clear."""
    stored = json.loads(dump_arguments(args))
    assert stored.keys() == Everything.model_fields.keys()
    assert stored["secret"] == args.secret.get_secret_value()
    assert [line["sku"] for line in stored["lines"]] == [line.sku for line in args.lines]


def test_equal_arguments_are_stored_as_the_same_text() -> None:
    """This is how a repeated call is recognised."""
    for left, right in (
        ({"amount": "40.0"}, {"amount": "40.00"}),
        ({"amount": 40}, {"amount": "4e1"}),
        ({"lines": [{"sku": "a", "price": "1.10"}]}, {"lines": [{"sku": "a", "price": "1.1"}]}),
        ({"tags": ["b", "a", "c"]}, {"tags": ["c", "b", "a", "a"]}),
        ({"cityName": "Köln"}, {"city": "Köln"}),
        ({"postcode": "1"}, {"zip-code": "1"}),
        ({"ratio": 1}, {"ratio": 1.0}),
    ):
        texts = {dump_arguments(load_arguments(TOOL, json.dumps(each))) for each in (left, right)}
        assert len(texts) == 1, texts


DUMP_A_SET = """
from tests.tools.test_arguments import TOOL
from bot.tools.arguments import build_readable_arguments, dump_arguments, load_arguments
from bot.tools.names import PersonId
print(dump_arguments(load_arguments(TOOL, '{"tags": ["a", "b", "c", "d", "e", "f"]}')))
"""


def test_a_set_is_stored_in_the_same_order_after_a_restart() -> None:
    """Another process hashes strings differently."""
    root = Path(__file__).parents[2]
    ran = [
        subprocess.run(
            [sys.executable, "-c", DUMP_A_SET],
            env=os.environ | {"PYTHONHASHSEED": seed},
            cwd=root,
            text=True,
            capture_output=True,
            check=True,
            timeout=30,
        )
        for seed in ("1", "2")
    ]
    assert ran[0].stdout == ran[1].stdout
    assert json.loads(ran[0].stdout)["tags"] == list("abcdef")


@pytest.mark.parametrize(
    "text",
    [
        '{"unknown": 1}',
        '{"lines": [{"sku": "a", "price": "1", "extra": 1}]}',
        '{"label": "s-0"}',
        "{",
        "[]",
    ],
)
def test_arguments_that_do_not_fit_the_model_are_not_loaded(text: str) -> None:
    """Unknown fields are refused, also in nested models, and so is anything but an object."""
    with pytest.raises(ValidationError):
        load_arguments(TOOL, text)


def test_nan_and_infinity_are_not_stored() -> None:
    """JSON has no text for them."""
    for odd in (float("nan"), float("inf")):
        with pytest.raises(NonCanonicalValueError):
            dump_arguments(Everything(ratio=odd))


def test_people_in_a_set_are_shown_by_name() -> None:
    """They are shown like people in a list, in the order of the record."""

    class Invited(BaseModel):
        listed: list[PersonId]
        together: set[PersonId]

    tool = make_tool(Invited)
    both = ["UANA00001", "UDAN00001"]
    text = dump_arguments(Invited(listed=both, together={*both}))
    shown = build_readable_arguments(tool, text, {"UANA00001": "Zoe", "UDAN00001": "Ben"})
    assert shown["together"] == ["Zoe (UANA00001)", "Ben (UDAN00001)"] == shown["listed"]


def test_an_effect_lists_the_members_of_a_set_in_a_fixed_order() -> None:
    """The order is the same in every process."""

    class Invited(BaseModel):
        people: frozenset[PersonId] = frozenset()

    tool = replace(make_tool(Invited), effect="Invite {people}")
    some = load_arguments(tool, '{"people": ["UDAN00001", "UANA00001"]}')
    assert tool.effect_sentence(some, {"UANA00001": "Zoe"}) == "Invite Zoe, UDAN00001"
    assert tool.effect_sentence(Invited()) == "Invite none"


def test_an_effect_may_name_one_member_of_a_list() -> None:
    """Where the list has no such member, the tool's title is used instead."""

    class Tagged(BaseModel):
        tags: list[str] = []
        people: list[PersonId] = []

    tool = replace(make_tool(Tagged), effect="Tag {people[1]} first as {tags[0]}, then {tags:.9}")
    some = load_arguments(tool, '{"tags": ["urgent", "red"], "people": ["UDAN00001", "UANA00001"]}')
    assert (
        tool.effect_sentence(some, {"UANA00001": "Zoe"})
        == "Tag Zoe first as urgent, then urgent, r"
    )
    assert tool.effect_sentence(Tagged()) == tool.title


def test_an_effect_shows_an_enum_member_by_its_value() -> None:
    """This also holds for members in a list and in a nested model."""

    class Place(Enum):
        EU = "prod-eu"
        US = "prod-us"

    class Plan(BaseModel):
        place: Place = Place.EU

    class Restart(BaseModel):
        size: Size = Size.LARGE
        place: Place = Place.EU
        places: list[Place] = [Place.EU, Place.US]
        plan: Plan = Plan()

    tool = replace(
        make_tool(Restart),
        effect="Restart {size:>3} in {place}, {places} and {plan.place}, {place!r}, {place.name}",
    )
    sentence = "Restart l in prod-eu, prod-eu, prod-us and prod-eu, 'prod-eu', EU"
    assert tool.effect_sentence(Restart()) == sentence
    assert tool.list_arguments_in_effect(Restart())["place",] == "prod-eu"
