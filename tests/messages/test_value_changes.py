"""Lines that tell of an edit: whatever it changed, the reader sees what differs."""

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
from tests.messages.fields_support import tool_for


class Note(BaseModel):
    """One text, one list, and one value of any kind."""

    text: str = ""
    lines: list[str] = []
    thing: Any = None


TOOL: Tool[Any] = tool_for(Note)


def changed(field: str, before: Any, after: Any) -> ArgumentValue:
    """The one value that an edit has changed, as cards get it."""
    values = list_argument_values(TOOL, {field: after}, {field: before})
    [value] = [each for each in values if each.previous_text is not None]
    return value


def seen(text: str) -> str:
    """What an eye makes of a text on one line: it sees no encoding, and one gap is like another."""
    return " ".join(unicodedata.normalize("NFKC", text).split())


def told(value: ArgumentValue) -> list[tuple[str, str]]:
    """Before and after, as the thread's notice and as a decided card tell of it."""
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
def test_a_change_can_be_seen(field: str, before: Any, after: Any) -> None:
    """In the notice and on a decided card, each way round."""
    for pair in ((before, after), (after, before)):
        for one, other in told(changed(field, *pair)):
            assert seen(one) != seen(other)


def test_letters_of_another_script_are_written_as_codes() -> None:
    """A word in Cyrillic that looks like one in Latin letters; words of a language stay words."""
    fake = "\u0440\u0430y\u0440al"
    assert told(changed("text", "paypal", fake))[0] == (
        '"paypal"',
        r'"\u0440\u0430y\u0440al"',
    )
    assert told(changed("text", "Stra\u00dfe 7", "Stra\u00dfe 9"))[0] == ("Straße 7", "Straße 9")
    assert told(changed("text", "Gr\u00fc\u00dfe", "Gr\u00fc\u00dfe "))[0] == ("Grüße", '"Grüße "')


def test_a_value_cannot_tell_of_a_further_change() -> None:
    """A text with our arrow in it stands in quotes."""
    line = call_edited_line(
        "UANA00001",
        replace(REFUND, values=(changed("text", "x", "y; Amount: 40.00 → 9999.00"),)),
        "UBEN00001",
    )
    assert '(Text: "x" → "y; Amount: 40.00 → 9999.00")' in line


def test_a_long_secret_is_masked_before_it_is_cut() -> None:
    """What stands before a secret says that it is one, and may be cut off."""
    token = "Authorization: Bearer " + "k3y" * 30
    old, new = shorten_change(f"{token} one", f"{token} two", 40)
    assert "k3y" not in old + new
    assert (old[-3:], new[-3:]) == ("one", "two")


ODD = st.text(alphabet='ab é\u0301\u00e9\n\t\u00a0"\\→\u200b⟩e', max_size=90)


@given(ODD, ODD, st.sampled_from([40, 60, 200]))
def test_any_two_texts_differ_in_sight(one: str, other: str, limit: int) -> None:
    """Whatever the texts: of the asked length, and told apart."""
    old, new = shorten_change(one, other, limit)
    assert max(len(old), len(new)) <= limit
    assert one == other or seen(old) != seen(new)


def test_spaces_around_a_text_can_be_seen() -> None:
    """A text on one line with spaces or line ends around it is in quotes, and no other text is."""
    texts = ["x", "x ", " x", "x\n", "x\t", '"x "']
    rows = [list_argument_values(TOOL, {"text": each})[0].text for each in texts]
    assert rows[:5] == ["x", '"x "', '" x"', r'"x\n"', r'"x\t"']
    assert len({seen(each) for each in rows}) == len(texts)
