"""Requests in channels that are shared with another company, or whose id changes."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bot.agent import prompt
from bot.approvals.channel_mode import get_strictest_channel_mode
from bot.approvals.form_catalog import RequestChannelChecker
from bot.cards import notices
from bot.cards.answers import render_notice_sentence
from bot.cards.request_form import render_request_mode_note
from bot.clock import Clock
from bot.policy.evaluation import CurrentPolicy
from storage import channel_modes, outbox, runs
from storage.record import Delivery, Run, Store, Transaction

log = logging.getLogger("countersign.channels")


def find_newest_run_for_message(
    tx: Transaction, delivery: Delivery, *, is_shared: bool, closed: bool = False
) -> Run | None:
    """Return the newest run of the thread that a message is in; None if there is none.

    In a shared channel, this may be the run in the private thread where its author's requests
    continue. `closed`: ignore runs begun in the channel itself, before it was shared.
    """
    team, channel, thread = delivery.team, delivery.channel, delivery.thread_ts
    newest_run = runs.find_newest_run_in_thread(tx, team, channel, thread)
    if (newest_run is not None and not closed) or not is_shared:
        return newest_run
    begun = runs.find_newest_run_of_person_in_thread(tx, team, channel, thread, delivery.user)
    if begun is None or begun.channel == channel:
        return None
    if not begun.thread_ts:
        return begun
    return runs.find_newest_run_in_thread(tx, team, begun.channel, begun.thread_ts)


def post_where_request_continues(tx: Transaction, run: Run, delivery: Delivery, words: str) -> None:
    """Say in a shared channel where a new request continues, or that outsiders can read along.

    If the request continues in private, its thread is begun there, or, if that exists already, a
    note is posted in it. `words`: the text of the request.
    """
    if run.channel == delivery.channel:
        _post_in_channel(tx, delivery, f"shared:{run.id}", notices.SHARED_CHANNEL_NOTICE)
        return
    notice_builder = (
        notices.quoted_request_notice if run.thread_ts else notices.moved_from_shared_channel_notice
    )
    text = notice_builder(delivery.channel, words)
    blocks = [
        *render_notice_sentence(text),
        *render_request_mode_note(get_strictest_channel_mode(tx, run)),
    ]
    if run.thread_ts:
        outbox.queue_notice(tx, run, f"goes_on:{run.id}", {"text": text, "blocks": blocks})
    else:
        outbox.queue_thread_root_message(tx, run, text, blocks)
    _post_in_channel(
        tx,
        delivery,
        f"private:{run.id}",
        notices.request_continues_in_private_notice(delivery.user),
    )


def _post_in_channel(tx: Transaction, delivery: Delivery, key: str, text: str) -> None:
    outbox.queue_text_line(tx, key, delivery.channel, delivery.thread_ts, text)


@dataclass(frozen=True, slots=True)
class ChannelChangeHandler:
    """Handles Slack's events about changed channels; called by the loop only."""

    store: Store
    clock: Clock
    policy: CurrentPolicy
    places: RequestChannelChecker

    def handle_event(self, delivery: Delivery, event: Mapping[str, Any]) -> None:
        """Handle a channel's change of id, or its being shared with another company.

        Raises LookupFailedError and LookupPendingError.
        """
        if event["type"] == "channel_id_changed":
            self._update_channel_id(delivery, event["old_channel_id"], event["new_channel_id"])
        else:
            self._move_requests_to_private(delivery.team, str(event.get("channel") or ""))

    def _update_channel_id(self, delivery: Delivery, old: str, new: str) -> None:
        """Update the stored channel id; log an error if the policy file still names the old one."""
        with self.store.write() as tx:
            found = channel_modes.change_channel_id(
                tx, delivery.team, old, new, at=self.clock.now()
            )
        log.warning("channel %s is %s from now on; %s requests follow it", old, new, found)
        if named := self.policy.policy.list_rules_containing(old):
            keys = ", ".join(named)
            log.error("the policy names channel %s, which is %s now: correct %s", old, new, keys)

    def _move_requests_to_private(self, team: str, channel: str) -> None:
        """Move the open requests of a channel that is now shared to direct messages.

        Does nothing if the policy names the channel. Cards in the channel are replaced by new ones;
        questions to people stay where they are.
        """
        if not self.places.is_disallowed_shared_channel(channel, is_shared=True):
            return
        with self.store.write() as tx:
            for run in runs.list_open_and_failed_runs(tx):
                is_here = (run.team, run.channel) == (team, channel)
                if is_here and runs.is_run_open(run) and not run.parent_call:
                    self._move_run_to_private(tx, run)

    def _move_run_to_private(self, tx: Transaction, run: Run) -> None:
        now = self.clock.now()
        message_texts = [
            prompt.extract_request_text(item)
            for item in runs.list_user_messages_until(tx, run.id, now)
        ]
        modes_line = render_request_mode_note(get_strictest_channel_mode(tx, run))
        if not channel_modes.move_request_out_of_channel(tx, run, at=now):
            return
        line = {"text": notices.request_continues_in_private_notice(run.requester)}
        outbox.queue_notice(tx, run, f"private:{run.id}", line)
        text = notices.moved_from_shared_channel_notice(
            run.channel, next(filter(str.strip, message_texts), "")
        )
        moved = runs.get_run(tx, run.id)
        outbox.queue_thread_root_message(
            tx, moved, text, [*render_notice_sentence(text), *modes_line]
        )
