"""What people do with a plan beside deciding its calls: they withdraw one, or send all back."""

from __future__ import annotations

from bot.agent import outputs
from bot.approvals.permissions import Permissions
from bot.approvals.replies import record_refusal, tell
from bot.approvals.terms.effect import effect_of
from bot.messages.actions.targets import CallTarget
from bot.messages.sentences import notices, refusals, requests
from bot.policy.authority import No
from bot.tools import Registry
from storage import calls, decisions, endings, inbox, outbox, runs
from storage.decisions import Open
from storage.models import Delivery
from storage.states import Verb
from storage.store import Store


class PlanChanges:
    """One per process; called by `bot.approvals.clicks` only."""

    def __init__(
        self, store: Store, tools: Registry, permissions: Permissions, max_rounds: int
    ) -> None:
        """`max_rounds`: how often a request may be sent back; `permissions` says who may."""
        self._store = store
        self._tools = tools
        self._permissions = permissions
        self._max_rounds = max_rounds

    def withdraw(self, delivery: Delivery, target: CallTarget) -> None:
        """The requester takes one call back; everything else of the request goes on."""
        at = delivery.received_at
        with self._store.write() as tx:
            found = decisions.look(tx, target.call, target.revision, at)
            run = runs.get(tx, found.call.run_id) if isinstance(found, Open) else None
            if not isinstance(found, Open) or run is None:
                tell(tx, delivery, self._permissions.lost(found, delivery.user))
            elif run.requester != delivery.user:
                record_refusal(tx, delivery, found.call, Verb.WITHDRAW, No("not_requester"))
                tell(tx, delivery, refusals.not_the_requester(run.requester))
            else:
                effect = effect_of(self._tools, tx, found.call)
                endings.withdraw(tx, found.call, delivery.user, at=at, words=outputs)
                line = notices.withdrawn_line(delivery.user, [effect])
                outbox.notice(tx, run, f"withdrawn:{delivery.seq}", {"text": line})
            inbox.settle(tx, delivery, "withdraw")

    def send_back(self, delivery: Delivery, target: CallTarget, feedback: str) -> None:
        """The whole plan of this call gives way to a new one that heeds the feedback.

        An approver or the requester.
        """
        at = delivery.received_at
        with self._store.read() as tx:
            found = decisions.look(tx, target.call, target.revision, at)
            run = runs.get(tx, found.call.run_id) if isinstance(found, Open) else None
        verdict = None
        if isinstance(found, Open) and run is not None:
            verdict = self._permissions.verdict(
                Verb.SEND_BACK, found.call, run, delivery.user, at=at
            )
        with self._store.write() as tx:
            found = decisions.look(tx, target.call, target.revision, at)
            run = runs.get(tx, run.id) if run else None
            if not isinstance(found, Open) or run is None:
                tell(tx, delivery, self._permissions.lost(found, delivery.user))
            elif verdict is None or isinstance(verdict, No):
                refused = verdict or No("not_approver")
                record_refusal(tx, delivery, found.call, Verb.SEND_BACK, refused)
                tell(tx, delivery, self._permissions.refusal(refused, found.call, Verb.REJECT))
            elif runs.is_form(run):
                tell(tx, delivery, requests.nobody_plans())
            elif run.rounds >= self._max_rounds:
                tell(tx, delivery, refusals.sent_back_enough(run.rounds))
            elif feedback and calls.open_plan(tx, run.id) is not None:
                endings.send_back(tx, run, delivery.user, feedback, at=at, words=outputs)
                line = notices.sent_back_line(delivery.user, feedback)
                outbox.notice(tx, run, f"sent_back:{delivery.seq}", {"text": line})
            inbox.settle(tx, delivery, "send back")
