"""Quotes of what others wrote, and words that several sentences share. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bot.cards.slack_text import escape, isolate_leftward_runs, plain, visible
from bot.policy.gates import Offer
from countersign.durations import in_words
from storage.masking import mask_secrets

MIDWAY = "It had begun, so part of it may have happened."
_VERBS = {"approve": "approved", "reject": "rejected", "edit": "edited", "cancel": "cancelled"}


def cite(text: str, limit: int = 300) -> str:
    """Return others' words as one line of mrkdwn: masked, hidden characters shown, cut, escaped."""
    return escape(
        plain(isolate_leftward_runs(visible(" ".join(mask_secrets(text).split()))), limit)
    )


def past(verb: str) -> str:
    """Return the past of a verb ("approve": "approved"); other words unchanged."""
    return _VERBS.get(verb, verb)


def offer_label(what: Offer, titles: Mapping[str, str]) -> str:
    """Return an offer to remember an approval as plain text for an option of a menu.

    "the same amount and account, in this thread, for 1 day, 10 times"; `titles` by field name.
    """
    same = "exactly this" if what.fields is None else "anything"
    if what.fields:
        same = "the same " + " and ".join(visible(titles.get(name, name)) for name in what.fields)
    where = "in this thread" if what.where == "thread" else "everywhere"
    return f"{same}, {where}, for {in_words(what.lasts)}, {what.uses} times"


def effect_list(effects: Sequence[str]) -> str:
    """Join effect sentences on one line: the first three, and how many others there are."""
    named = [cite(each, 160) for each in effects[:3]]
    more = len(effects) - len(named)
    return "; ".join(named) + (f"; and {more} more" if more > 0 else "")
