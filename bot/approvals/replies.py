"""Private replies to people who clicked, and the audit record of clicks that do not count."""

from __future__ import annotations

from dataclasses import dataclass

from bot.cards.action_names import Action, DialogId
from bot.cards.button_codec import AnswerRating, CallTarget, CardTarget, RunTarget, Target
from bot.policy.authority import Denial
from storage import calls, inbox, outbox, runs, trail
from storage.models import Call, Delivery, Run
from storage.states import CallVerb, Surface, UnknownCallResolution
from storage.store import Store
from storage.transaction import Transaction

OUTSIDER = "Only full members of this workspace can use these buttons."
RequestedAction = CallVerb | UnknownCallResolution | Action | DialogId


@dataclass(frozen=True, slots=True)
class DeliverySettler:
    """Settles deliveries that change nothing else."""

    store: Store

    def refuse_click(self, delivery: Delivery, text: str) -> None:
        """Tell the person why their click is refused, and settle the delivery."""
        with self.store.write() as tx:
            reply_privately(tx, delivery, text)
            inbox.mark_delivery_done(tx, delivery, "refused")

    def settle_silently(self, delivery: Delivery, note: str) -> None:
        """Settle the delivery without telling anybody."""
        with self.store.write() as tx:
            inbox.mark_delivery_done(tx, delivery, note)

    def refuse_outsider(self, delivery: Delivery, wanted: RequestedAction, target: Target) -> None:
        """Tell somebody of another company, without a look-up, that they may not do that.

        Records the attempt, and settles the delivery.
        """
        with self.store.write() as tx:
            if about := _find_target_row(tx, target):
                record_refusal(tx, delivery, about, wanted, Denial("stranger"))
            reply_privately(tx, delivery, OUTSIDER)
            inbox.mark_delivery_done(tx, delivery, "of another workspace")


def _find_target_row(tx: Transaction, target: Target) -> Call | Run | None:
    """Return the call or run that a click is about; None if it does not exist."""
    match target:
        case CallTarget(call=call):
            return calls.find_call(tx, call)
        case CardTarget(plan=plan_id):
            plan = calls.find_plan(tx, plan_id)
            return runs.find_run(tx, plan.run_id) if plan else None
        case RunTarget(run=run) | AnswerRating(run=run):
            return runs.find_run(tx, run)
        case _:
            return None


def record_refusal(
    tx: Transaction, delivery: Delivery, about: Call | Run, verb: RequestedAction, verdict: Denial
) -> None:
    """Record in the audit that somebody tried what they may not do, and from which workspace."""
    run_id, call_id = about.id, ""
    what: dict[str, str | int] = {}
    if isinstance(about, Call):
        run_id, call_id = about.run_id, about.id
        what = {"tool": about.tool, "revision": about.revision}
    if delivery.surface is not Surface.SLACK:
        what["surface"] = delivery.surface
    trail.record_event(
        tx,
        "decision.refused",
        at=delivery.received_at,
        actor=delivery.user,
        run_id=run_id,
        call_id=call_id,
        data={"verb": verb, "why": verdict.why, "team": delivery.team, **what},
    )


def reply_privately(tx: Transaction, delivery: Delivery, text: str) -> None:
    """Send a private text to the person who clicked, where they clicked; nothing for ""."""
    if text and delivery.surface is not Surface.SLACK:
        inbox.store_delivery_answer(tx, delivery, text)
    elif text:
        outbox.queue_private_message(
            tx,
            f"private:{delivery.seq}",
            channel=delivery.channel or delivery.user,
            thread_ts=delivery.thread_ts,
            person=delivery.user,
            text=text,
        )
