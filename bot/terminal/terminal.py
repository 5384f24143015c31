"""What the operator decides at the terminal: stored as a delivery, decided by the loop, answered.

It decides nothing: it stores a submission, as a listener does with Slack's, wakes the loop, and
waits for what the loop made of it. On threads of its own.
"""

from __future__ import annotations

import threading
from functools import partial

from bot.approvals.cards.card_view import call_view
from bot.approvals.questions.rows import is_question
from bot.approvals.terms.effect import effect_of
from bot.approvals.terms.progress import still_needed
from bot.messages.actions.codec import Click, decode
from bot.messages.actions.names import Action
from bot.messages.actions.targets import CallTarget
from bot.messages.modals import MAX_WORDS
from bot.messages.text import plainly
from bot.surfaces.port import Host
from bot.terminal import sentences
from bot.terminal.submission import submission
from bot.terminal.wire import Answering, Asking
from storage import calls, inbox, runs
from storage.models import Delivery, Run, Vote
from storage.states import DeliveryStatus, Verb

PATIENCE = 30.0  # seconds that an answer may take: Slack is asked who the operator is


class Terminal:
    """Takes what one named person decides, and says what came of it."""

    def __init__(self, host: Host, operator: str) -> None:
        """`operator`: the Slack user id of whoever sits there."""
        self._store = host.store
        self._tools = host.tools
        self._signals = host.signals
        self._operator = operator
        self._keep = host.keep
        self._named = host.named
        self._ending = threading.Event()

    def answer(self, asking: Asking) -> Answering:
        """Take one decision, and return what came of it. Waits for the loop."""
        found = decode(Action.APPROVE, asking.target)
        if not isinstance(found, Click) or not isinstance(found.target, CallTarget):
            return Answering(False, sentences.no_such_call())
        problem, run = self._in_the_way(asking, found.target)
        if run is None:
            return Answering(False, problem)
        delivery = submission(asking.verb, found.target, asking.words, run, self._operator)
        self._keep(delivery)
        self._signals.rest.wait_for(partial(self._over, delivery), PATIENCE)
        if not self._settled(delivery):
            return Answering(False, sentences.still_deciding())
        return self._what_came_of_it(delivery, asking.verb, found.target)

    def stop(self) -> None:
        """Have nobody wait for an answer any more: the process ends, what is stored stays."""
        self._ending.set()
        self._signals.rest.changed()

    def _in_the_way(self, asking: Asking, target: CallTarget) -> tuple[str, Run | None]:
        """Return why this cannot be decided here, or the request that it is about."""
        with self._store.read() as tx:
            call = calls.get(tx, target.call)
            run = runs.get(tx, call.run_id) if call else None
            view = call_view(self._tools, tx, target.call) if call else None
        if call is None or view is None:
            return sentences.no_such_call(), None
        if is_question(call):
            return sentences.is_a_question(), None
        if len(asking.words) > MAX_WORDS:
            return sentences.too_many_words(MAX_WORDS, len(asking.words)), None
        if asking.verb is Verb.APPROVE and view.covered:
            return sentences.not_all_shown(view.covered), None
        return "", run

    def _over(self, delivery: Delivery) -> bool:
        return self._ending.is_set() or self._settled(delivery)

    def _settled(self, delivery: Delivery) -> bool:
        with self._store.read() as tx:
            found = inbox.find(tx, delivery.key)
        return found is not None and found.status is not DeliveryStatus.NEW

    def _what_came_of_it(self, delivery: Delivery, verb: Verb, target: CallTarget) -> Answering:
        with self._store.read() as tx:
            row, call = inbox.find(tx, delivery.key), calls.get(tx, target.call)
            votes = calls.votes(tx, target.call, target.revision)
            effect = effect_of(self._tools, tx, call) if call else ""
            needed = still_needed(tx, call) if call else 0
        if row is None or call is None or row.status is DeliveryStatus.BROKEN:
            return Answering(False, sentences.could_not_be_decided())
        if not self._voted(votes, verb, row):
            return Answering(False, plainly(self._named(row.answer)))
        if calls.waits(call):
            return Answering(True, sentences.counts_and_waits(verb, effect, needed))
        return Answering(True, sentences.decided(verb, effect))

    def _voted(self, votes: list[Vote], verb: Verb, row: Delivery) -> bool:
        """Return whether it is this delivery that cast the operator's vote."""
        given = (self._operator, verb, row.received_at)
        return given in [(vote.person, vote.verb, vote.created_at) for vote in votes]
