"""Requests in channels that are shared with another company, or that get another id."""

from __future__ import annotations

import logging
from datetime import datetime

from bot.approvals.modes.narrowing import strictest
from bot.messages.answers import notice_blocks
from bot.messages.requests.root import mode_line
from bot.messages.sentences import shared
from bot.policy.current import CurrentPolicy
from storage import channels, modes, outbox, runs
from storage.models import Delivery, Run
from storage.store import Store
from storage.transaction import Transaction

log = logging.getLogger("countersign.channels")


def run_of(
    tx: Transaction, delivery: Delivery, *, is_shared: bool, closed: bool = False
) -> Run | None:
    """Return the newest request of the thread that a message is in.

    In a shared channel that of the private thread in which its author's requests go on. `closed`:
    not one that was begun in the channel itself, before that was shared.
    """
    team, channel, thread = delivery.team, delivery.channel, delivery.thread_ts
    found = runs.in_thread(tx, team, channel, thread)
    if (found is not None and not closed) or not is_shared:
        return found
    begun = runs.begun_in(tx, team, channel, thread, delivery.user)
    if begun is None or begun.channel == channel:
        return None
    if not begun.thread_ts:
        return begun
    return runs.in_thread(tx, team, begun.channel, begun.thread_ts)


def say_where(tx: Transaction, run: Run, delivery: Delivery, words: str) -> None:
    """Say in a shared channel where a request in these `words` goes on, or that outsiders read it.

    Where it goes on in private its thread is begun there, unless it stands already.
    """
    if run.channel == delivery.channel:
        _say(tx, delivery, f"shared:{run.id}", shared.outsiders_read_along())
        return
    told = shared.asked_there if run.thread_ts else shared.goes_on_here
    text = told(delivery.channel, words)
    blocks = [*notice_blocks(text), *mode_line(strictest(modes.of_run(tx, run)))]
    if run.thread_ts:
        outbox.notice(tx, run, f"goes_on:{run.id}", {"text": text, "blocks": blocks})
    else:
        outbox.root(tx, run, text, blocks)
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
