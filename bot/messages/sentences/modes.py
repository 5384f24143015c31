"""Every sentence about the mode of a channel, or of all conversations. Pure: mrkdwn out."""

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
    who = f"{loosen} may loosen it" if loosen else "nobody may loosen it"
    return (
        f"{ICONS[mode]} This channel is in {mode} mode{_since(by)}: {MEANS[mode]}. "
        f"Anyone may tighten it, {who}: “/approvals mode observe”, “ask” or “strict”."
    )


def mode_everywhere(mode: Mode, by: tuple[str, datetime] | None) -> str:
    """Say which mode all conversations are in; `by`: who switched it and when."""
    return f"{ICONS[mode]} All conversations are in {mode} mode{_since(by)}: {MEANS[mode]}."


def _since(by: tuple[str, datetime] | None) -> str:
    return f", since {when(by[1])} by {mention(by[0])}" if by else ""


def mode_as_before(mode: Mode, *, everywhere: bool = False) -> str:
    """Tell somebody that a switch changes nothing."""
    return f"{_place(everywhere)} in {mode} mode already."


def mode_set(mode: Mode, *, everywhere: bool = False) -> str:
    """Tell somebody that their switch counts."""
    own = (
        " What is stricter by its own mode stays so. No channel is told: cards that wait say it in "
        "their small print, and “/approvals mode” says it in every channel."
        if everywhere
        else ""
    )
    return f"{_place(everywhere)} in {mode} mode now: {MEANS[mode]}.{own}"


def _place(everywhere: bool) -> str:
    return "All conversations are" if everywhere else "This channel is"


def may_not_loosen(mode: Mode, loosen: str) -> str:
    """Tell somebody that they may not loosen; `loosen`: who may, mrkdwn, "" for nobody."""
    return f"This channel stays in {mode} mode: you cannot loosen it. {_who_can(loosen)}."


def may_not_switch_all(loosen: str) -> str:
    """Tell somebody that they may not switch all conversations; `loosen`: who may, mrkdwn."""
    return (
        f"You cannot switch all conversations, only this channel: “/approvals mode observe”. "
        f"{_who_can(loosen)}."
    )


def _who_can(loosen: str) -> str:
    return f"These can: {loosen}" if loosen else "The policy names nobody who can"


def mode_switched(person: str, mode: Mode) -> str:
    """Tell the channel in one line that its mode is another."""
    return f"{ICONS[mode]} {mention(person)} set this channel to {mode} mode: {MEANS[mode]}."


def mode_note(mode: Mode) -> str:
    """Say in small print that something is asked in that mode."""
    return f"{ICONS[mode]} {mode} mode"
