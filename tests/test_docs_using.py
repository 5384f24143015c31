"""docs/using.md names every subcommand and every status emoji, and no other."""

from __future__ import annotations

import re

from bot.approvals.card_routing import (
    EMOJI_BY_END_STATUS,
    MIXED_EMOJI,
    RAN_UNAPPROVED_EMOJI,
    WAITING_EMOJI,
)
from bot.cards.delegation_dialog import MAX_DELEGATION_DURATION
from bot.slack.command_answers import SLASH_COMMAND, SUBCOMMANDS
from tests.pages import ROOT

PAGE = ROOT / "docs" / "using.md"
DRAWN = {
    WAITING_EMOJI: "⏳",
    MIXED_EMOJI: "☑️",
    "question": "❓",
    "x": "❌",
    "no_entry_sign": "🚫",
    "alarm_clock": "⏰",
    "white_check_mark": "✅",
    RAN_UNAPPROVED_EMOJI: "🚨",
}


def test_the_page_lists_every_subcommand() -> None:
    """As it is typed, but for `help`."""
    rows = re.findall(r"^\| (`[^|]+`) \|", PAGE.read_text("utf-8"), re.M)
    told = {typed.split()[0] for row in rows for typed in re.findall(r"`([^`]+)`", row)}
    assert told == set(SUBCOMMANDS) - {"help"}
    assert f"**`{SLASH_COMMAND}`**" in PAGE.read_text("utf-8")


def test_the_page_explains_every_status_emoji() -> None:
    """And none that the bot does not use."""
    assert set(DRAWN) == {
        WAITING_EMOJI,
        MIXED_EMOJI,
        RAN_UNAPPROVED_EMOJI,
        *EMOJI_BY_END_STATUS.values(),
    }
    [line] = re.findall(r"\*\*Marks on the request\.\*\*(.+?)\n\n", PAGE.read_text("utf-8"), re.S)
    assert {each for each in line if ord(each) > 0x2300 and each not in "…\ufe0f"} == {
        drawn[0] for drawn in DRAWN.values()
    }


def test_the_page_states_the_longest_delegation() -> None:
    """It is the longest that the dialog accepts."""
    assert f"for {MAX_DELEGATION_DURATION.days} days at most" in PAGE.read_text("utf-8")
