"""Takes in what a person types elsewhere than in Slack: words for the agent, in a thread of theirs.

Slack keeps the whole conversation: the bot begins its thread in the person's direct messages, and
says there what else was typed. Runs on the loop; who they are is looked up first.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass

from bot.agent import outputs
from bot.approvals.replies import tell
from bot.clock import Clock
from bot.messages.answers import notice_blocks
from bot.messages.incoming import takes_back
from bot.messages.sentences import notices, refusals, terminal
from bot.policy.authority import Authority
from bot.runs.hearing.taking_on import take_on
from storage import endings, inbox, outbox, runs
from storage.models import Delivery, Run
from storage.states import DeliveryKind
from storage.store import Store
from storage.transaction import Transaction


@dataclass(frozen=True, slots=True)
class TypedWords:
    """One per process; called by the loop only. `ended` is told of requests that were cancelled."""

    store: Store
    clock: Clock
    authority: Authority
    has_model: bool
    ended: Callable[[Run], None]

    def take(self, delivery: Delivery) -> bool:
        """Deal with words that were typed; return whether it was any.

        Raises LookupFailedError when it must be tried again later, and NotYetKnownError.
        """
        if delivery.kind is not DeliveryKind.TYPED:
            return False
        words = json.loads(delivery.body)["event"]["text"]
        colleague = self.authority.colleague(delivery.user)
        with self.store.write() as tx:
            if not inbox.is_new(tx, delivery):
                return True
            run = None
            if delivery.thread_ts:
                place = (delivery.team, delivery.channel, delivery.thread_ts)
                run = runs.in_thread(tx, *place)
            if runs.is_form(run):
                run = None  # it goes on by itself, beside what is said here
            refused = self._refused(delivery, run, is_colleague=colleague)
            if refused:
                tell(tx, delivery, refused)
                inbox.forget(tx, delivery, "refused")
            elif takes_back(words):
                self._cancel(tx, delivery, run)
            else:
                self._hear(tx, delivery, run, words)
        return True

    def _refused(self, delivery: Delivery, run: Run | None, *, is_colleague: bool) -> str:
        if not is_colleague:
            return terminal.members_only_there()
        if not self.has_model:
            return terminal.no_model_there()
        if run is not None and runs.is_open(run) and run.requester != delivery.user:
            return refusals.waits_for(run.requester)
        return ""

    def _hear(self, tx: Transaction, delivery: Delivery, run: Run | None, words: str) -> None:
        made = take_on(tx, delivery, run, at=self.clock.now(), in_private=not delivery.thread_ts)
        text = terminal.typed_there(delivery.surface, delivery.user, words)
        if made and not made.thread_ts:
            outbox.root(tx, made, text, notice_blocks(text))
        elif about := made or run:
            outbox.notice(tx, about, f"typed:{delivery.seq}", {"text": text})

    def _cancel(self, tx: Transaction, delivery: Delivery, run: Run | None) -> None:
        at, actor = self.clock.now(), delivery.user
        if run is None or not endings.cancel(tx, run, at=at, actor=actor, words=outputs):
            tell(tx, delivery, refusals.nothing_to_cancel())
        else:
            line = notices.cancelled_line(actor)
            outbox.notice(tx, run, f"cancelled:{run.id}", {"text": line})
            self.ended(run)
        inbox.settle(tx, delivery, "cancel")
