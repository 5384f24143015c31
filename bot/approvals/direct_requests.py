"""The beginning of a request that no model works on: from a form, a program, or a new passkey."""

from __future__ import annotations

from bot.approvals.channel_mode import get_strictest_channel_mode
from bot.cards.request_form import render_request_root_message
from storage import inbox, moves, outbox
from storage.record import Delivery, Run, Transaction


def begin_direct_request(
    tx: Transaction, run: Run, asked: Delivery, effect: str, link: str = ""
) -> None:
    """Store a request that no model works on: its run, what is asked, and its first message.

    `effect`: what its call would do; `link`: the message that it is about, "" for none.
    """
    asked_in = run.asked_in
    moves.insert_run(tx, run, at=run.created_at)
    inbox.hold_message_until_next_turn(tx, asked, run.id, asked_in=asked_in)
    mode = get_strictest_channel_mode(tx, run)
    text, blocks = render_request_root_message(run.requester, effect, link, mode, run.client)
    outbox.queue_thread_root_message(tx, run, text, blocks)
