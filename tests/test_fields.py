"""The Edit modal by hand: each kind of value shown, edited, refused and kept."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, Literal

import pytest
from pydantic import (
    AliasChoices,
    BaseModel,
    ConfigDict,
    EmailStr,
    Field,
    NaiveDatetime,
    computed_field,
    field_validator,
    model_validator,
)

from bot.slack.fields import FieldErrors, Parsed, edit_modal, read_submission
from tests.fields_support import Address, Everything, dumped, edited, errors, submit, tool_for, typed, view_of

TOOL = tool_for(Everything, secret=frozenset({"token"}))
NOW = dumped(Everything(name="Ana"))
LONG = "x" * 200


def block(view: dict[str, Any], block_id: str) -> dict[str, Any]:
    """The block of that id."""
    return next(block for block in view["blocks"] if block.get("block_id") == block_id)


def element(tool: Any, arguments: dict[str, Any], block_id: str) -> dict[str, Any]:
    """The element of that input."""
    found: dict[str, Any] = block(view_of(tool, arguments), block_id)["element"]
    return found


def test_metadata_holds_no_value() -> None:
    """The modal carries the call and its revision only, and no secret appears anywhere in it (S15)."""
    arguments = NOW | {"password": "hunter22"}
    view = view_of(TOOL, arguments, approve=True)
    assert json.loads(view["private_metadata"]) == {"call": "call-1", "revision": 3}
    assert view["callback_id"] == "edit_call"
    assert "s3cret" not in json.dumps(view)
    assert "hunter" not in json.dumps(view)
    assert json.dumps(view, ensure_ascii=False).count("••••••••") == 2


@pytest.mark.parametrize("title", ["Refund an order", "A title that is too long for a modal", "<&> <&> <&> <&>", " "])
def test_any_title_fits(title: str) -> None:
    """The modal's title is within Slack's 24 characters, as Slack counts them (S03)."""
    assert view_of(tool_for(Address, title=title), {"city": "x"})["title"]["text"].strip()


def test_widgets() -> None:
    """Each kind has the input that people know for it."""
    view = view_of(TOOL, NOW)
    widgets = {b["block_id"][2:]: b["element"]["type"] for b in view["blocks"] if b["type"] == "input"}
    assert widgets == {
        "name": "plain_text_input",
        "note": "plain_text_input",
        "body": "plain_text_input",
        "count": "number_input",
        "big": "plain_text_input",
        "amount": "number_input",
        "ratio": "number_input",
        "yes": "radio_buttons",
        "maybe": "radio_buttons",
        "speed": "static_select",
        "level": "static_select",
        "day": "datepicker",
        "at": "datetimepicker",
        "clock": "timepicker",
        "email": "email_text_input",
        "link": "url_text_input",
        "tags": "plain_text_input",
        "labels": "plain_text_input",
        "address.city": "plain_text_input",
        "address.zip_code": "plain_text_input",
        "address.country": "static_select",
        "other": "radio_buttons",
        "other.city": "plain_text_input",
        "other.zip_code": "plain_text_input",
        "other.country": "static_select",
        "lines": "plain_text_input",
        "extra": "plain_text_input",
        "either": "plain_text_input",
    }


def test_untouched_changes_nothing() -> None:
    """An edit that changes nothing is no edit, down to microseconds and zones (B14)."""
    assert submit(TOOL, NOW) == Parsed(NOW, changed=False, approve=False)


@pytest.mark.parametrize(
    ("entered", "changes"),
    [
        ({"name": "Ben"}, {"name": "Ben"}),
        ({"name": " two\nlines "}, {"name": " two\nlines "}),
        ({"name": None}, {"name": ""}),
        ({"count": "007"}, {"count": 7}),
        ({"count": "1"}, {}),
        ({"big": str(2**61 + 1)}, {"big": 2**61 + 1}),
        ({"amount": "40.0"}, {}),
        ({"amount": "0.10000000000000000001"}, {"amount": "0.10000000000000000001"}),
        ({"ratio": "0.25"}, {"ratio": 0.25}),
        ({"yes": "yes"}, {"yes": True}),
        ({"maybe": "no"}, {"maybe": False}),
        ({"speed": "fast & furious"}, {"speed": "fast & furious"}),
        ({"level": "2"}, {"level": 2}),
        ({"level": "x"}, {"level": "x"}),
        ({"day": "2027-01-01"}, {"day": "2027-01-01"}),
        ({"clock": "10:30"}, {}),
        ({"clock": "10:31"}, {"clock": "10:31:00"}),
        ({"email": "ben@EXAMPLE.com"}, {"email": "ben@example.com"}),
        ({"link": "https://EXAMPLE.com/a"}, {}),
        ({"link": "https://example.org"}, {"link": "https://example.org/"}),
        ({"tags": "a\n\n  b \r\n"}, {"tags": ["a", "b"]}),
        ({"tags": "[]"}, {"tags": ["[]"]}),
        ({"labels": "[]"}, {"labels": []}),
        ({"address__city": "Bonn"}, {"address.city": "Bonn"}),
        ({"address__country": "FR"}, {"address.country": "FR"}),
        ({"lines": '[{"sku": "a"}]'}, {"lines": [{"sku": "a", "count": 1}]}),
        ({"extra": '{"n": 1.0, "b": true}'}, {"extra": {"n": 1.0, "b": True}}),
        ({"extra": " {  } "}, {}),
        ({"either": '"1"'}, {"either": "1"}),
    ],
)
def test_edit_of_one_value(entered: dict[str, Any], changes: dict[str, Any]) -> None:
    """An edit changes that value, which keeps its type, and nothing else."""
    found = edited(TOOL, NOW, **entered)
    assert found == changes
    assert [type(value) for value in found.values()] == [type(value) for value in changes.values()]


def test_date_time_keeps_its_zone() -> None:
    """A picked minute comes in the zone there was; the same minute leaves the seconds alone."""
    before = datetime.fromisoformat(NOW["at"])
    same_minute = int(before.timestamp()) // 60 * 60
    assert edited(TOOL, NOW, at=same_minute) == {}
    assert edited(TOOL, NOW, at=same_minute + 3600) == {"at": "2026-11-21T11:00:00+02:00"}


def test_date_time_without_zone_is_typed() -> None:
    """A picker means the reader's zone, so a moment without a zone is text; so is one that pickers do not know."""

    class Moments(BaseModel):
        naive: NaiveDatetime | None = None
        plain: datetime = datetime(2026, 1, 1, 10)
        old: datetime = datetime(1970, 1, 1, tzinfo=UTC)

    tool, now = tool_for(Moments), dumped(Moments())
    view = view_of(tool, now)
    assert {block(view, f"f:{name}")["element"]["type"] for name in now} == {"plain_text_input"}
    assert edited(tool, now, naive="2026-02-03T04:05:06") == {"naive": "2026-02-03T04:05:06"}
    assert errors(tool, now, plain="tomorrow").keys() == {"f:plain"}


@pytest.mark.parametrize(
    ("before", "entered", "after"),
    [
        (None, None, None),
        (None, '""', ""),
        (None, "x", "x"),
        ("", '""', ""),
        ("", None, None),
        ("x", None, None),
        ("x", '""', ""),
        ('""', '""', '""'),
    ],
)
def test_unset_differs_from_empty(before: str | None, entered: str | None, after: str | None) -> None:
    """An optional text can be unset, empty or filled, and goes from each to each."""
    parsed = submit(TOOL, NOW | {"note": before}, note=entered)
    assert isinstance(parsed, Parsed)
    assert parsed.arguments["note"] == after
    assert parsed.changed == (before != after)


@pytest.mark.parametrize("before", [None, [], ["a"], ["[]"], [""], ["a\nb"], [" a"], ["", "[]"]])
def test_lists_of_any_strings_survive(before: list[str] | None) -> None:
    """A list comes back from an untouched input as it was, whatever is in it."""
    arguments = NOW | {"labels": before}
    assert edited(TOOL, arguments, name="Ben") == {"name": "Ben"}
    first = element(TOOL, arguments, "f:labels").get("initial_value")
    as_lines = {None: None, "[]": [], "a": ["a"]}
    assert as_lines[first] == before if first in as_lines else json.loads(str(first)) == before
    assert edited(TOOL, arguments, labels=None) == ({} if before is None else {"labels": None})


def test_optional_nested() -> None:
    """A nested model is set and unset as a whole, and set with the defaults of what is left empty."""
    assert edited(TOOL, NOW, other="yes", other__city="Bonn") == {
        "other": None,
        "other.city": "Bonn",
        "other.zip_code": None,
        "other.country": "DE",
    }
    there = NOW | {"other": {"city": "Bonn", "zip_code": None, "country": "FR"}}
    parsed = submit(TOOL, there, other="no", other__city=None)
    assert isinstance(parsed, Parsed)
    assert parsed.arguments["other"] is None


def test_optional_nested_half_filled() -> None:
    """What is entered for a model that stays unset is not dropped without a word; what is missing is asked for."""
    assert errors(TOOL, NOW, other__city="Bonn").keys() == {"f:other"}
    assert errors(TOOL, NOW, other="yes").keys() == {"f:other.city"}


@pytest.mark.parametrize(
    ("entered", "block_id", "said"),
    [
        ({"amount": "0"}, "amount", "greater than 0"),
        ({"big": "1.5"}, "big", "whole number"),
        ({"big": "1_000"}, "big", "whole number"),
        ({"big": None}, "big", "needed"),
        ({"link": "https://"}, "link", "URL"),
        ({"address__city": "x", "email": "a@b.c-"}, "email", "email"),
        ({"lines": '[{"sku": "a"}, {"count": 1}]'}, "lines", "At 2 › sku: A value is needed"),
        ({"lines": '[{"sku": "a"'}, "lines", "line 1, column 13"),
        ({"extra": '{"a": 1,\n "a": 2}'}, "extra", '"a" stands twice'),
        ({"extra": '{"a": NaN}'}, "extra", "NaN"),
        ({"extra": '{"a": 1e999}'}, "extra", "too large"),
        ({"extra": '{"a": "\\ud800"}'}, "extra", "cannot be stored"),
        ({"extra": '{"a": ' + "[" * 1200 + "]" * 1200 + "}"}, "extra", "levels"),
        ({"extra": '{"a": ' + "[" * 40 + "]" * 40 + "}"}, "extra", "levels"),
        ({"extra": "[1]"}, "extra", "object"),
        ({"extra": None}, "extra", "needed"),
        ({"name": "\ud800"}, "name", "cannot be stored"),
    ],
)
def test_refused_at_its_field(entered: dict[str, Any], block_id: str, said: str) -> None:
    """What is wrong is said in a sentence at the field where it was entered (B13)."""
    found = errors(TOOL, NOW, **entered)
    assert found.keys() == {f"f:{block_id}"}
    assert said in found[f"f:{block_id}"]


def test_several_errors_at_once() -> None:
    """Each wrong field hears about itself in one go."""
    assert errors(TOOL, NOW, big="x", extra="{").keys() == {"f:big", "f:extra"}


class Range(BaseModel):
    """Rules across fields, and one on a field that nobody may edit."""

    fixed: str = "ok"
    low: int = 1
    high: int = 2
    hidden: str = "ok"

    @model_validator(mode="after")
    def _ordered(self) -> Range:
        if self.low > self.high:
            raise ValueError("low must not be above high")
        return self

    @field_validator("hidden", mode="after")
    @classmethod
    def _fits(cls, hidden: str, info: Any) -> str:
        if info.data.get("high") == 99:
            raise ValueError(f"{hidden} does not go with 99")
        return hidden


def test_errors_without_an_input_of_their_own() -> None:
    """A rule of the whole model speaks at the first input, one of a read-only value at the nearest one (B13)."""
    tool = tool_for(Range, editable=frozenset({"low", "high"}))
    now = dumped(Range())
    assert errors(tool, now, low="3") == {"f:low": "Low must not be above high."}
    assert errors(tool, now, high="99") == {"f:high": "Hidden: Ok does not go with 99."}


def test_error_at_a_secret_says_nothing_of_it() -> None:
    """The words of a validator about a secret are not passed on (S15)."""
    tool = tool_for(Range, secret=frozenset({"hidden"}))
    assert errors(tool, dumped(Range(hidden="pass")), high="99") == {"f:high": "Hidden: This is not valid."}


def test_read_only_and_secret_values_ignore_the_state() -> None:
    """A state made up for a value that has no input changes nothing (A05, S15)."""
    tool = tool_for(Everything, secret=frozenset({"token"}), editable=frozenset({"name", "token"}))
    forged = {"value": "forged"}
    state = {
        "f:token": {"v": forged},
        "f:note": {"v": forged},
        "f:nonsense": {"v": forged},
        "f:name": {"v": {"value": "B"}},
    }
    parsed = read_submission(tool, NOW, state)
    assert isinstance(parsed, Parsed)
    assert parsed.arguments == NOW | {"name": "B"}


def test_secrets_survive_an_edit() -> None:
    """A secret of either sort is the same after an edit of something else (S15)."""
    parsed = submit(TOOL, NOW | {"password": "hunter22"}, name="Ben")
    assert isinstance(parsed, Parsed)
    assert (parsed.arguments["token"], parsed.arguments["password"]) == ("s3cret-value", "hunter22")


def test_save_and_approve_is_a_box_to_tick() -> None:
    """It is offered only where it may count, starts empty, and is read when ticked."""
    assert not any(b.get("block_id") == "then" for b in view_of(TOOL, NOW)["blocks"])
    view = view_of(TOOL, NOW, approve=True)
    assert "initial_options" not in block(view, "then")["element"]
    parsed = read_submission(TOOL, NOW, typed(view, then=["approve"], name="Ben"))
    assert isinstance(parsed, Parsed)
    assert parsed.approve
    assert parsed.changed


@pytest.mark.parametrize(("size", "sections"), [(2900, 0), (3001, 2), (12_001, 1)])
def test_too_long_for_an_input(size: int, sections: int) -> None:
    """What Slack would refuse as a value to start with is shown, in parts or by its length, and kept (S03)."""
    arguments = NOW | {"name": "y" * size}
    view = view_of(TOOL, arguments)
    assert sum("Name (kept as it is" in str(b.get("text", "")) for b in view["blocks"]) == sections
    shown = "".join(b["text"]["text"] for b in view["blocks"] if b["type"] == "section")
    assert shown.count("y") >= size or size > 12_000 or not sections
    assert edited(TOOL, arguments, count="5") == {"count": 5}


def test_length_counts_as_slack_counts() -> None:
    """An ampersand is five characters to Slack, so 700 of them still go into an input and 601 more do not (S03)."""
    assert any(b.get("block_id") == "f:name" for b in view_of(TOOL, NOW | {"name": "&" * 600})["blocks"])
    assert not any(b.get("block_id") == "f:name" for b in view_of(TOOL, NOW | {"name": "&" * 601})["blocks"])


def test_enormous_models_stay_within_slack() -> None:
    """More than fits into a modal is named and kept; the modal stays one that Slack takes (S03)."""
    wide = type("Wide", (BaseModel,), {"__annotations__": {f"field_{n}": str for n in range(130)}})
    arguments = {f"field_{n}": "😀" * 1400 for n in range(130)}
    view = view_of(tool_for(wide), arguments, approve=True)
    assert len(json.dumps(view)) < 250_000
    assert "Field 129" in json.dumps(view)
    few = {f"field_{n}": "x" for n in range(130)}
    assert len(view_of(tool_for(wide), few, approve=True)["blocks"]) == 100
    assert edited(tool_for(wide), few, field_0="y") == {"field_0": "y"}


def test_labels_hints_and_lines() -> None:
    """Titles, descriptions and lengths of the model are the labels, hints and lengths of the inputs."""

    class Worded(BaseModel):
        order_id: str = Field(min_length=2, max_length=10)
        note: str = Field(default="", title="Note for <Ana>", description="Said to & about her", max_length=151)

    view = view_of(tool_for(Worded), {"order_id": "12", "note": ""})
    order, note = block(view, "f:order_id"), block(view, "f:note")
    assert (order["label"]["text"], note["label"]["text"]) == ("Order id", "Note for <Ana>")
    assert "Said to & about her" in note["hint"]["text"]
    assert (order["element"]["min_length"], order["element"]["max_length"]) == (2, 10)
    assert (order["optional"], note["optional"]) == (False, True)
    assert (order["element"]["multiline"], note["element"]["multiline"]) == (False, True)
    assert element(tool_for(Worded), {"order_id": "z\nz", "note": ""}, "f:order_id")["multiline"]


def test_hidden_characters_are_pointed_out() -> None:
    """An input cannot show them, so the hint says which there are (S04)."""
    view = view_of(TOOL, NOW | {"name": "evil\u202etxt.exe\u200b\u200b"})
    hint = block(view, "f:name")["hint"]["text"]
    assert "⟨U+202E⟩ × 1" in hint
    assert "⟨U+200B⟩ × 2" in hint


def test_bounds_that_slack_checks_are_never_too_strict() -> None:
    """Integer bounds are passed on as they are, a decimal's exclusive bound and a rounded one are not."""

    class Bounded(BaseModel):
        count: int = Field(default=5, gt=0, lt=10)
        ratio: float = Field(default=0.5, gt=0, le=1)

    tool, now = tool_for(Bounded), dumped(Bounded())
    count = element(tool, now, "f:count")
    assert (count["min_value"], count["max_value"], count["is_decimal_allowed"]) == ("1", "9", False)
    ratio = element(tool, now, "f:ratio")
    assert ("min_value" in ratio, ratio["max_value"]) == (False, "1")


class Aliased(BaseModel):
    """Other names outside than inside."""

    model_config = ConfigDict(extra="forbid")

    order: Annotated[int, Field(alias="orderId", lt=100)]
    note: str = Field(default="", validation_alias=AliasChoices("n1", "n2"), pattern="^[a-z]*$")

    @computed_field  # type: ignore[prop-decorator]  # mypy knows no decorated properties
    @property
    def double(self) -> int:
        return self.order * 2


@pytest.mark.parametrize("by_alias", [False, True])
def test_aliases(by_alias: bool) -> None:
    """Aliased fields are read, validated and blamed by either name; computed ones are left alone."""
    model = type("Outside", (Aliased,), {"model_config": ConfigDict(serialize_by_alias=by_alias)})
    tool = tool_for(model)
    now = dumped(model(orderId=7))
    assert ("orderId" in now) == by_alias
    assert edited(tool, now, note="abc") == {"note": "abc"}
    assert errors(tool, now, note="ABC").keys() == {"f:note"}
    assert {"f:order"} == errors(tool_for(model, editable=frozenset({"order"})), now, order="100").keys()


def test_many_options_are_typed() -> None:
    """Over a hundred options do not fit a menu: the value is typed, and only one that exists is taken (S03)."""
    many = Enum("many", {f"n{n}": n for n in range(101)})  # type: ignore[misc]  # made on the spot

    class Chosen(BaseModel):
        few: Literal[LONG + "a", LONG + "b"]  # type: ignore[valid-type]  # too long to tell apart in a menu
        one: many

    Chosen.model_rebuild(_types_namespace={"many": many})
    tool = tool_for(Chosen)
    now = {"few": LONG + "a", "one": 5}
    assert element(tool, now, "f:one")["type"] == "plain_text_input"
    assert edited(tool, now, one="100", few=LONG + "b") == {"one": 100, "few": LONG + "b"}
    assert errors(tool, now, one="101") == {"f:one": "This is not one of the allowed values."}


def test_options_that_look_alike() -> None:
    """Options whose values Slack could not tell apart, or would take for ours, are still told apart."""

    class Alike(BaseModel):
        sign: Literal["(unset)", "", "b"] | None = None
        number: Literal[1, "1"] = 1

    tool, now = tool_for(Alike), dumped(Alike())
    assert edited(tool, now, sign="0") == {"sign": "(unset)"}
    assert edited(tool, now | {"sign": "b"}, sign="(unset)") == {"sign": None}
    assert edited(tool, now, number='"1"') == {"number": "1"}


class Node(BaseModel):
    """A model within itself."""

    name: str
    parent: Node | None = None
    children: list[Node] = []

    @field_validator("name")
    @classmethod
    def _wordy(cls, name: str) -> str:
        if name == "long":
            raise ValueError("the reason is this: " + "because " * 40)
        return name


def test_a_model_within_itself() -> None:
    """Recursion ends after one level, below it is JSON, and errors from down there arrive where they belong (B13)."""
    tool, now = tool_for(Node), dumped(Node(name="a", parent=Node(name="b")))
    assert edited(tool, now, parent__name="c")["parent"] == {"name": "c", "parent": None, "children": []}
    found = errors(tool, now, parent__children='[{"name": "x", "children": [{}]}]', name="long")
    assert found["f:parent.children"] == "At 1 › children › 1 › name: A value is needed here."
    assert found["f:name"].startswith("The reason is this: because")
    assert found["f:name"].endswith("…")


def test_values_that_fit_no_widget() -> None:
    """A value that the input of its kind would not take stands in one that does."""

    class Odd(BaseModel):
        email: EmailStr = "ü@example.com"
        anything: Any = None
        precise: Decimal = Decimal("0.12345678901234567890")
        when: str = Field(default="soon", json_schema_extra={"format": "date"})

    tool, now = tool_for(Odd), dumped(Odd())
    assert {element(tool, now, f"f:{name}")["type"] for name in now} == {"plain_text_input"}
    assert edited(tool, now, anything="[1]") == {"anything": [1]}


def test_a_missing_key_stays_missing_until_given() -> None:
    """Arguments stored before a field was added take the model's default, not an empty value."""
    tool = tool_for(Address)
    assert submit(tool, {"city": "Bonn"}) == Parsed({"city": "Bonn"}, changed=False, approve=False)
    assert edited(tool, {"city": "Bonn"}, city="Berlin") == {"city": "Berlin", "zip_code": None, "country": "DE"}


def test_nothing_to_edit_is_no_error() -> None:
    """A modal without inputs still opens and changes nothing."""
    tool = tool_for(Address, editable=frozenset())
    view = edit_modal(tool, {"city": "Bonn"}, call_id="c", revision=1, save_and_approve=False)
    assert not any(b["type"] == "input" for b in view["blocks"])
    assert not isinstance(read_submission(tool, {"city": "Bonn"}, {}), FieldErrors)
