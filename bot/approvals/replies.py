"""Private replies to people who clicked, and the audit record of clicks that do not count."""

from __future__ import annotations

from dataclasses import dataclass

from bot.cards.action_names import Action, Dialog
from bot.cards.button_codec import CallTarget, CardTarget, Rating, RunTarget, Target
from bot.policy.authority import No
from storage import calls, inbox, outbox, runs, trail
from storage.models import Call, Delivery, Run
from storage.states import Resolution, Surface, Verb
from storage.store import Store
from storage.transaction import Transaction

OUTSIDER = "Only full members of this workspace can use these buttons."
Wanted = Verb | Resolution | Action | Dialog


@dataclass(frozen=True, slots=True)
class Replies:
    """Settles deliveries that change nothing else."""

    store: Store

    def refuse(self, delivery: Delivery, text: str) -> None:
        """Tell the person why their click is refused, and settle the delivery."""
        with self.store.write() as tx:
            tell(tx, delivery, text)
            inbox.settle_delivery(tx, delivery, "refused")

    def settle(self, delivery: Delivery, note: str) -> None:
        """Settle the delivery without telling anybody."""
        with self.store.write() as tx:
            inbox.settle_delivery(tx, delivery, note)

    def turn_away(self, delivery: Delivery, wanted: Wanted, target: Target) -> None:
        """Tell somebody of another company, without a look-up, that they may not do that.

        Records the attempt, and settles the delivery.
        """
        with self.store.write() as tx:
            if about := _found(tx, target):
                record_refusal(tx, delivery, about, wanted, No("stranger"))
            tell(tx, delivery, OUTSIDER)
            inbox.settle_delivery(tx, delivery, "of another workspace")


def _found(tx: Transaction, target: Target) -> Call | Run | None:
    """Return the call or run that a click is about; None if it does not exist."""
    match target:
        case CallTarget(call=call):
            return calls.get(tx, call)
        case CardTarget(plan=plan_id):
            plan = calls.plan(tx, plan_id)
            return runs.get(tx, plan.run_id) if plan else None
        case RunTarget(run=run) | Rating(run=run):
            return runs.get(tx, run)
        case _:
            return None


def record_refusal(
    tx: Transaction, delivery: Delivery, about: Call | Run, verb: Wanted, verdict: No
) -> None:
    """Record in the audit that somebody tried what they may not do, and from which workspace."""
    run_id, call_id = about.id, ""
    what: dict[str, str | int] = {}
    if isinstance(about, Call):
        run_id, call_id = about.run_id, about.id
        what = {"tool": about.tool, "revision": about.revision}
    if delivery.surface is not Surface.SLACK:
        what["surface"] = delivery.surface
    trail.record(
        tx,
        "decision.refused",
        at=delivery.received_at,
        actor=delivery.user,
        run_id=run_id,
        call_id=call_id,
        data={"verb": verb, "why": verdict.why, "team": delivery.team, **what},
    )


def tell(tx: Transaction, delivery: Delivery, text: str) -> None:
    """Send a private text to the person who clicked, where they clicked; nothing for ""."""
    if text and delivery.surface is not Surface.SLACK:
        inbox.answer(tx, delivery, text)
    elif text:
        outbox.put_private(
            tx,
            f"private:{delivery.seq}",
            channel=delivery.channel or delivery.user,
            thread_ts=delivery.thread_ts,
            person=delivery.user,
            text=text,
        )
