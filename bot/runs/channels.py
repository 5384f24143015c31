"""Requests in channels that are shared with another company, or that get another id."""

from __future__ import annotations

import logging
from datetime import datetime

from bot.messages.answers import notice_blocks
from bot.messages.sentences import shared
from bot.policy.current import CurrentPolicy
from storage import channels, outbox
from storage.models import Delivery, Run
from storage.store import Store
from storage.transaction import Transaction

log = logging.getLogger("countersign.channels")


def say_where(tx: Transaction, run: Run, delivery: Delivery, words: str) -> None:
    """Say in a shared channel where a request in these `words` goes on, or that outsiders read it.

    Where it goes on in private its thread is begun there.
    """
    if run.channel == delivery.channel:
        _say(tx, delivery, f"shared:{run.id}", shared.outsiders_read_along())
        return
    text = shared.goes_on_here(delivery.channel, words)
    outbox.root(tx, run, text, notice_blocks(text))
    _say(tx, delivery, f"private:{run.id}", shared.goes_on_in_private(delivery.user))


def _say(tx: Transaction, delivery: Delivery, key: str, text: str) -> None:
    outbox.say(tx, key, delivery.channel, delivery.thread_ts, text)


def follow(
    store: Store, policy: CurrentPolicy, delivery: Delivery, old: str, new: str, at: datetime
) -> None:
    """Let what is stored follow a channel that has another id; the policy file cannot."""
    with store.write() as tx:
        found = channels.follow(tx, delivery.team, old, new, at=at)
    log.warning("channel %s is %s from now on; %s requests follow it", old, new, found)
    if named := policy.policy.naming(old):
        log.error(
            "the policy names channel %s, which is %s now: correct %s", old, new, ", ".join(named)
        )
