"""Every sentence about the mode of a channel. Pure: mrkdwn out."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from bot.messages.text import mention, when
from storage.states import Mode

MEANS: Mapping[Mode, str] = {
    Mode.ASK: "the policy says what runs and what is asked",
    Mode.STRICT: "whatever changes something is asked each time, also what would run by itself",
    Mode.OBSERVE: "only look-ups run; whatever changes something is refused",
}
ICONS: Mapping[Mode, str] = {Mode.ASK: "🔓", Mode.STRICT: "🔒", Mode.OBSERVE: "👀"}


def mode_now(mode: Mode, by: tuple[str, datetime] | None, loosen: str) -> str:
    """Say which mode a channel is in; `by`: who switched it and when; `loosen`: who may, mrkdwn."""
    since = f", since {when(by[1])} by {mention(by[0])}" if by else ""
    who = f"{loosen} may loosen it" if loosen else "nobody may loosen it"
    return (
        f"{ICONS[mode]} This channel is in *{mode}* mode{since}: {MEANS[mode]}. "
        f"Anyone may tighten it, {who}: `/approvals mode observe | ask | strict`."
    )


def mode_as_before(mode: Mode) -> str:
    """Tell somebody that a switch changes nothing."""
    return f"This channel is in *{mode}* mode already."


def mode_set(mode: Mode) -> str:
    """Tell somebody that their switch counts."""
    return f"This channel is in *{mode}* mode now: {MEANS[mode]}."


def may_not_loosen(mode: Mode, loosen: str) -> str:
    """Tell somebody that they may not loosen; `loosen`: who may, mrkdwn, "" for nobody."""
    who = f"These can: {loosen}" if loosen else "The policy names nobody who can"
    return f"This channel stays in *{mode}* mode: you cannot loosen it. {who}."


def mode_switched(person: str, mode: Mode) -> str:
    """Tell the channel in one line that its mode is another."""
    return f"{ICONS[mode]} {mention(person)} set this channel to *{mode}* mode: {MEANS[mode]}."


def mode_note(mode: Mode) -> str:
    """Say in a card's small print that it is asked in a channel of that mode."""
    return f"{ICONS[mode]} {mode} mode"
