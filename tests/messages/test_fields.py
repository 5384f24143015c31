"""The Edit dialog: each kind of value is shown, edited, refused and kept."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from pydantic import BaseModel, NaiveDatetime

from bot.cards.edit_form import ParsedEdit, parse_edit_submission
from tests.messages.fields_support import (
    Address,
    Everything,
    dump,
    edit,
    fill_in,
    find_block,
    find_element,
    list_errors,
    make_tool,
    render_view,
    submit,
)

TOOL = make_tool(Everything, secret=frozenset({"token"}))
NOW = dump(Everything(name="Ana"))


def test_the_edit_dialog_contains_no_secret() -> None:
    """Its metadata has only the call and its revision."""
    arguments = NOW | {"password": "hunter22"}
    view = render_view(TOOL, arguments, approve=True)
    assert json.loads(view["private_metadata"]) == {"call": "call-1", "revision": 3}
    assert view["callback_id"] == "edit_call"
    assert "s3cret" not in json.dumps(view)
    assert "hunter" not in json.dumps(view)
    assert json.dumps(view, ensure_ascii=False).count("••••••••") == 2


@pytest.mark.parametrize(
    "title", ["Refund an order", "A title that is too long for a modal", "<&> <&> <&> <&>", " "]
)
def test_any_title_fits_the_edit_dialog(title: str) -> None:
    """Slack allows 24 characters, as it counts them."""
    assert render_view(make_tool(Address, title=title), {"city": "x"})["title"]["text"].strip()


def test_each_kind_of_field_has_its_own_input() -> None:
    """It is the input that people know for such a value."""
    view = render_view(TOOL, NOW)
    widgets = {
        b["block_id"][2:]: b["element"]["type"] for b in view["blocks"] if b["type"] == "input"
    }
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


def test_submitting_the_dialog_untouched_changes_nothing() -> None:
    """Microseconds and time zones are kept as well."""
    assert submit(TOOL, NOW) == ParsedEdit(NOW, changed=False, approve=False)


@pytest.mark.parametrize(
    ("entered", "changes"),
    [
        ({"name": "Ben"}, {"name": "Ben"}),
        ({"name": " two\nlines "}, {"name": " two\nlines "}),
        ({"body": "two\nlines"}, {"body": "two\nlines"}),
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
def test_an_edit_of_one_value_changes_only_that_value(
    entered: dict[str, Any], changes: dict[str, Any]
) -> None:
    """The value keeps its type."""
    found = edit(TOOL, NOW, **entered)
    assert found == changes
    assert [type(value) for value in found.values()] == [type(value) for value in changes.values()]


def test_other_line_ends_are_no_edit() -> None:
    """Slack's clients send other line ends than they were given."""
    assert edit(TOOL, NOW | {"name": "a\r\nb\rc"}, name="a\nb\nc") == {}
    assert edit(TOOL, NOW | {"name": "a\r\nb"}, name="a\r\nb c") == {"name": "a\nb c"}


def test_a_picked_time_keeps_the_time_zone() -> None:
    """Picking the same minute keeps the seconds, too."""
    before = datetime.fromisoformat(NOW["at"])
    same_minute = int(before.timestamp()) // 60 * 60
    assert edit(TOOL, NOW, at=same_minute) == {}
    assert edit(TOOL, NOW, at=same_minute + 3600) == {"at": "2026-11-21T11:00:00+02:00"}


def test_a_time_without_a_time_zone_is_typed() -> None:
    """A picker uses the reader's time zone. A time before Slack's pickers is typed, too."""

    class Moments(BaseModel):
        naive: NaiveDatetime | None = None
        plain: datetime = datetime(2026, 1, 1, 10)
        old: datetime = datetime(1970, 1, 1, tzinfo=UTC)

    tool, now = make_tool(Moments), dump(Moments())
    view = render_view(tool, now)
    assert {find_block(view, f"f:{name}")["element"]["type"] for name in now} == {
        "plain_text_input"
    }
    assert edit(tool, now, naive="2026-02-03T04:05:06") == {"naive": "2026-02-03T04:05:06"}
    assert list_errors(tool, now, plain="tomorrow").keys() == {"f:plain"}


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
def test_an_optional_text_can_be_unset_empty_or_filled(
    before: str | None, entered: str | None, after: str | None
) -> None:
    """It can be changed from each of these to each other one."""
    parsed = submit(TOOL, NOW | {"note": before}, note=entered)
    assert isinstance(parsed, ParsedEdit)
    assert parsed.arguments["note"] == after
    assert parsed.changed == (before != after)


@pytest.mark.parametrize("before", [None, [], ["a"], ["[]"], [""], ["a\nb"], [" a"], ["", "[]"]])
def test_a_list_of_any_strings_is_kept(before: list[str] | None) -> None:
    """Nobody touched its input."""
    arguments = NOW | {"labels": before}
    assert edit(TOOL, arguments, name="Ben") == {"name": "Ben"}
    first = find_element(TOOL, arguments, "f:labels").get("initial_value")
    as_lines = {None: None, "[]": [], "a": ["a"]}
    assert as_lines[first] == before if first in as_lines else json.loads(str(first)) == before
    assert edit(TOOL, arguments, labels=None) == ({} if before is None else {"labels": None})


def test_a_nested_model_is_set_and_unset_as_a_whole() -> None:
    """Fields that are left empty take their defaults."""
    assert edit(TOOL, NOW, other="yes", other__city="Bonn") == {
        "other": None,
        "other.city": "Bonn",
        "other.zip_code": None,
        "other.country": "DE",
    }
    there = NOW | {"other": {"city": "Bonn", "zip_code": None, "country": "FR"}}
    parsed = submit(TOOL, there, other="no", other__city=None)
    assert isinstance(parsed, ParsedEdit)
    assert parsed.arguments["other"] is None


class Count(BaseModel):
    """A nested model with a number."""

    number: int = 1


class Counted(BaseModel):
    """A model with an optional nested one."""

    inner: Count | None = None


def test_errors_in_a_nested_model_that_is_unset_are_ignored() -> None:
    """The same edit unsets the model."""
    tool = make_tool(Counted)
    there = {"inner": {"number": 3}}
    state = fill_in(render_view(tool, there), inner="no", inner__number="1.5")
    assert parse_edit_submission(tool, there, state) == ParsedEdit(
        {"inner": None}, changed=True, approve=False
    )


def test_a_half_filled_optional_model_has_an_error() -> None:
    """Values entered for a model that stays unset are not dropped silently; missing ones are asked
    for.
    """
    assert list_errors(TOOL, NOW, other__city="Bonn").keys() == {"f:other"}
    assert list_errors(TOOL, NOW, other="yes").keys() == {"f:other.city"}


@pytest.mark.parametrize(
    ("entered", "block_id", "said"),
    [
        ({"amount": "0"}, "amount", "greater than 0"),
        ({"big": "1.5"}, "big", "whole number"),
        ({"big": "1_000"}, "big", "whole number"),
        ({"big": None}, "big", "needed"),
        ({"link": "https://"}, "link", "Please enter an address"),
        ({"address__city": "x", "email": "a@b.c-"}, "email", "email"),
        ({"lines": '[{"sku": "a"}, {"count": 1}]'}, "lines", "At 2 › sku: A value is needed"),
        ({"lines": '[{"sku": "a"'}, "lines", "line 1, column 13"),
        ({"extra": '{"a": 1,\n "a": 2}'}, "extra", '"a" appears twice'),
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
def test_a_wrong_value_has_an_error_at_its_field(
    entered: dict[str, Any], block_id: str, said: str
) -> None:
    """The error is a sentence."""
    found = list_errors(TOOL, NOW, **entered)
    assert found.keys() == {f"f:{block_id}"}
    assert said in found[f"f:{block_id}"]


def test_several_errors_are_shown_at_once() -> None:
    """Each wrong field has its own."""
    assert list_errors(TOOL, NOW, big="x", extra="{").keys() == {"f:big", "f:extra"}
