"""Clicks about a whole request (cancel, retry, feedback), and about a call of which nobody knows
how it ended.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from bot.agent import outputs
from bot.approvals.permissions import Permissions
from bot.approvals.replies import Replies, record_refusal, tell
from bot.approvals.terms.fingerprint import as_asked_again
from bot.messages.actions.names import Action
from bot.messages.actions.targets import CallTarget, Rating
from bot.messages.sentences import notices, refusals
from bot.policy.authority import No, Yes
from bot.policy.gates import Ask, load_gate
from bot.tools import Registry
from storage import calls, decisions, endings, inbox, moves, outbox, runs, sub_agents, trail
from storage.decisions import Applied, Decided
from storage.models import Delivery, Run
from storage.states import CallStatus, Resolution, RunStatus, Verb
from storage.store import Store


def end_those_of(store: Store, team: str, person: str, at: datetime) -> list[Run]:
    """Cancel the open requests of somebody whose account was deactivated; return them.

    Their cards say so: nobody is left whose wish it is, and who would hear what came of it.
    """
    with store.write() as tx:
        mine = (run for run in runs.unfinished(tx) if (run.team, run.requester) == (team, person))
        first = [run for run in mine if not run.parent_call and runs.is_open(run)]
        for run in first:
            found = sub_agents.open_in(tx, run.id)
            plans = [plan.id for each in found for plan in calls.open_plans(tx, each.id)]
            note = notices.WHO_ASKED_HAS_LEFT
            endings.cancel(tx, run, at=at, actor="system", words=outputs, note=note)
            text = notices.requester_left(person)
            outbox.everywhere(tx, run, plans, f"left:{run.id}", text)
    return first


class Requests:
    """One per process; called by `bot.approvals.clicks` only."""

    def __init__(
        self,
        store: Store,
        permissions: Permissions,
        tools: Registry,
        key: bytes,
        ended: Callable[[Run], None],
    ) -> None:
        """`permissions` says who may; `key` signs what would run again.

        `ended` shows that a request is over; it never fails.
        """
        self._store = store
        self._tools = tools
        self._key = key
        self._ended = ended
        self._permissions = permissions
        self._replies = Replies(store)

    def resolve(self, delivery: Delivery, target: CallTarget, resolution: Resolution) -> None:
        """Write down what became of an UNKNOWN call, or have it run again, as a person says."""
        with self._store.read() as tx:
            call = calls.get(tx, target.call)
            run = runs.get(tx, call.run_id) if call else None
        # that one never had a gate
        if call is None or run is None or call.status is CallStatus.REFUSED:
            self._replies.refuse(delivery, refusals.stale_card())
            return
        gate = load_gate(call.gate)
        # one click is not the votes it takes
        if resolution is Resolution.AGAIN and isinstance(gate, Ask) and gate.people > 1:
            self._replies.refuse(delivery, refusals.again_needs_all())
            return
        if isinstance(gate, Ask):
            verdict = self._permissions.verdict(
                Verb.RESOLVE, call, run, delivery.user, at=delivery.received_at
            )
        else:  # policy let it run unasked: who asked for it says what became of it
            verdict = Yes(why="requester") if delivery.user == run.requester else No("not_approver")
        with self._store.write() as tx:
            if isinstance(verdict, No):
                record_refusal(tx, delivery, call, resolution, verdict)
                tell(tx, delivery, self._permissions.refusal(verdict, call, Verb.APPROVE))
            else:
                outcome = decisions.resolve(
                    tx,
                    target.call,
                    target.revision,
                    delivery.user,
                    resolution,
                    at=delivery.received_at,
                    words=outputs,
                    digest=as_asked_again(tx, self._key, run, call, self._tools),
                    counts_as=verdict.why,
                    giver=verdict.giver,
                )
                match outcome:
                    case Applied():
                        pass
                    case Decided():  # it was approved long ago; what is over is the question
                        tell(tx, delivery, refusals.stale_card())
                    case _:
                        tell(tx, delivery, self._permissions.lost(outcome, delivery.user))
            inbox.settle(tx, delivery, f"resolve {resolution}")

    def cancel(self, delivery: Delivery, run_id: str) -> None:
        """Cancel a request, for its requester."""
        over = False
        with self._store.write() as tx:
            found = runs.get(tx, run_id)
            run = (
                sub_agents.root(tx, found) if found else None
            )  # a sub-agent's ends with its request
            if run is None:
                tell(tx, delivery, refusals.stale_card())
            elif run.requester != delivery.user:
                record_refusal(tx, delivery, run, Action.CANCEL_RUN, No("not_requester"))
                tell(tx, delivery, refusals.not_your_run(run.requester))
            elif endings.cancel(
                tx, run, at=delivery.received_at, actor=delivery.user, words=outputs
            ):
                outbox.notice(
                    tx,
                    run,
                    f"cancelled:{run.id}",
                    {"text": notices.cancelled_line(delivery.user)},
                )
                over = True
            else:
                tell(tx, delivery, refusals.nothing_to_cancel())
            inbox.settle(tx, delivery, "cancel")
        if over and run is not None:
            self._ended(run)

    def retry(self, delivery: Delivery, run_id: str) -> None:
        """Take a failed request up again, for its requester."""
        with self._store.write() as tx:
            run = runs.get(tx, run_id)
            newest = run and runs.in_thread(tx, run.team, run.channel, run.thread_ts)
            if runs.is_form(run):
                newest = run  # it goes on by itself, beside what is said there
            is_last = newest is not None and newest.id == run_id and newest.purged_at is None
            if run is None:
                tell(tx, delivery, refusals.stale_card())
            elif run.requester != delivery.user:
                record_refusal(tx, delivery, run, Action.RETRY, No("not_requester"))
                tell(tx, delivery, refusals.not_your_run(run.requester))
            elif run.status is not RunStatus.FAILED or not is_last:
                tell(tx, delivery, refusals.nothing_to_retry())
            else:
                moves.run(
                    tx, run, RunStatus.READY, at=delivery.received_at, actor=delivery.user, error=""
                )
            inbox.settle(tx, delivery, "retry")

    def feedback(self, delivery: Delivery, rating: Rating) -> None:
        """Write down what somebody thinks of an answer."""
        with self._store.write() as tx:
            if runs.get(tx, rating.run):
                at = delivery.received_at
                trail.record(
                    tx,
                    "feedback",
                    at=at,
                    actor=delivery.user,
                    run_id=rating.run,
                    data={"answer": "good" if rating.good else "bad"},
                )
                tell(tx, delivery, "Thank you, noted.")
            inbox.settle(tx, delivery, "feedback")
