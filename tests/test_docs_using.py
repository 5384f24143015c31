"""The page for people in Slack names each question that can be asked and each mark, no other."""

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


def test_every_question_is_told() -> None:
    """Whatever can be asked behind the command stands in the table, as it is typed."""
    rows = re.findall(r"^\| (`[^|]+`) \|", PAGE.read_text("utf-8"), re.M)
    told = {typed.split()[0] for row in rows for typed in re.findall(r"`([^`]+)`", row)}
    assert told == set(SUBCOMMANDS) - {"help"}
    assert f"**`{SLASH_COMMAND}`**" in PAGE.read_text("utf-8")


def test_every_mark_is_told() -> None:
    """Each mark that a request may wear is explained, and none that there is not."""
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


def test_how_long_a_delegation_lasts_is_told() -> None:
    """The longest time is the one that the dialog takes."""
    assert f"for {MAX_DELEGATION_DURATION.days} days at most" in PAGE.read_text("utf-8")
