"""Requests in channels that are shared with another company, or whose id changes."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bot.agent import prompt
from bot.approvals.channel_mode import strictest
from bot.approvals.form_requests import StartingPlaces
from bot.cards import notices
from bot.cards.answers import notice_blocks
from bot.cards.request_form import mode_line
from bot.clock import Clock
from bot.policy.evaluation import CurrentPolicy
from storage import channel_modes, outbox, runs
from storage.models import Delivery, Run
from storage.store import Store
from storage.transaction import Transaction

log = logging.getLogger("countersign.channels")


def newest_run_of_thread(
    tx: Transaction, delivery: Delivery, *, is_shared: bool, closed: bool = False
) -> Run | None:
    """Return the newest run of the thread that a message is in; None if there is none.

    In a shared channel, this may be the run in the private thread where its author's requests
    continue. `closed`: ignore runs begun in the channel itself, before it was shared.
    """
    team, channel, thread = delivery.team, delivery.channel, delivery.thread_ts
    found = runs.in_thread(tx, team, channel, thread)
    if (found is not None and not closed) or not is_shared:
        return found
    begun = runs.run_begun_in(tx, team, channel, thread, delivery.user)
    if begun is None or begun.channel == channel:
        return None
    if not begun.thread_ts:
        return begun
    return runs.in_thread(tx, team, begun.channel, begun.thread_ts)


def say_where(tx: Transaction, run: Run, delivery: Delivery, words: str) -> None:
    """Say in a shared channel where a new request continues, or that outsiders can read along.

    If the request continues in private, its thread is begun there, or, if that exists already, a
    note is posted in it. `words`: the text of the request.
    """
    if run.channel == delivery.channel:
        _say(tx, delivery, f"shared:{run.id}", notices.outsiders_read_along())
        return
    told = notices.asked_there if run.thread_ts else notices.goes_on_here
    text = told(delivery.channel, words)
    blocks = [*notice_blocks(text), *mode_line(strictest(channel_modes.modes_of_run(tx, run)))]
    if run.thread_ts:
        outbox.notice(tx, run, f"goes_on:{run.id}", {"text": text, "blocks": blocks})
    else:
        outbox.put_root(tx, run, text, blocks)
    _say(tx, delivery, f"private:{run.id}", notices.goes_on_in_private(delivery.user))


def _say(tx: Transaction, delivery: Delivery, key: str, text: str) -> None:
    outbox.put_line(tx, key, delivery.channel, delivery.thread_ts, text)


@dataclass(frozen=True, slots=True)
class ChangedChannels:
    """Handles Slack's events about changed channels; called by the loop only."""

    store: Store
    clock: Clock
    policy: CurrentPolicy
    places: StartingPlaces

    def heed(self, delivery: Delivery, event: Mapping[str, Any]) -> None:
        """Handle a channel's change of id, or its being shared with another company.

        Raises LookupFailedError and NotYetKnownError.
        """
        if event["type"] == "channel_id_changed":
            self._follow(delivery, event["old_channel_id"], event["new_channel_id"])
        else:
            self._leave(delivery.team, str(event.get("channel") or ""))

    def _follow(self, delivery: Delivery, old: str, new: str) -> None:
        """Update the stored channel id; log an error if the policy file still names the old one."""
        with self.store.write() as tx:
            found = channel_modes.follow_channel(tx, delivery.team, old, new, at=self.clock.now())
        log.warning("channel %s is %s from now on; %s requests follow it", old, new, found)
        if named := self.policy.policy.naming(old):
            keys = ", ".join(named)
            log.error("the policy names channel %s, which is %s now: correct %s", old, new, keys)

    def _leave(self, team: str, channel: str) -> None:
        """Move the open requests of a channel that is now shared to direct messages.

        Does nothing if the policy names the channel. Cards in the channel are replaced by new ones;
        questions to people stay where they are.
        """
        if not self.places.is_closed(channel, is_shared=True):
            return
        with self.store.write() as tx:
            for run in runs.unfinished(tx):
                is_here = (run.team, run.channel) == (team, channel)
                if is_here and runs.is_open(run) and not run.parent_call:
                    self._go_private(tx, run)

    def _go_private(self, tx: Transaction, run: Run) -> None:
        now = self.clock.now()
        said = [prompt.words_of_request(item) for item in runs.read_messages(tx, run.id, now)]
        modes_line = mode_line(strictest(channel_modes.modes_of_run(tx, run)))
        if not channel_modes.leave_channel(tx, run, at=now):
            return
        line = {"text": notices.goes_on_in_private(run.requester)}
        outbox.notice(tx, run, f"private:{run.id}", line)
        text = notices.goes_on_here(run.channel, next(filter(str.strip, said), ""))
        moved = runs.get(tx, run.id)
        assert moved is not None
        outbox.put_root(tx, moved, text, [*notice_blocks(text), *modes_line])
