"""Buttons that change a whole request: cancel, retry, feedback, withdraw, send back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from bot.approvals.call_state import describe_call_effect
from bot.approvals.permissions import (
    DeliverySettler,
    PermissionChecker,
    record_refused_action,
    reply_privately,
)
from bot.cards import notices, sentences
from bot.cards.action_names import Action, DialogId
from bot.cards.button_codec import CallTarget, Click, DialogSubject, ModelAnswerRating, RunTarget
from bot.cards.review_dialog import parse_entered_words
from bot.policy.authority import Denial, Permission
from bot.tools import Registry
from storage import calls, decisions, endings, inbox, moves, outbox, runs, sub_agents, trail
from storage.record import Delivery, Run
from storage.states import CallVerb, RunStatus


class RequestActionHandler:
    """Handles clicks about a request. One per process; called on the loop only."""

    def __init__(
        self,
        replies: DeliverySettler,
        permissions: PermissionChecker,
        ended: Callable[[Run], None],
    ) -> None:
        """Store the dependencies; `permissions` says who may do what.

        `ended` shows that a request is over; it never fails.
        """
        self._store = replies.store
        self._ended = ended
        self._permissions = permissions
        self._replies = replies

    def get_action_handlers(self) -> Mapping[Action | DialogId, Any]:
        """Return the handler of each button about a request."""
        acts = (Action.CANCEL_RUN, Action.RETRY, Action.FEEDBACK)
        return dict.fromkeys(acts, self.handle_click)

    def handle_click(
        self, delivery: Delivery, asked: Click | DialogSubject, _payload: dict[str, Any]
    ) -> None:
        """Do what the clicked button of a request is for, and mark the click as handled."""
        match asked:
            case Click(Action.CANCEL_RUN, RunTarget(run)):
                self.cancel_request(delivery, run)
            case Click(Action.RETRY, RunTarget(run)):
                self.resume_failed_request(delivery, run)
            case Click(Action.FEEDBACK, ModelAnswerRating() as rating):
                self.record_answer_rating(delivery, rating)

    def cancel_request(self, delivery: Delivery, run_id: str) -> None:
        """Cancel a request, if its requester clicked."""
        over = False
        with self._store.write() as tx:
            clicked_run = runs.find_run(tx, run_id)
            run = (
                sub_agents.get_root_run(tx, clicked_run) if clicked_run else None
            )  # a sub-agent's run is cancelled with its whole request
            if run is None:
                reply_privately(tx, delivery, sentences.OUTDATED_CARD_REPLY)
            elif run.requester != delivery.user:
                record_refused_action(tx, delivery, run, Action.CANCEL_RUN, Denial.NOT_REQUESTER)
                reply_privately(
                    tx, delivery, sentences.only_requester_may_reply("cancel", run.requester)
                )
            elif endings.cancel_run(tx, run, at=delivery.received_at, actor=delivery.user):
                outbox.queue_notice(
                    tx,
                    run,
                    f"cancelled:{run.id}",
                    {"text": notices.request_cancelled_line(delivery.user)},
                )
                over = True
            else:
                reply_privately(tx, delivery, sentences.NOTHING_TO_CANCEL_REPLY)
            inbox.mark_delivery_done(tx, delivery, "cancel")
        if over and run is not None:
            self._ended(run)

    def resume_failed_request(self, delivery: Delivery, run_id: str) -> None:
        """Resume a failed request, if its requester clicked and is still a full member."""
        is_member = self._permissions.authority.is_active_colleague(delivery.user)
        with self._store.write() as tx:
            run = runs.find_run(tx, run_id)
            newest = run and runs.find_newest_run_in_thread(
                tx, run.team, run.channel, run.thread_ts
            )
            if runs.is_run_without_model(run):
                newest = run  # without a model, newer requests in the thread do not matter
            is_last = newest is not None and newest.id == run_id and newest.purged_at is None
            if run is None:
                reply_privately(tx, delivery, sentences.OUTDATED_CARD_REPLY)
            elif run.requester != delivery.user:
                record_refused_action(tx, delivery, run, Action.RETRY, Denial.NOT_REQUESTER)
                reply_privately(
                    tx, delivery, sentences.only_requester_may_reply("retry", run.requester)
                )
            elif not is_member:
                record_refused_action(tx, delivery, run, Action.RETRY, Denial.STRANGER)
                reply_privately(tx, delivery, sentences.MEMBERS_ONLY_REPLY)
            elif run.status is not RunStatus.FAILED or not is_last:
                reply_privately(tx, delivery, sentences.NOTHING_TO_RETRY_REPLY)
            else:
                moves.change_run_status(
                    tx, run, RunStatus.READY, at=delivery.received_at, actor=delivery.user, error=""
                )
            inbox.mark_delivery_done(tx, delivery, "retry")

    def record_answer_rating(self, delivery: Delivery, rating: ModelAnswerRating) -> None:
        """Record whether somebody found an answer good or bad."""
        with self._store.write() as tx:
            if runs.find_run(tx, rating.run):
                at, actor = delivery.received_at, delivery.user
                said = {"answer": "good" if rating.good else "bad"}
                trail.record_event(tx, "feedback", at=at, actor=actor, run_id=rating.run, data=said)
                reply_privately(tx, delivery, "Thank you, noted.")
            inbox.mark_delivery_done(tx, delivery, "feedback")


# Other changes to a plan than votes: withdrawing one call, or sending the whole plan back.


class PlanChangeHandler:
    """Handles withdrawing a call and sending a plan back.

    One per process; called on the loop only.
    """

    def __init__(
        self,
        replies: DeliverySettler,
        tools: Registry,
        permissions: PermissionChecker,
        max_rounds: int,
    ) -> None:
        """Store the dependencies; a request may be sent back `max_rounds` times.

        `permissions` says who may.
        """
        self._store = replies.store
        self._tools = tools
        self._permissions = permissions
        self._max_rounds = max_rounds

    def get_action_handlers(self) -> Mapping[Action | DialogId, Any]:
        """Return the handlers of the Withdraw button and of the dialog with feedback."""
        return {
            Action.WITHDRAW: self.handle_plan_change,
            DialogId.SEND_BACK: self.handle_plan_change,
        }

    def handle_plan_change(
        self, delivery: Delivery, asked: Click | DialogSubject, payload: dict[str, Any]
    ) -> None:
        """Withdraw the call, or send its plan back, and mark the click or dialog as handled."""
        assert isinstance(asked.target, CallTarget)
        if isinstance(asked, Click):
            self.withdraw_call(delivery, asked.target)
        else:
            feedback = parse_entered_words(payload["view"]["state"]["values"])
            self.send_back_plan(delivery, asked.target, feedback)

    def withdraw_call(self, delivery: Delivery, target: CallTarget) -> None:
        """Withdraw one call for its requester; the rest of the request goes on."""
        at = delivery.received_at
        with self._store.write() as tx:
            check_result = decisions.check_revision_is_decidable(
                tx, target.call, target.revision, at
            )
            if not isinstance(check_result, decisions.DecidableCall):
                reply_privately(
                    tx, delivery, self._permissions.too_late_sentence(check_result, delivery.user)
                )
            elif (run := runs.get_run(tx, check_result.call.run_id)).requester != delivery.user:
                record_refused_action(
                    tx, delivery, check_result.call, CallVerb.WITHDRAW, Denial.NOT_REQUESTER
                )
                reply_privately(
                    tx, delivery, sentences.only_requester_may_reply("withdraw", run.requester)
                )
            else:
                effect = describe_call_effect(self._tools, tx, check_result.call)
                endings.withdraw_call(tx, check_result.call, delivery.user, at=at)
                line = notices.calls_withdrawn_line(delivery.user, [effect])
                outbox.queue_notice(tx, run, f"withdrawn:{delivery.seq}", {"text": line})
            inbox.mark_delivery_done(tx, delivery, "withdraw")

    def send_back_plan(self, delivery: Delivery, target: CallTarget, feedback: str) -> None:
        """Replace the whole plan of this call by a new one that follows the feedback.

        An approver or the requester may do so.
        """
        at = delivery.received_at
        with self._store.read() as tx:
            check_result = decisions.check_revision_is_decidable(
                tx, target.call, target.revision, at
            )
        verdict: Permission | Denial = Denial.NOT_APPROVER
        if isinstance(check_result, decisions.DecidableCall):
            with self._store.read() as tx:
                run = runs.get_run(tx, check_result.call.run_id)
            verdict = self._permissions.judge_action(
                CallVerb.SEND_BACK, check_result.call, run, delivery.user, at=at
            )
        with self._store.write() as tx:
            check_result = decisions.check_revision_is_decidable(
                tx, target.call, target.revision, at
            )
            if not isinstance(check_result, decisions.DecidableCall):
                reply_privately(
                    tx, delivery, self._permissions.too_late_sentence(check_result, delivery.user)
                )
            elif isinstance(verdict, Denial):
                record_refused_action(tx, delivery, check_result.call, CallVerb.SEND_BACK, verdict)
                reply_privately(
                    tx,
                    delivery,
                    self._permissions.refusal_sentence(verdict, check_result.call, CallVerb.REJECT),
                )
            elif runs.is_run_without_model(run := runs.get_run(tx, check_result.call.run_id)):
                reply_privately(tx, delivery, sentences.NO_PLANNING_AGENT_REPLY)
            elif run.rounds >= self._max_rounds:
                reply_privately(tx, delivery, sentences.send_back_limit_reply(run.rounds))
            elif feedback and calls.find_open_plan(tx, run.id) is not None:
                endings.send_back_plan(tx, run, delivery.user, feedback, at=at)
                line = notices.plan_sent_back_line(delivery.user, feedback)
                to = {run.requester} - {delivery.user}
                key = f"sent_back:{delivery.seq}"
                outbox.queue_notice(tx, run, key, {"text": line}, notified=to)
            inbox.mark_delivery_done(tx, delivery, "send back")
