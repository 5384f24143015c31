"""Lines about an edit: the reader sees the difference, whatever it is."""

from __future__ import annotations

import unicodedata
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from bot.cards.call_pieces import render_arguments_on_one_line
from bot.cards.field_values import list_argument_values
from bot.cards.notices import call_edited_line
from bot.cards.value_changes import shorten_change
from bot.cards.views import ArgumentValue
from bot.tools import Tool
from tests.messages.cards_support import REFUND
from tests.messages.fields_support import make_tool


class Note(BaseModel):
    """A model with one text, one list, and one value of any kind."""

    text: str = ""
    lines: list[str] = []
    thing: Any = None


TOOL: Tool[Any] = make_tool(Note)


def find_change(field: str, before: Any, after: Any) -> ArgumentValue:
    """Find the one value that an edit changed, as cards get it."""
    values = list_argument_values(TOOL, {field: after}, {field: before})
    [value] = [each for each in values if each.previous_text is not None]
    return value


def normalise(text: str) -> str:
    """Reduce a text on one line to what the eye sees: no encoding, and any gap as a space."""
    return " ".join(unicodedata.normalize("NFKC", text).split())


def render_change(value: ArgumentValue) -> list[tuple[str, str]]:
    """Render old and new value, as in the thread's notice and on a decided card."""
    notice = call_edited_line("UANA00001", replace(REFUND, values=(value,)), "UBEN00001")
    notice = notice.partition(f"({value.label}: ")[2].removesuffix("). Asked by <@UBEN00001>.")
    [_, old, arrow, new] = [each["text"] for each in render_arguments_on_one_line([value])]
    assert arrow == " → "
    one, between, other = notice.partition(" → ")
    assert between
    return [(one, other), (old, new)]


@pytest.mark.parametrize(
    ("field", "before", "after"),
    [
        ("text", "caf\u00e9", "cafe\u0301"),
        ("text", "\ufb01ne", "fine"),
        ("text", "two  spaces", "two spaces"),
        ("text", "a\tb", "a b"),
        ("text", "a\nb", "a b"),
        ("text", "a\n\nb", "a\nb"),
        ("text", "a\nb\n", "a\nb"),
        ("text", "a \nb", "a\nb"),
        ("text", "x ", "x"),
        ("text", " x", "x"),
        ("text", "x\n", "x"),
        ("text", "10\u00a0000", "10 000"),
        ("text", "a\u200bb", "a⟨U+200B⟩b"),
        ("text", "w" * 400 + " 40 EUR", "w" * 400 + " 90 EUR"),
        ("text", "w" * 400, "w" * 400 + "!"),
        ("text", "line\n" * 90 + "keep it", "line\n" * 90 + "delete it"),
        ("lines", ["a b"], ["a  b"]),
        ("lines", ["a "], ["a"]),
        ("thing", {"sku": "a b"}, {"sku": "a\u00a0b"}),
        ("thing", 1, "1"),
        ("thing", True, "yes"),
        ("thing", None, "—"),
    ],
)
def test_every_change_of_a_value_can_be_seen(field: str, before: Any, after: Any) -> None:
    """In the notice and on a decided card, in both directions."""
    for pair in ((before, after), (after, before)):
        for one, other in render_change(find_change(field, *pair)):
            assert normalise(one) != normalise(other)


def test_letters_that_look_latin_are_written_as_codes() -> None:
    """A Cyrillic word looks like a Latin one; ordinary words stay as they are."""
    fake = "\u0440\u0430y\u0440al"
    assert render_change(find_change("text", "paypal", fake))[0] == (
        '"paypal"',
        r'"\u0440\u0430y\u0440al"',
    )
    assert render_change(find_change("text", "Stra\u00dfe 7", "Stra\u00dfe 9"))[0] == (
        "Straße 7",
        "Straße 9",
    )
    assert render_change(find_change("text", "Gr\u00fc\u00dfe", "Gr\u00fc\u00dfe "))[0] == (
        "Grüße",
        '"Grüße "',
    )


def test_a_value_cannot_pass_for_a_further_change() -> None:
    """A text that contains our arrow is quoted."""
    line = call_edited_line(
        "UANA00001",
        replace(REFUND, values=(find_change("text", "x", "y; Amount: 40.00 → 9999.00"),)),
        "UBEN00001",
    )
    assert '(Text: "x" → "y; Amount: 40.00 → 9999.00")' in line


def test_a_long_secret_is_masked_before_it_is_cut() -> None:
    """The word before it, which says that it is secret, may be cut off."""
    token = "Authorization: Bearer " + "k3y" * 30
    old, new = shorten_change(f"{token} one", f"{token} two", 40)
    assert "k3y" not in old + new
    assert (old[-3:], new[-3:]) == ("one", "two")


ODD = st.text(alphabet='ab é\u0301\u00e9\n\t\u00a0"\\→\u200b⟩e', max_size=90)


@given(ODD, ODD, st.sampled_from([40, 60, 200]))
def test_any_two_different_texts_look_different_when_shortened(
    one: str, other: str, limit: int
) -> None:
    """Both are within the limit."""
    old, new = shorten_change(one, other, limit)
    assert max(len(old), len(new)) <= limit
    assert one == other or normalise(old) != normalise(new)


def test_spaces_around_a_text_can_be_seen() -> None:
    """Such a text is quoted; other texts are not."""
    texts = ["x", "x ", " x", "x\n", "x\t", '"x "']
    rows = [list_argument_values(TOOL, {"text": each})[0].text for each in texts]
    assert rows[:5] == ["x", '"x "', '" x"', r'"x\n"', r'"x\t"']
    assert len({normalise(each) for each in rows}) == len(texts)
