"""What whoever clicked is told, and what is written down of a click that does not count."""

from __future__ import annotations

from dataclasses import dataclass

from bot.policy.authority import No
from storage import audit, inbox, outbox
from storage.models import Call, Delivery
from storage.states import Resolution, Verb
from storage.store import Store
from storage.transaction import Transaction


@dataclass(frozen=True, slots=True)
class Replies:
    """Ends deliveries by which nothing else changes."""

    store: Store

    def refuse(self, delivery: Delivery, text: str) -> None:
        """Tell the person why not, and settle the delivery."""
        with self.store.write() as tx:
            tell(tx, delivery, text)
            inbox.settle(tx, delivery, "refused")

    def settle(self, delivery: Delivery, note: str) -> None:
        """Settle the delivery, and tell nobody."""
        with self.store.write() as tx:
            inbox.settle(tx, delivery, note)


def record_refusal(
    tx: Transaction, delivery: Delivery, call: Call, verb: Verb | Resolution, verdict: No
) -> None:
    """Write down that somebody tried who may not."""
    audit.record(
        tx,
        "decision.refused",
        at=delivery.received_at,
        actor=delivery.user,
        run_id=call.run_id,
        call_id=call.id,
        data={"verb": verb, "why": verdict.why},
    )


def tell(tx: Transaction, delivery: Delivery, text: str) -> None:
    """Say something to the person who clicked, and to nobody else."""
    if text:
        outbox.private(
            tx,
            f"private:{delivery.seq}",
            channel=delivery.channel or delivery.user,
            thread_ts=delivery.thread_ts,
            person=delivery.user,
            text=text,
        )
