"""Who writes to a bot without a model is shown how to ask with a form; sends nothing."""

from __future__ import annotations

from bot.messages.requests.picker import invitation
from storage import outbox
from storage.models import Delivery, Message
from storage.states import MessageKind
from storage.transaction import Transaction


def invite(tx: Transaction, delivery: Delivery) -> None:
    """Answer a message where it was written: one sentence, and a button for what can be asked."""
    text, blocks = invitation(delivery.user, delivery.channel)
    row = Message(
        key=f"invited:{delivery.seq}",
        kind=MessageKind.NOTICE,
        channel=delivery.channel,
        thread_ts=delivery.thread_ts,
        body=outbox.dump({"text": text, "blocks": blocks}),
    )
    outbox.put(tx, row)
