"""The beginning of a request that no model works on: from a form, a program, or a new passkey."""

from __future__ import annotations

from datetime import datetime

from bot.approvals.channel_mode import get_strictest_channel_mode
from bot.cards.request_form import render_request_root_message
from storage import inbox, moves, outbox
from storage.record import Delivery, Run, Transaction
from storage.states import RunSource


def begin_direct_request(
    tx: Transaction,
    asked: Delivery,
    source: RunSource,
    effect: str,
    *,
    at: datetime,
    place: str = "",
    asked_in: str = "",
    client: str = "",
    link: str = "",
) -> Run:
    """Store a request that no model works on: its run, what is asked, and its first message.

    `effect`: what its call would do; `place`: the channel it is in, "" for direct messages;
    `link`: the message that it is about, "" for none. Returns the run.
    """
    run = Run(
        team=asked.team,
        channel=place or asked.user,
        thread_ts="",
        requester=asked.user,
        source=source,
        client=client,
        asked_in=asked_in,
        created_at=at,
        updated_at=at,
    )
    moves.insert_run(tx, run, at=at)
    inbox.hold_message_until_next_turn(tx, asked, run.id, asked_in=asked_in)
    mode = get_strictest_channel_mode(tx, run)
    text, blocks = render_request_root_message(run.requester, effect, link, mode, run.client)
    outbox.queue_thread_root_message(tx, run, text, blocks)
    return run
