"""What whoever clicked is told, and what is written down of a click that does not count."""

from __future__ import annotations

from bot.policy.authority import No
from storage import audit, outbox
from storage.models import Call, Delivery
from storage.transaction import Transaction


def record_refusal(tx: Transaction, delivery: Delivery, call: Call, verb: str, verdict: No) -> None:
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
    """Words for the person who clicked, and for nobody else."""
    if text:
        outbox.private(
            tx,
            f"private:{delivery.seq}",
            channel=delivery.channel or delivery.user,
            thread_ts=delivery.thread_ts,
            person=delivery.user,
            text=text,
        )
