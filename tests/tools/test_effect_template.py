"""The sentence that says what a call does, for every kind of value in its template."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from pathlib import Path
from re import Pattern, compile
from typing import Any, NamedTuple
from uuid import UUID

import pytest
from pydantic import BaseModel, Field, HttpUrl, RootModel, SecretStr, create_model

from bot.tools import Effect, Tool, ToolContext
from bot.tools.names import PersonId
from storage.masking import MASK


class Size(Enum):
    LARGE = "large"


class Shade(StrEnum):
    RED = "red"


class Rank(IntEnum):
    FIRST = 1


class Address(BaseModel):
    street: str = Field(title="Street and number")
    post_code: int
    is_new: bool = True


class Point(NamedTuple):
    x: int
    y: int


@dataclass
class Box:
    wide_by: int
    full: bool


class Tags(RootModel[tuple[str, ...]]):
    pass


AT = datetime(2026, 11, 23, 9, 30, tzinfo=UTC)
HOME = Address(street="Elm St 1", post_code=123)
VALUES: list[tuple[Any, Any, str]] = [
    (tuple[str, str], ("a", "b"), "a, b"),
    (tuple[str, ...], (), "none"),
    (list[str], ["a", "b"], "a, b"),
    (set[int], {2, 1}, "1, 2"),
    (deque[int], deque([1, 2]), "1, 2"),
    (list[tuple[int, int]], [(1, 2), (3, 4)], "(1, 2), (3, 4)"),
    (list[bool | None], [True, None], "yes, none"),
    (dict[str, Any], {"a": 1, "b": ["x", "y"]}, "a: 1, b: (x, y)"),
    (dict[str, Any], {}, "none"),
    (str | None, None, "none"),
    (bool, False, "no"),
    (bytes, b"caf\xc3\xa9", "café"),
    (Decimal, Decimal("1E+3"), "1000"),
    (Decimal, Decimal("40.00"), "40.00"),
    (float, 0.5, "0.5"),
    (datetime, AT, "2026-11-23 09:30 UTC"),
    (datetime, AT.replace(tzinfo=None, second=7), "2026-11-23 09:30:07"),
    (date, AT.date(), "2026-11-23"),
    (time, time(9, 30), "09:30"),
    (timedelta, timedelta(hours=36), "1 day 12 hours"),
    (timedelta, timedelta(minutes=-1, seconds=-1), "-1 minute 1 second"),
    (timedelta, timedelta(seconds=59.000001), "59.000001 seconds"),
    (timedelta, timedelta(0), "0 seconds"),
    (Size, Size.LARGE, "large"),
    (Shade, Shade.RED, "red"),
    (Rank, Rank.FIRST, "1"),
    (list[Size], [Size.LARGE], "large"),
    (Address, HOME, "Street and number: Elm St 1, post code: 123, is new: yes"),
    (Point, Point(1, 2), "1, 2"),
    (Box, Box(3, True), "wide by: 3, full: yes"),
    (Tags, Tags(("a", "b")), "a, b"),
    (UUID, UUID(int=1), "00000000-0000-0000-0000-000000000001"),
    (Path, Path("a/b"), "a/b"),
    (HttpUrl, HttpUrl("https://a.example/"), "https://a.example/"),
    (Pattern[str], compile("a+"), "a+"),
    (SecretStr, SecretStr("hush"), MASK),
]


def do_nothing(_args: BaseModel, _context: ToolContext) -> str:
    return ""


def build_sentence(
    template: str, kind: Any, value: Any, names: dict[str, str] | None = None
) -> str:
    """Build the sentence of a call whose one argument `v` has this type and value."""
    model: Any = create_model("Given", v=(kind, ...))
    return Tool("act", "Act", template, Effect.WRITE, model, do_nothing).effect_sentence(
        model(v=value), names
    )


@pytest.mark.parametrize(("kind", "value", "said"), VALUES)
def test_every_kind_of_value_reads_as_words(kind: Any, value: Any, said: str) -> None:
    """It reads as a person would write it, also as a member of a list and as `!s`."""
    assert build_sentence("Take {v}", kind, value) == f"Take {said}"
    assert build_sentence("Take {v!s}", kind, value) == f"Take {said}"
    if kind is not SecretStr:
        several = said != "none" and ", " in said
        member = f"({said})" if several else said
        assert build_sentence("Take {v}", list[kind], [value, value]) == f"Take {member}, {member}"


@pytest.mark.parametrize(
    ("template", "kind", "value", "said"),
    [
        ("{v:.2f}", Decimal, Decimal(5), "5.00"),
        ("{v:%d %b %Y}", datetime, AT, "23 Nov 2026"),
        ("{v:,}", int, 1234567, "1,234,567"),
        ("{v:.3}", Shade, Shade.RED, "red"),
        ("{v:>4}", bool, True, "yes"),
        ("{v:.4}", tuple[str, str], ("abc", "d"), "abc,"),
        ("{v[1]}", tuple[str, str], ("a", "b"), "b"),
        ("{v.is_new}", Address, HOME, "yes"),
        ("{v!r}", str, "a b", "'a b'"),
        ("{v!r}", tuple[str, str], ("a", "b"), "a, b"),
        ("{v:.2f}", Decimal | None, None, "Act"),  # the title, where the template does not fit
    ],
)
def test_a_template_may_format_its_values(template: str, kind: Any, value: Any, said: str) -> None:
    """Numbers and times are formatted by Python; other values as their words."""
    assert build_sentence(template, kind, value) == said


def test_ids_in_tuples_are_shown_by_name() -> None:
    """An id without a known name stays as it is."""
    pair = ("UANA00001", "UBEN00001")
    said = build_sentence("Tell {v}", tuple[PersonId, PersonId], pair, {"UANA00001": "Zoe"})
    assert said == "Tell Zoe, UBEN00001"
