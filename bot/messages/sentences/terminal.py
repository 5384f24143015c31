"""Every sentence about what is asked at the terminal. Pure: mrkdwn out."""

from __future__ import annotations

from bot.messages.quoting import said
from bot.messages.text import mention
from storage.states import Surface


def typed_there(surface: Surface, person: str, words: str) -> str:
    """Tell the thread what somebody has typed, and where."""
    where = "From the terminal" if surface is Surface.TERMINAL else f"{mention(person)}, elsewhere"
    return f"⌨️ {where}: {said(words, 2_000)}"


def no_model_there() -> str:
    """Tell who types at the terminal that no agent hears it."""
    return "No model is set up here, so nobody hears this. Ask with a form in Slack instead."


def members_only_there() -> str:
    """Tell who types at the terminal that Slack does not know them as a member."""
    return "I take requests from full members of this workspace only."
