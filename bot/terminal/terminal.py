"""What the operator wants at the terminal: stored as a delivery, decided by the loop, answered.

It decides nothing: it stores what a click or a dialog in Slack would be, wakes the loop, and waits
for what the loop made of it. On threads of its own.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from functools import partial

from bot.messages.actions.codec import Click, decode
from bot.messages.actions.names import Action
from bot.messages.actions.targets import CallTarget
from bot.messages.text import plainly
from bot.surfaces.port import Host
from bot.terminal import sentences
from bot.terminal.acts import InTheWay, OperatorActs, Typed
from bot.terminal.following import Following
from bot.terminal.seen import Seen
from bot.terminal.wire import Answering, Asking, Happening, Wish
from storage import inbox
from storage.models import Delivery
from storage.states import DeliveryStatus

PATIENCE = 30.0  # seconds that an answer may take: Slack is asked who the operator is


class Terminal:
    """Takes what one named person wants, and says what came of it."""

    def __init__(self, host: Host, operator: str) -> None:
        """`operator`: the Slack user id of whoever sits there."""
        self._host = host
        self._seen = Seen(host, operator)
        self._acts = OperatorActs(host, operator)
        self._ending = threading.Event()

    def answer(self, asking: Asking) -> Answering:
        """Do what is wanted, and return what came of it. Waits for the loop."""
        match asking.wish:
            case Wish.PENDING:
                return Answering(True, "", calls=self._seen.pending())
            case Wish.LOOK:
                found = self._seen.call(_call_of(asking.target))
                if found is None:
                    return Answering(False, sentences.no_such_call())
                return Answering(True, "", calls=(found,))
            case Wish.FOLLOW:
                return Answering(False, sentences.too_many_chats())
            case wish:
                typed = self._typed()[wish](asking)
                if isinstance(typed, InTheWay):
                    return Answering(False, typed.sentence)
                return self._done(typed)

    def follow(
        self, asking: Asking, say: Callable[[Happening], None], is_gone: Callable[[], bool]
    ) -> None:
        """Say what happens in the chat of a request until who listens is gone, or the bot ends."""
        following = Following(self._host, self._seen, asking.target)
        following.tell(say, lambda: self._ending.is_set() or is_gone())

    def _typed(self) -> Mapping[Wish, Callable[[Asking], Typed | InTheWay]]:
        """Return what makes deliveries of each wish that changes something."""
        acts = self._acts
        return {
            Wish.APPROVE: acts.vote,
            Wish.REJECT: acts.vote,
            Wish.APPROVE_PLAN: acts.approve_plan,
            Wish.SEND_BACK: acts.send_back,
            Wish.EDIT: acts.edit,
            Wish.ANSWER: acts.answer,
            Wish.SAY: acts.say,
            **dict.fromkeys((Wish.DECLINE, Wish.DONE, Wish.NOT_DONE, Wish.AGAIN), acts.click),
            **dict.fromkeys((Wish.CANCEL, Wish.RETRY), acts.about_request),
        }

    def stop(self) -> None:
        """Have nobody wait for an answer any more: the process ends, what is stored stays."""
        self._ending.set()
        self._host.signals.rest.changed()

    def _done(self, typed: Typed) -> Answering:
        """Hand in what was typed, and return what the loop made of it."""
        for delivery in typed.deliveries:
            self._host.keep(delivery)
        self._host.signals.rest.wait_for(partial(self._over, typed), PATIENCE)
        rows = [self._row(each) for each in typed.deliveries]
        if not all(each and each.status is not DeliveryStatus.NEW for each in rows):
            return Answering(False, sentences.still_deciding())
        found = [each for each in rows if each]
        if any(each.status is DeliveryStatus.BROKEN for each in found):
            return Answering(False, sentences.could_not_be_decided())
        told = [plainly(self._host.named(each.answer)) for each in found if each.answer]
        if said := typed.came_of_it(found):
            return Answering(True, "\n".join([said, *told]), run=found[0].run_id or "")
        return Answering(False, "\n".join(told) or sentences.could_not_be_decided())

    def _over(self, typed: Typed) -> bool:
        rows = [self._row(each) for each in typed.deliveries]
        is_settled = all(each and each.status is not DeliveryStatus.NEW for each in rows)
        return self._ending.is_set() or is_settled

    def _row(self, delivery: Delivery) -> Delivery | None:
        with self._host.store.read() as tx:
            return inbox.find(tx, delivery.key)


def _call_of(target: str) -> str:
    """Return the id without the revision behind it."""
    match decode(Action.APPROVE, target):
        case Click(target=CallTarget(call=call)):
            return call
    return target
