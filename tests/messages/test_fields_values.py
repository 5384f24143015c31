"""Arguments as plain text on cards: how they read, what an edit changed, what is masked."""

from __future__ import annotations

import shutil
import subprocess
import unicodedata
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, SecretStr

from bot.cards.field_values import list_argument_values
from bot.cards.slack_text import show_hidden_characters
from bot.tools.invisible_characters import is_hidden_character
from tests.messages.fields_support import Address, Everything, changed_values, dump, make_tool

TOOL = make_tool(Everything, secret=frozenset({"token"}))
NOW = dump(Everything(name="Ana"))


def map_texts(**changes: Any) -> dict[str, str]:
    """Map the labels of the arguments with these changes to their texts."""
    return {value.label: value.text for value in list_argument_values(TOOL, NOW | changes)}


def test_every_argument_has_its_line_in_the_models_order() -> None:
    """Each field of a nested model has its own line."""
    assert [(value.label, value.text) for value in list_argument_values(TOOL, NOW)] == [
        ("Name", "Ana"),
        ("Note", "—"),
        ("Body", "empty"),
        ("Count", "1"),
        ("Big", "1152921504606846976"),
        ("Amount", "40.00"),
        ("Ratio", "0.1"),
        ("Yes", "no"),
        ("Maybe", "—"),
        ("Speed", "slow"),
        ("Level", "—"),
        ("Day", "2026-11-21"),
        ("At", "2026-11-21 10:00:05.000123 +02:00"),
        ("Clock", "10:30:15"),
        ("Email", "ana@example.com"),
        ("Link", "https://example.com/a"),
        ("Tags", "none"),
        ("Labels", "—"),
        ("Address › City", "Berlin"),
        ("Address › Zip code", "—"),
        ("Address › Country", "DE"),
        ("Other", "—"),
        ("Lines", "none"),
        ("Extra", "none"),
        ("Either", "1"),
        ("Token", "••••••••"),
        ("Password", "••••••••"),
    ]


@pytest.mark.parametrize(
    ("field", "value", "text"),
    [
        ("name", " <b>&amp; *x*\n\ty ", " <b>&amp; *x*\n\ty "),
        ("name", "a\u202eb\u200b\r", "a⟨U+202E⟩b⟨U+200B⟩⟨U+000D⟩"),
        ("name", "—", '"—"'),
        ("name", "  ", '"  "'),
        ("name", "••••••••", '"••••••••"'),
        ("at", "2026-11-21T10:00:00Z", "2026-11-21 10:00 UTC"),
        ("at", "2026-11-21T10:00:00", "2026-11-21 10:00 (no time zone)"),
        ("at", "soon", "soon"),
        ("clock", "10:30:00+05:30", "10:30 +05:30"),
        ("tags", ["a", "b"], "a, b"),
        ("tags", ["a, b", "c"], "a, b\nc"),
        ("tags", ["x" * 30, "y" * 30], "x" * 30 + "\n" + "y" * 30),
        ("tags", ["a\nb", "c"], '[\n  "a\\nb",\n  "c"\n]'),
        (
            "lines",
            [{"sku": "\u202e", "count": 1}],
            '[\n  {\n    "sku": "⟨U+202E⟩",\n    "count": 1\n  }\n]',
        ),
        ("ratio", 1e300, "1e+300"),
        ("maybe", True, "yes"),
    ],
)
def test_each_kind_of_value_reads_as_plain_text(field: str, value: Any, text: str) -> None:
    """Strings are unchanged, but quoted where they look like a sign of ours."""
    assert map_texts(**{field: value})[field.capitalize()] == text


def test_only_values_that_an_edit_changed_are_listed() -> None:
    """The order of keys is no change; 1 and True differ."""
    after = NOW | {"amount": "40.01", "address": NOW["address"] | {"city": "Bonn"}, "either": "1"}
    assert changed_values(TOOL, NOW, after) == [
        ("Amount", "40.00", "40.01"),
        ("Address › City", "Berlin", "Bonn"),
        ("Either", "1", '"1"'),
    ]
    assert changed_values(TOOL, NOW | {"extra": {"a": 1}}, NOW | {"extra": {"a": True}}) != []
    assert changed_values(TOOL, NOW, dict(reversed(NOW.items()))) == []


def test_setting_and_unsetting_a_nested_model_lists_its_values() -> None:
    """Unsetting it lists the values that are lost."""
    there = NOW | {"other": dump(Address(city="Bonn"))}
    assert changed_values(TOOL, NOW, there) == [
        ("Other › City", "—", "Bonn"),
        ("Other › Zip code", "(not given)", "null"),
        ("Other › Country", "—", "DE"),
    ]
    assert changed_values(TOOL, there, NOW) == [
        ("Other", "City: Bonn\nZip code: —\nCountry: DE", "—")
    ]


class Login(BaseModel):
    """A model with a secret."""

    user: str
    password: SecretStr


class Deep(BaseModel):
    """A model with secrets in nested models."""

    one: Login | None = None
    many: list[Login] = []


def test_secrets_are_masked_wherever_they_are() -> None:
    """This holds nested, in lists, and before and after a change."""
    tool = make_tool(Deep)
    login = {"user": "ana", "password": "hunter22"}
    other = {"user": "ana", "password": "hunter33"}
    before, after = {"one": login, "many": [login]}, {"one": other, "many": []}
    texts = str(
        [
            list_argument_values(tool, before),
            list_argument_values(tool, after, before),
            changed_values(tool, before, after),
        ]
    )
    assert "hunter" not in texts
    assert [value.text for value in list_argument_values(tool, before)] == [
        "ana",
        "••••••••",
        '[\n  {\n    "user": "ana",\n    "password": ••••••••\n  }\n]',
    ]
    assert "hunter" not in str(
        [
            changed_values(tool, before, {"one": None, "many": []}),
            changed_values(tool, {"one": None, "many": []}, after),
        ]
    )
    assert [label for label, _, _ in changed_values(tool, before, after)] == [
        "One › Password",
        "Many",
    ]


def test_an_argument_that_the_model_lacks_is_shown() -> None:
    """The model had the field when the arguments were stored."""
    assert map_texts(left_over=[1])["Left over"] == "[1]"
    assert changed_values(TOOL, NOW | {"left_over": 1}, NOW) == [("Left over", "1", "—")]


@given(st.text())
def test_hidden_characters_are_written_out_and_others_kept(text: str) -> None:
    """Newline and tab are the only control characters that are left."""
    seen = show_hidden_characters(text)
    assert not [
        char for char in seen if unicodedata.category(char) in ("Cc", "Cf") and char not in "\n\t"
    ]
    rest = [
        char
        for char in text
        if unicodedata.category(char)[0] not in "CZ" and show_hidden_characters(char) == char
    ]
    kept = iter(seen)
    assert all(char in kept for char in rest)


@pytest.mark.skipif(not shutil.which("perl"), reason="perl brings tables of its own")
def test_every_default_ignorable_character_is_written_out() -> None:
    """perl knows which these are. Otherwise only control characters and the like are."""
    script = r"for (0..0x10FFFF) { print qq($_ ) if chr($_) =~ /\p{Default_Ignorable_Code_Point}/ }"
    told = subprocess.run(["perl", "-e", script], capture_output=True, check=True, text=True).stdout
    points = [int(point) for point in told.split()]
    assert len(points) > 4_000
    assert [p for p in points if show_hidden_characters(f"a{chr(p)}b") != f"a⟨U+{p:04X}⟩b"] == []
    hidden = {p for p in range(0x10000) if is_hidden_character(chr(p))} - set(points)
    assert {unicodedata.category(chr(p)) for p in hidden - {0x2800}} == {
        "Cc",
        "Cf",
        "Cs",
        "Zl",
        "Zp",
    }
