"""Quotes of what others wrote, and words that several sentences share. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bot.cards import slack_text
from bot.policy.gates import GrantOffer
from countersign.durations import format_duration
from storage.masking import mask_secrets

MIDWAY = "It had begun, so part of it may have happened."
_VERBS = {"approve": "approved", "reject": "rejected", "edit": "edited", "cancel": "cancelled"}


def sanitise_for_mrkdwn(text: str, limit: int = 300) -> str:
    """Return others' words as one line of mrkdwn: masked, hidden characters shown, cut, escaped."""
    return slack_text.escape_mrkdwn(
        slack_text.shorten_text(
            slack_text.isolate_right_to_left_runs(
                slack_text.show_hidden_characters(" ".join(mask_secrets(text).split()))
            ),
            limit,
        )
    )


def format_past_tense(verb: str) -> str:
    """Return the past of a verb ("approve": "approved"); other words unchanged."""
    return _VERBS.get(verb, verb)


def grant_offer_label(what: GrantOffer, titles: Mapping[str, str]) -> str:
    """Return an offer to remember an approval as plain text for an option of a menu.

    "the same amount and account, in this thread, for 1 day, 10 times"; `titles` by field name.
    """
    same = "exactly this" if what.fields is None else "anything"
    if what.fields:
        same = "the same " + " and ".join(
            slack_text.show_hidden_characters(titles.get(name, name)) for name in what.fields
        )
    where = "in this thread" if what.where == "thread" else "everywhere"
    return f"{same}, {where}, for {format_duration(what.lasts)}, {what.uses} times"


def join_effects(effects: Sequence[str]) -> str:
    """Join effect sentences on one line: the first three, and how many others there are."""
    named = [sanitise_for_mrkdwn(each, 160) for each in effects[:3]]
    more = len(effects) - len(named)
    return "; ".join(named) + (f"; and {more} more" if more > 0 else "")
