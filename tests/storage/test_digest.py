"""Canonical JSON and the digest: equal exactly if what would run is equal, or else refused."""

from __future__ import annotations

import json
import math
import unicodedata
from datetime import date, datetime
from decimal import Decimal
from enum import Enum, IntEnum
from typing import Any

import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from storage.digest import (
    MAX_SAFE_INTEGER,
    NonCanonicalValueError,
    canonical_json,
    compute_digest_of_call,
    parse_json_object,
)

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
safe = st.integers(-MAX_SAFE_INTEGER, MAX_SAFE_INTEGER)
# Between 2**53 and 1e21 a float is written as a whole number and read as an integer: see below.
floats = (
    st.floats(-MAX_SAFE_INTEGER, MAX_SAFE_INTEGER)
    | st.floats(1e21, 1e300)
    | st.sampled_from([0.0, -0.0, 1.0, 5e-324])
)
ALIKE: list[Any] = [
    0,
    1,
    2,
    True,
    False,
    0.0,
    1.0,
    "0",
    "1",
    "1.0",
    "true",
    "null",
    None,
    "",
    [],
    {},
]
close = st.sampled_from(ALIKE)
leaves = close | st.none() | st.booleans() | safe | floats | text
values = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=8,
)


def are_equal(left: Any, right: Any) -> bool:
    """Whether two JSON values are equal: numbers are of one kind, no boolean is a number, and the
    order of keys does not count.
    """
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, int | float) and isinstance(right, int | float):
        return left == right
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(are_equal(left[key], right[key]) for key in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(are_equal, left, right))
    return type(left) is type(right) and left == right


@given(values, values)
def test_values_have_the_same_canonical_text_only_if_equal(left: Any, right: Any) -> None:
    """Any two JSON values are compared."""
    assert (canonical_json(left) == canonical_json(right)) == are_equal(left, right)


@given(values)
def test_canonical_text_is_read_back_as_the_same_value(value: Any) -> None:
    """It is its own canonical text, and the order of keys does not change it."""
    written = canonical_json(value)
    assert are_equal(json.loads(written), value)
    assert canonical_json(json.loads(written)) == written
    if isinstance(value, dict):
        assert canonical_json(dict(reversed(value.items()))) == written


@given(st.integers(), st.integers())
def test_no_two_whole_numbers_have_the_same_text(left: int, right: int) -> None:
    """Those beyond 2**53 are written as strings, in full."""
    for add in (0, MAX_SAFE_INTEGER, 2**64, -(2**53)):
        a, b = left + add, right + add
        assert (canonical_json(a) == canonical_json(b)) == (a == b)
        assert int(json.loads(canonical_json(a))) == a


amounts = (
    st.decimals(-(10**30), 10**30, allow_nan=False)
    | st.decimals(0, 10, places=40)
    | st.integers().map(Decimal)
)


@given(amounts, amounts)
def test_equal_decimals_have_the_same_text(left: Decimal, right: Decimal) -> None:
    """40.0 and 40.00 do, others never, and no digit is lost."""
    zeros = Decimal(f"{left:f}" + ("0" if "." in f"{left:f}" else ".0"))
    assert canonical_json(zeros) == canonical_json(left)
    assert (canonical_json(left) == canonical_json(right)) == (left == right)
    assert Decimal(json.loads(canonical_json(left))) == left


@pytest.mark.parametrize("zeros", ["40", "40.0", "40.00", "4E+1", "0.4E2"])
def test_trailing_zeros_of_an_amount_do_not_count(zeros: str) -> None:
    """Zero has the same text with either sign."""
    assert canonical_json(Decimal(zeros)) == '"40"'
    assert canonical_json(Decimal("-0.00")) == canonical_json(Decimal(0)) == '"0"'


def test_long_decimals_are_not_rounded() -> None:
    """Amounts that differ in the fortieth digit differ in the digest."""
    ones = "1." + "1" * 40
    assert canonical_json(Decimal(ones)) == f'"{ones}"'
    assert canonical_json(Decimal(ones)) != canonical_json(Decimal(ones + "1"))


def test_values_of_different_types_have_different_texts() -> None:
    """Only 1 and 1.0 are the same number in JSON."""
    texts = [
        canonical_json({"x": each})
        for each in (1, "1", True, None, [1], {"1": 1}, "true", Decimal(1) + 1)
    ]
    assert len(set(texts)) == len(texts)
    assert canonical_json(1) == canonical_json(1.0) == "1"
    assert canonical_json(-0.0) == canonical_json(0) == "0"


@given(text)
def test_composed_and_decomposed_letters_differ(word: str) -> None:
    """They look alike."""
    composed, apart = (
        unicodedata.normalize("NFC", word + "é"),
        unicodedata.normalize("NFD", word + "é"),
    )
    assert composed != apart
    assert canonical_json(composed) != canonical_json(apart)
    assert canonical_json({composed: 1}) != canonical_json({apart: 1})


class Size(Enum):
    SMALL = "s"


class Level(IntEnum):
    HIGH = 3


def test_enums_dates_and_times_are_written_as_their_values() -> None:
    """Tuples are written as lists."""
    assert canonical_json([Size.SMALL, Level.HIGH, date(2026, 3, 2)]) == '["s",3,"2026-03-02"]'
    assert canonical_json(datetime(2026, 3, 2, 1, 2, 3)) == '"2026-03-02T01:02:03"'
    assert canonical_json((1, 2)) == canonical_json([1, 2])


@pytest.mark.parametrize(
    "odd",
    [
        math.nan,
        math.inf,
        -math.inf,
        Decimal("NaN"),
        Decimal("sNaN"),
        Decimal("-Infinity"),
        Decimal("1e999999"),
        "\ud800",
        "a\udfffb",
        {"\ud800": 1},
        {1: "one"},
        {None: 1},
        {True: 1},
        {1, 2},
        b"bytes",
        object(),
        1j,
    ],
    ids=lambda odd: type(odd).__name__,
)
def test_values_without_a_canonical_form_are_refused(odd: Any) -> None:
    """They are at the top or deep inside, and are never written some other way."""
    for value in (odd, {"deep": [{"er": odd}]}):
        with pytest.raises(NonCanonicalValueError):
            canonical_json(value)


@pytest.mark.parametrize(
    "text",
    [
        '{"a": 1, "a": 1}',
        '{"x": {"a": 1, "b": 2, "a": 3}}',
        '{"a": 1, "\\u0061": 2}',
        '{"a": NaN}',
        '{"a": -Infinity}',
        '{"a": 1e999}',
        '{"a": ' + "9" * 5000 + "}",
        '{"a": ' + "[" * 100_000,
        '{"a": ' + "[" * 32 + "]" * 32 + "}",
        '{"a":' * 900 + "1" + "}" * 900,
        '{"a": ' + "[" * 3_000 + "]" * 3_000 + "}",
        "[]",
        "1",
        '"text"',
        "null",
        "",
        "{",
        '{"a": 1} x',
        "{'a': 1}",
        "\ufeff{}",
    ],
    ids=lambda text: text[:24],
)
def test_malformed_or_ambiguous_arguments_are_refused(text: str) -> None:
    """All of them raise the same error, with a short message."""
    with pytest.raises(NonCanonicalValueError) as caught:
        canonical_json(parse_json_object(text))
    assert len(str(caught.value)) < 200


@given(st.dictionaries(text, values, max_size=4))
def test_every_json_object_can_be_parsed(value: dict[str, Any]) -> None:
    """It is read as it is."""
    assert are_equal(parse_json_object(json.dumps(value)), value)
    assert are_equal(parse_json_object(canonical_json(value)), value)


PARTS: dict[str, Any] = {
    "tool": "refund",
    "schema": "s1",
    "arguments": '{"a":1}',
    "requester": "UBEN00001",
    "team": "T1",
    "gate": "{}",
    "revision": 1,
}


@given(st.sampled_from(sorted(PARTS)), text, st.integers(2, 9))
def test_the_digest_changes_with_every_part(part: str, word: str, number: int) -> None:
    """The parts are tool, schema, arguments, requester, team, gate and revision, and the key."""
    other = number if part == "revision" else str(PARTS[part]) + word + "x"
    key = b"k" * 32
    assert compute_digest_of_call(key, **PARTS) == compute_digest_of_call(key, **PARTS)
    assert compute_digest_of_call(key, **PARTS) != compute_digest_of_call(
        key, **PARTS | {part: other}
    )
    assert compute_digest_of_call(key, **PARTS) != compute_digest_of_call(b"j" * 32, **PARTS)


@given(text, text)
def test_text_moved_from_one_part_to_the_next_changes_the_digest(left: str, right: str) -> None:
    """Parts cannot run together."""
    one = compute_digest_of_call(b"k", **PARTS | {"tool": left + right, "schema": ""})
    two = compute_digest_of_call(b"k", **PARTS | {"tool": left, "schema": right})
    assert (one == two) == (right == "")


plain_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53) + 1, 2**53 - 1)
    | st.text(max_size=8)
    | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=8,
)


@given(plain_values)
def test_canonical_text_is_that_of_rfc_8785(value: Any) -> None:
    """This holds for odd keys and odd numbers, too."""
    try:
        expected = rfc8785.dumps(value).decode()
    except (rfc8785.CanonicalizationError, UnicodeEncodeError):
        with pytest.raises(NonCanonicalValueError):
            canonical_json(value)
    else:
        assert canonical_json(value) == expected


def test_keys_are_ordered_by_utf_16_code_units() -> None:
    """RFC 8785 says so; the order of code points would be another."""
    value = {"\ufb33": 1, "\U0001f600": 2}
    assert list(json.loads(canonical_json(value))) == ["\U0001f600", "\ufb33"]
