"""Turns the operator's commands into the deliveries that would do the same in Slack.

What prevents a command is returned before anything is stored. Each act also knows what to report
once the loop has handled its deliveries. Looks people up.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from pydantic import ValidationError

from bot.approvals.call_state import effect_of, still_needed
from bot.approvals.card_views import call_view
from bot.approvals.edits import ForbiddenEdit, UnchangedEdit
from bot.approvals.person_questions import is_question, read
from bot.cards.action_names import Action, Dialog
from bot.cards.button_codec import CallTarget, CardTarget, Click, RunTarget, decode
from bot.cards.field_layout import FieldErrors
from bot.cards.question_message import read_answer
from bot.cards.review_dialog import MAX_WORDS
from bot.cards.slack_text import strip_mrkdwn
from bot.cards.views import CallView
from bot.policy.authority import NotYetKnownError
from bot.policy.gates import Ask
from bot.runs.surfaces import Host
from bot.terminal import operator_input, terminal_sentences
from bot.terminal.operator_input import (
    filled_in,
    in_sentences,
    inputs_of_edit,
    inputs_of_question,
    name_of,
)
from bot.terminal.request_reports import stored_gate
from bot.terminal.terminal_messages import Asking, Wish
from bot.tools.arguments import as_editable, readable_arguments
from storage import calls, outbox, runs
from storage.models import Call, Delivery, Run
from storage.states import CallStatus, Verb

LONGEST = 12_000  # characters of words for the agent
PREVIEWED = 10.0  # seconds that the preview of an edit may take: as long as any
CLICKS = {
    Wish.DECLINE: Action.DECLINE,
    Wish.DONE: Action.RESOLVE_DONE,
    Wish.NOT_DONE: Action.RESOLVE_NOT_DONE,
    Wish.AGAIN: Action.RUN_AGAIN,
    Wish.CANCEL: Action.CANCEL_RUN,
    Wish.RETRY: Action.RETRY,
}


@dataclass(frozen=True, slots=True)
class InTheWay:
    """The reason, as a sentence, why a command cannot be carried out at the terminal."""

    sentence: str


@dataclass(frozen=True, slots=True)
class Typed:
    """The deliveries to store for a command, and a function that reports their result.

    `came_of_it` takes the deliveries once they are handled, and returns a text; "" if they had no
    effect.
    """

    deliveries: Sequence[Delivery]
    came_of_it: Callable[[Sequence[Delivery]], str]


@dataclass(frozen=True, slots=True)
class _About:
    """The call that a command names, with its run and its view."""

    target: CallTarget
    call: Call
    run: Run
    view: CallView


class OperatorActs:
    """The operator's commands as methods: each returns its deliveries, or InTheWay."""

    def __init__(self, host: Host, operator: str) -> None:
        """`operator`: the Slack user id of the person at the terminal."""
        self._host = host
        self._operator = operator

    def vote(self, asking: Asking) -> Typed | InTheWay:
        """Return the vote that approves or rejects one call at the revision the operator saw."""
        verb = Verb.APPROVE if asking.wish is Wish.APPROVE else Verb.REJECT
        found = self._about(asking.target)
        if isinstance(found, InTheWay):
            return found
        if is_question(found.call):
            return InTheWay(terminal_sentences.is_a_question())
        if len(asking.words) > MAX_WORDS:
            return InTheWay(terminal_sentences.too_many_words(MAX_WORDS, len(asking.words)))
        if verb is Verb.APPROVE and found.view.covered:
            return InTheWay(terminal_sentences.not_all_shown(found.view.covered))
        made = operator_input.vote_delivery(
            verb, found.target, asking.words, found.run, self._operator
        )
        return Typed([made], partial(self._voted, verb, [found.target]))

    def approve_plan(self, asking: Asking) -> Typed | InTheWay:
        """Return approvals of all pending calls of a plan, card by card, if it has not changed."""
        wanted = _call_target(asking.target)
        with self._host.store.read() as tx:
            plan = calls.plan(tx, wanted.call) if wanted else None
            run = runs.get(tx, plan.run_id) if plan else None
            if wanted is None or plan is None or run is None:
                return InTheWay(terminal_sentences.no_such_plan())
            if plan.revision != wanted.revision:
                return InTheWay(terminal_sentences.plan_has_changed())
            waiting = [
                each
                for each in calls.of_plan(tx, plan.id)
                if each.status is CallStatus.PENDING and not is_question(each)
            ]
            views = [call_view(self._host.tools, tx, each.id) for each in waiting]
            on_cards = [
                (row, [each for each in waiting if each.id in outbox.body(row)["calls"]])
                for row in outbox.cards(tx, plan.id)
            ]
            cards = [(row, shown) for row, shown in on_cards if shown]
        covered = [name for view in views if view for name in view.covered]
        if covered:
            return InTheWay(terminal_sentences.not_all_shown(tuple(dict.fromkeys(covered))))
        if not cards:
            return InTheWay(terminal_sentences.no_such_plan())
        made = [
            operator_input.click_delivery(
                Action.APPROVE_ALL,
                CardTarget(plan.id, calls.card_revision(shown), row.seq or 0),
                run,
                self._operator,
            )
            for row, shown in cards
        ]
        targets = [CallTarget(each.id, each.revision) for each in waiting]
        return Typed(made, partial(self._voted, Verb.APPROVE, targets))

    def send_back(self, asking: Asking) -> Typed | InTheWay:
        """Return the delivery that has the plan of a call made anew, with the operator's words."""
        found = self._about(asking.target)
        if isinstance(found, InTheWay):
            return found
        if not 0 < len(asking.words) <= MAX_WORDS or is_question(found.call):
            return InTheWay(terminal_sentences.not_sent_back(MAX_WORDS))
        made = operator_input.send_back_delivery(
            found.target, asking.words, found.run, self._operator
        )
        return Typed([made], _unless_refused(terminal_sentences.sent_back()))

    def edit(self, asking: Asking) -> Typed | InTheWay:
        """Return the edit of a call's arguments, checked as in its dialog in Slack."""
        found = self._about(asking.target)
        if isinstance(found, InTheWay):
            return found
        tool, gate = self._host.tools.of(found.call), stored_gate(found.call)
        if tool is None or not isinstance(gate, Ask) or is_question(found.call):
            return InTheWay(terminal_sentences.nothing_to_edit())
        with self._host.store.read() as tx:
            now = calls.revision(tx, found.call.id, found.target.revision)
        if now is None:
            return InTheWay(terminal_sentences.no_such_call())
        try:
            before = readable_arguments(tool, now.arguments)
        except ValidationError:  # the tool has changed since
            return InTheWay(terminal_sentences.nothing_to_edit())
        inputs = inputs_of_edit(as_editable(tool, gate), before)
        state = filled_in(inputs, asking.values)
        if isinstance(state, FieldErrors):
            return InTheWay(in_sentences(state, inputs))
        if problem := self._wrong_with(found.target, state):
            return InTheWay(
                in_sentences(problem, inputs) if isinstance(problem, FieldErrors) else problem
            )
        made = operator_input.dialog_delivery(
            Dialog.EDIT, found.target, state, found.run, self._operator
        )
        return Typed([made], partial(self._edited, found.target))

    def _wrong_with(self, target: CallTarget, state: dict[str, Any]) -> FieldErrors | str:
        """Return what the dialog would refuse in this edit; "" for nothing that is known by now."""
        host, now = self._host, self._host.clock.now()
        try:
            read_ = host.edits.read(
                target.call, target.revision, state, self._operator, at=now, patience=PREVIEWED
            )
        except NotYetKnownError:  # the tool is slow: the loop waits for it, and tells the rest
            return ""
        match read_:
            case ForbiddenEdit(sentence=sentence):
                return strip_mrkdwn(host.named(sentence))
            case FieldErrors() as errors:
                return errors
            case UnchangedEdit():
                return terminal_sentences.nothing_changed()
            case _:
                return ""

    def answer(self, asking: Asking) -> Typed | InTheWay:
        """Return the answer to a question, checked as in its form in Slack."""
        found = self._about(asking.target)
        if isinstance(found, InTheWay):
            return found
        with self._host.store.read() as tx:
            question = read(tx, found.call.id)
        if question is None:
            return InTheWay(terminal_sentences.is_no_question())
        inputs = inputs_of_question(question.asked)
        values = dict(asking.values)
        if asking.words and len(inputs) == 1:
            values = {name_of(inputs[0]): asking.words}
        state = filled_in(inputs, values)
        errors = state if isinstance(state, FieldErrors) else read_answer(question.asked, state)
        if isinstance(state, FieldErrors) or isinstance(errors, FieldErrors):
            assert isinstance(errors, FieldErrors)
            return InTheWay(in_sentences(errors, inputs))
        made = operator_input.dialog_delivery(
            Dialog.ANSWER, found.target, state, found.run, self._operator
        )
        return Typed([made], _unless_refused(terminal_sentences.answered()))

    def say(self, asking: Asking) -> Typed | InTheWay:
        """Return a message to the agent, in the chat of a request or in a new one."""
        words, run = asking.words.strip(), None
        if not words or len(words) > LONGEST:
            return InTheWay(terminal_sentences.too_many_words(LONGEST, len(words)))
        if asking.target:
            with self._host.store.read() as tx:
                run = runs.get(tx, asking.target)
            if run is None or run.requester != self._operator or runs.is_form(run):
                return InTheWay(terminal_sentences.no_such_chat())
            if not run.thread_ts:
                return InTheWay(terminal_sentences.not_begun_yet())
        team, now = self._host.identity.team, self._host.clock.now()
        made = operator_input.words_delivery(words, run, team, self._operator, now)
        return Typed([made], _unless_refused(terminal_sentences.heard()))

    def click(self, asking: Asking) -> Typed | InTheWay:
        """Return the click that declines a question or says how an UNKNOWN call ended."""
        found = self._about(asking.target)
        if isinstance(found, InTheWay):
            return found
        made = operator_input.click_delivery(
            CLICKS[asking.wish], found.target, found.run, self._operator
        )
        return Typed([made], _unless_refused(terminal_sentences.noted()))

    def about_request(self, asking: Asking) -> Typed | InTheWay:
        """Return the click that cancels a request or retries one that could not go on."""
        with self._host.store.read() as tx:
            run = runs.get(tx, asking.target)
        if run is None:
            return InTheWay(terminal_sentences.no_such_request())
        made = operator_input.click_delivery(
            CLICKS[asking.wish], RunTarget(run.id), run, self._operator
        )
        said = (
            terminal_sentences.cancelled()
            if asking.wish is Wish.CANCEL
            else terminal_sentences.goes_on()
        )
        return Typed([made], _unless_refused(said))

    def _about(self, wanted: str) -> _About | InTheWay:
        target = _call_target(wanted)
        with self._host.store.read() as tx:
            call = calls.get(tx, target.call) if target else None
            run = runs.get(tx, call.run_id) if call else None
            has_gate = call is not None and stored_gate(call) is not None
            view = call_view(self._host.tools, tx, call.id) if call and has_gate else None
        if target is None or call is None or run is None or view is None:
            return InTheWay(terminal_sentences.no_such_call())
        return _About(target, call, run, view)

    def _voted(self, verb: Verb, targets: Sequence[CallTarget], rows: Sequence[Delivery]) -> str:
        """Return the result of the operator's votes in these deliveries; "" if none was cast."""
        at = {each.received_at for each in rows}
        lines = [self._vote_came_to(verb, target, at) for target in targets]
        return "\n".join(line for line in lines if line)

    def _vote_came_to(self, verb: Verb, target: CallTarget, at: set[Any]) -> str:
        with self._host.store.read() as tx:
            call = calls.get(tx, target.call)
            votes = calls.votes(tx, target.call, target.revision)
            effect = effect_of(self._host.tools, tx, call) if call else ""
            needed = still_needed(tx, call) if call else 0
        own = [vote for vote in votes if (vote.person, vote.verb) == (self._operator, verb)]
        if call is None or not any(vote.created_at in at for vote in own):
            return ""
        if calls.waits(call):
            return terminal_sentences.counts_and_waits(verb, effect, needed)
        return terminal_sentences.decided(verb, effect)

    def _edited(self, target: CallTarget, rows: Sequence[Delivery]) -> str:
        """Return the edited call's effect and its new id; "" if the edit was not stored."""
        with self._host.store.read() as tx:
            call = calls.get(tx, target.call)
            new = calls.revision(tx, target.call, target.revision + 1)
            effect = effect_of(self._host.tools, tx, call) if call else ""
        at = {each.received_at for each in rows}
        if new is None or (new.author, new.created_at in at) != (self._operator, True):
            return ""
        return terminal_sentences.edited(effect, f"{target.call}:{new.number}")


def _unless_refused(said: str) -> Callable[[Sequence[Delivery]], str]:
    """Return a function that returns `said`, or "" if the loop answered something itself."""
    return lambda rows: "" if any(each.answer for each in rows) else said


def _call_target(wanted: str) -> CallTarget | None:
    found = decode(Action.APPROVE, wanted)
    return (
        found.target if isinstance(found, Click) and isinstance(found.target, CallTarget) else None
    )
