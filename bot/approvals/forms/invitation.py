"""Who writes to a bot without a model is shown how to ask with a form; sends nothing."""

from __future__ import annotations

from bot.messages.requests.picker import invitation
from storage import outbox
from storage.models import Delivery, Message
from storage.states import MessageKind
from storage.transaction import Transaction


def invite(tx: Transaction, delivery: Delivery, *, in_private: bool) -> None:
    """Answer a message where it was written: one sentence, and a button for what can be asked.

    `in_private`: only who wrote it sees the answer, for another company reads along.
    """
    text, blocks = invitation(delivery.user, delivery.channel)
    row = Message(
        key=f"invited:{delivery.seq}",
        kind=MessageKind.PRIVATE if in_private else MessageKind.NOTICE,
        recipient=delivery.user if in_private else "",
        channel=delivery.channel,
        thread_ts=delivery.thread_ts,
        body=outbox.dump({"text": text, "blocks": blocks}),
    )
    outbox.put(tx, row)
