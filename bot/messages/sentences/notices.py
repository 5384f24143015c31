"""Every sentence that a thread is told about a request. Pure: mrkdwn out.

People and times arrive as ids and datetimes and become mentions and local times; what a person, a
tool or the model wrote is quoted.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from bot.messages.quoting import effect_list, past, said
from bot.messages.text import channel_mention, due, mention, when


def card_elsewhere(place: str, link: str = "") -> str:
    """Tell the thread where its card went: `place` is a channel id, or "" for direct messages."""
    where = channel_mention(place) if place else "the approvers, in direct messages"
    seen = (
        f" (<{link.replace('|', '%7C')}|see it>)"
        if link.startswith("https://") and ">" not in link
        else ""
    )
    return f"This needs a decision. I have asked {'in ' if place else ''}{where}{seen}."


def remembered(grant_id: str, until: datetime, uses: int) -> str:
    """Tell the thread that an approval is remembered, for how long and how often."""
    return (
        f"🧷 This is remembered until {when(until)}, for {uses} more times: `{grant_id}`, see "
        "`/approvals grants`."
    )


def withdrawn_line(person: str, effects: Sequence[str]) -> str:
    """Tell the thread in one line that the requester has withdrawn a call."""
    return f"↩️ {mention(person)} withdrew: {effect_list(effects)}"


def sent_back_line(person: str, feedback: str) -> str:
    """Tell the thread in one line that a plan was sent back."""
    return f"↪️ {mention(person)} sent the plan back: “{said(feedback)}”. I will make a new one."


def decision_line(
    verb: str, person: str, effects: Sequence[str], reason: str = "", needed: int = 0
) -> str:
    """Tell the thread in one line who decided what.

    "✅ @ana approved: Refund 40.00 EUR of order 1042". `needed`: how many more people have to
    approve before anything happens.
    """
    icon = {"approve": "✅", "reject": "🚫", "edit": "✏️", "cancel": "⏹️"}.get(verb, "•")
    why = f" — “{said(reason)}”" if reason.strip() else ""
    more = f" ({needed} more {'approval' if needed == 1 else 'approvals'} needed)" if needed else ""
    return f"{icon} {mention(person)} {past(verb)}: {effect_list(effects)}{why}{more}"


def reminder(effects: Sequence[str], who: str, deadline: datetime | None) -> str:
    """Remind the approvers who have not decided yet; `who` is mrkdwn of their names."""
    by = f" by {due(deadline)}" if deadline else ""
    return f"⏰ {who}: this still waits for a decision{by}: {effect_list(effects)}"


def next_step(effects: Sequence[str], who: str, deadline: datetime | None) -> str:
    """Tell the people of the next stage that it is their turn."""
    by = f" by {due(deadline)}" if deadline else ""
    return f"➡️ {who}: your approval comes next{by}: {effect_list(effects)}"


def escalated(effects: Sequence[str], who: str, deadline: datetime | None) -> str:
    """Tell more people that they may decide as well, because nobody has."""
    by = f" by {due(deadline)}" if deadline else ""
    what = effect_list(effects)
    return f"⏫ {who}: nobody has decided this yet, and now you may as well{by}: {what}"


def expired_line(effects: Sequence[str], deadline: datetime | None) -> str:
    """Tell the thread in one line that nobody answered in time."""
    by = f" by {when(deadline)}" if deadline else " in time"
    return f"⌛ Nobody answered{by}, so this will not happen: {effect_list(effects)}"


def cancelled_line(person: str) -> str:
    """Tell the thread in one line that the request was stopped."""
    what = f"{mention(person)} cancelled the request" if person else "The request was cancelled"
    return f"⏹️ {what}. Nothing more will run."


def gave_up(error: str) -> str:
    """Tell the thread that the run cannot go on; the Retry button goes with it."""
    return (
        f"I could not go on: {said(error)}\nNothing is lost: Retry continues from here, and "
        "nothing runs twice."
    )


def not_asked(title: str, why: str) -> str:
    """Tell the thread that a call was refused before anybody was asked; `title` is its tool's."""
    return f"I did not ask anybody about “{said(title, 80)}”: {said(why)}."
