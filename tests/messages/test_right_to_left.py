"""Right-to-left words, and emoji: a reader sees on a card what it says."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bot.cards.block_kit import quote_on_one_line
from bot.cards.card import render_card
from bot.cards.review_dialog import can_review_show_whole_call, render_review_dialog
from bot.cards.slack_text import (
    isolate_right_to_left_runs,
    isolate_right_to_left_text,
    sanitise_for_mrkdwn,
    shorten_text,
    show_hidden_characters,
    strip_mrkdwn,
)
from bot.cards.views import ArgumentValue
from tests.messages.cards_support import NOW, REFUND, accept_message, accept_view, read, view

OPEN, END = "\u2068", "\u2069"
COFFEE = "קפה"


def are_isolates_balanced(text: str) -> bool:
    """Whether each isolate is closed on its line, and none is nested more than two deep."""
    depth = 0
    for char in text:
        depth += (char == OPEN) - (char == END)
        if depth not in (0, 1, 2) or (char == "\n" and depth):
            return False
    return depth == 0


@pytest.mark.parametrize("word", ["קפה", "قهوة", "٤٠", "שלום עולם", "בע״מ"])
def test_a_right_to_left_value_is_isolated(word: str) -> None:
    """This holds on the card and in Review, for old and for new values."""
    values = (
        ArgumentValue("Item", f"{word} 12"),
        ArgumentValue("Note", f"{word} 40", previous_text=f"{word} 30"),
    )
    call = replace(REFUND, values=values, effect=f"Sell {word} 12 for 40 EUR")
    drawn = render_card(view(call), NOW)
    accept_message(drawn.blocks)
    modal = render_review_dialog(call)
    accept_view(modal)
    for shown in (read(drawn.blocks), read(modal["blocks"])):
        for value in (f"{word} 12", f"{word} 40", f"{word} 30"):
            assert f"{OPEN}{value}{END}" in shown
        assert f"Sell {OPEN}{word}{END} 12 for 40 EUR" in shown
        assert all(map(are_isolates_balanced, shown.splitlines()))
    assert f"ell {OPEN}{word}{END} 12 for 40 EUR" in drawn.text


def test_a_preview_keeps_its_numbers_in_order() -> None:
    """No right-to-left word between an old and a new number can swap them."""
    call = replace(REFUND, preview=f"{COFFEE}: 40 → 30\n{COFFEE} 12 → {COFFEE} 7\nplain: 1 → 2")
    for shown in (
        read(render_card(view(call), NOW).blocks),
        read(render_review_dialog(call)["blocks"]),
    ):
        assert f"{OPEN}{COFFEE}{END}: 40 → 30" in shown
        assert f"{OPEN}{COFFEE}{END} 12 → {OPEN}{COFFEE}{END} 7" in shown
        assert "plain: 1 → 2" in shown
    assert can_review_show_whole_call(call)


def test_texts_in_json_are_isolated_one_by_one() -> None:
    """So a key and the number after it stay in that order."""
    text = f'{{\n  "{COFFEE}": 12,\n  "b": "{COFFEE} \\" 3"\n}}'
    assert isolate_right_to_left_text(text) == (
        f'{{\n  {OPEN}"{COFFEE}"{END}: 12,\n  "b": {OPEN}"{COFFEE} \\" 3"{END}\n}}'
    )
    assert (
        isolate_right_to_left_text(f'["{COFFEE}", 1]') == f'{OPEN}[{OPEN}"{COFFEE}"{END}, 1]{END}'
    )


def test_an_isolate_is_closed_when_its_text_is_shortened() -> None:
    """Otherwise the words that say so would be reversed."""
    for limit in range(40, 80):
        cut = shorten_text(isolate_right_to_left_text(f"{COFFEE} " * 40), limit)
        assert are_isolates_balanced(cut)
        assert cut.endswith("more characters)")


def test_right_to_left_words_in_sentences_are_isolated() -> None:
    """They are isolated in quotes as well, but not in notifications."""
    assert sanitise_for_mrkdwn(f"Refund {COFFEE} 40 EUR") == f"Refund {OPEN}{COFFEE}{END} 40 EUR"
    assert strip_mrkdwn(sanitise_for_mrkdwn(f"Refund {COFFEE} 40 EUR")) == f"Refund {COFFEE} 40 EUR"
    assert quote_on_one_line(f"{COFFEE} 40") == f"“{OPEN}{COFFEE} 40{END}”"


def test_isolates_that_others_write_are_written_out() -> None:
    """Only our own stay invisible."""
    assert (
        isolate_right_to_left_text(show_hidden_characters(f"{OPEN}{COFFEE}{END}"))
        == f"{OPEN}⟨U+2068⟩{COFFEE}⟨U+2069⟩{END}"
    )
    assert isolate_right_to_left_runs(show_hidden_characters("a\u202eb")) == "a⟨U+202E⟩b"
    assert show_hidden_characters(f"{COFFEE}\u200f 1") == f"{COFFEE}⟨U+200F⟩ 1"


@pytest.mark.parametrize(
    "emoji",
    [
        *(
            "👩🏽‍💻",
            "👨‍👩‍👧‍👦",
            "🏳️‍🌈",
            "🏴‍☠️",
            "❤️",
            "❤️‍🔥",
            "🧑🏻‍🤝‍🧑🏿",
            "👩‍❤️‍💋‍👨",
            "🤷🏽‍♀️",
            "⛹️‍♂️",
            "🐈‍⬛",
        ),
        *(
            "1️⃣",
            "#️⃣",
            "🏴󠁧󠁢󠁥󠁮󠁧󠁿",
            "🧑‍🧑‍🧒‍🧒",
            "👁️‍🗨️",
            "😶‍🌫️",
            "🏃🏽‍♀️‍➡️",
            "👨🏿‍🦽‍➡️",
            "⚠️",
            "🫱🏻‍🫲🏿",
            "👩🏽‍❤️‍👨🏻",
        ),
    ],
)
def test_composed_emoji_are_shown_unchanged(emoji: str) -> None:
    """They are composed of several characters; alone, repeated and beside words."""
    for text in (emoji, f"a {emoji} b", emoji * 3):
        assert show_hidden_characters(text) == text
    call = replace(REFUND, values=(ArgumentValue("Mood", show_hidden_characters(emoji)),))
    assert f"Mood:  {emoji}" in read(render_review_dialog(call)["blocks"])


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\u200db", "a⟨U+200D⟩b"),
        ("👩🏽\u200d", "👩🏽⟨U+200D⟩"),
        ("\u200d💻", "⟨U+200D⟩💻"),
        ("👩‍💻\u200d", "👩‍💻⟨U+200D⟩"),
        ("👩‍💻\u200d👩‍💻", "👩‍💻⟨U+200D⟩👩‍💻"),
        ("💻\u200d👩", "💻⟨U+200D⟩👩"),
        ("👩\u200d\u200d💻", "👩⟨U+200D⟩⟨U+200D⟩💻"),
        ("a\ufe0f", "a⟨U+FE0F⟩"),
        ("❤\ufe0f\ufe0f", "❤️⟨U+FE0F⟩"),
        ("🏴\U000e0061\U000e007f", "🏴⟨U+E0061⟩⟨U+E007F⟩"),
        ("1\ufe0f", "1⟨U+FE0F⟩"),
        ("क्\u200dष", "क्⟨U+200D⟩ष"),
    ],
)
def test_joiners_that_are_no_part_of_an_emoji_are_written_out(text: str, shown: str) -> None:
    """So are variation selectors and tags."""
    assert show_hidden_characters(text) == shown
