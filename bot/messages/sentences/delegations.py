"""Every sentence about somebody who decides for another. Pure: mrkdwn out."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from bot.messages.quoting import effect_list, said
from bot.messages.text import due, mention, when


def delegated(delegate: str, until: datetime) -> str:
    """Tell who has somebody decide for them that it holds."""
    return (
        f"🤝 {mention(delegate)} decides for you until {when(until)}. You can still decide "
        "yourself, and end this on my Home tab."
    )


def asked_to_decide(giver: str, until: datetime, words: str) -> str:
    """Tell somebody that they decide for another, and what goes with it."""
    why = f" They say: “{said(words)}”." if words.strip() else ""
    return (
        f"🤝 {mention(giver)} has you decide for them until {when(until)}.{why} What needs their "
        "decision comes to you as well, also what waits already; my Home tab has all of it. What "
        "you asked for or changed yourself you cannot decide for them."
    )


def waits_for_you(
    delegate: str, giver: str, effects: Sequence[str], deadline: datetime | None
) -> str:
    """Tell who decides for another, where its card stands, what waits already."""
    by = f" by {due(deadline)}" if deadline else ""
    what = effect_list(effects)
    return f"🤝 {mention(delegate)}, for {mention(giver)}: this waits for a decision{by}: {what}"


def decides_for(giver: str, delegate: str, until: datetime, words: str) -> str:
    """Say in one line who decides for whom."""
    why = f": “{said(words, 120)}”" if words.strip() else ""
    return f"🤝 {mention(delegate)} decides for {mention(giver)} until {when(until)}{why}"


def no_longer_decides(giver: str) -> str:
    """Tell somebody that they decide for another no longer."""
    return f"🤝 You no longer decide for {mention(giver)}."


def over_already() -> str:
    """Tell who ends it that it has ended."""
    return "That has ended already."
