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

from bot.approvals.call_state import count_missing_approvals, describe_call_effect
from bot.approvals.call_views import build_call_view
from bot.approvals.edits import ForbiddenEdit, UnchangedEdit
from bot.approvals.person_questions import find_question, is_question
from bot.cards.action_names import Action, DialogId
from bot.cards.button_codec import CallTarget, CardTarget, Click, RunTarget, decode_click
from bot.cards.field_layout import FieldErrors
from bot.cards.question_message import parse_answer_submission
from bot.cards.review_dialog import MAX_WORDS
from bot.cards.slack_text import strip_mrkdwn
from bot.cards.views import CallView
from bot.policy.authority import LookupPendingError
from bot.policy.gates import Ask
from bot.runs.surfaces import Host
from bot.terminal import operator_input, terminal_sentences
from bot.terminal.operator_input import (
    build_dialog_state,
    format_field_errors,
    get_input_name,
    list_edit_inputs,
    list_question_inputs,
)
from bot.terminal.request_reports import find_stored_gate
from bot.terminal.terminal_messages import CommandKind, OperatorCommand
from bot.tools.arguments import build_readable_arguments, restrict_editable_fields
from storage import calls, outbox, runs
from storage.models import Call, Delivery, Run
from storage.states import CallStatus, CallVerb

LONGEST = 12_000  # characters of words for the agent
PREVIEWED = 10.0  # seconds that the preview of an edit may take: as long as any
CLICKS = {
    CommandKind.DECLINE: Action.DECLINE,
    CommandKind.DONE: Action.RESOLVE_DONE,
    CommandKind.NOT_DONE: Action.RESOLVE_NOT_DONE,
    CommandKind.AGAIN: Action.RUN_AGAIN,
    CommandKind.CANCEL: Action.CANCEL_RUN,
    CommandKind.RETRY: Action.RETRY,
}


@dataclass(frozen=True, slots=True)
class CommandRefusal:
    """The reason, as a sentence, why a command cannot be carried out at the terminal."""

    sentence: str


@dataclass(frozen=True, slots=True)
class PreparedCommand:
    """The deliveries to store for a command, and a function that reports their result.

    `describe_result` takes the deliveries once they are handled, and returns a text; "" if they had
    no effect.
    """

    deliveries: Sequence[Delivery]
    describe_result: Callable[[Sequence[Delivery]], str]


@dataclass(frozen=True, slots=True)
class _CallContext:
    """The call that a command names, with its run and its view."""

    target: CallTarget
    call: Call
    run: Run
    view: CallView


class CommandDeliveryBuilder:
    """The operator's commands as methods: each returns its deliveries, or InTheWay."""

    def __init__(self, host: Host, operator: str) -> None:
        """`operator`: the Slack user id of the person at the terminal."""
        self._host = host
        self._operator = operator

    def build_vote(self, asking: OperatorCommand) -> PreparedCommand | CommandRefusal:
        """Return the vote that approves or rejects one call at the revision the operator saw."""
        verb = CallVerb.APPROVE if asking.wish is CommandKind.APPROVE else CallVerb.REJECT
        found = self._find_call_context(asking.target)
        if isinstance(found, CommandRefusal):
            return found
        if is_question(found.call):
            return CommandRefusal(terminal_sentences.CALL_IS_QUESTION)
        if len(asking.words) > MAX_WORDS:
            return CommandRefusal(
                terminal_sentences.text_too_long_sentence(MAX_WORDS, len(asking.words))
            )
        if verb is CallVerb.APPROVE and found.view.covered_pieces:
            return CommandRefusal(
                terminal_sentences.hidden_values_sentence(found.view.covered_pieces)
            )
        made = operator_input.build_vote_delivery(
            verb, found.target, asking.words, found.run, self._operator
        )
        return PreparedCommand([made], partial(self._describe_votes, verb, [found.target]))

    def build_plan_approval(self, asking: OperatorCommand) -> PreparedCommand | CommandRefusal:
        """Return approvals of all pending calls of a plan, card by card, if it has not changed."""
        wanted = _parse_call_target(asking.target)
        with self._host.store.read() as tx:
            plan = calls.find_plan(tx, wanted.call) if wanted else None
            run = runs.find_run(tx, plan.run_id) if plan else None
            if wanted is None or plan is None or run is None:
                return CommandRefusal(terminal_sentences.UNKNOWN_PLAN)
            if plan.revision != wanted.revision:
                return CommandRefusal(terminal_sentences.PLAN_CHANGED)
            waiting = [
                each
                for each in calls.list_calls_of_plan(tx, plan.id)
                if each.status is CallStatus.PENDING and not is_question(each)
            ]
            views = [build_call_view(self._host.tools, tx, each.id) for each in waiting]
            on_cards = [
                (
                    row,
                    [
                        each
                        for each in waiting
                        if each.id in outbox.parse_message_body(row)["calls"]
                    ],
                )
                for row in outbox.list_cards_of_plan(tx, plan.id)
            ]
            cards = [(row, shown) for row, shown in on_cards if shown]
        covered = [name for view in views if view for name in view.covered_pieces]
        if covered:
            return CommandRefusal(
                terminal_sentences.hidden_values_sentence(tuple(dict.fromkeys(covered)))
            )
        if not cards:
            return CommandRefusal(terminal_sentences.UNKNOWN_PLAN)
        made = [
            operator_input.build_click_delivery(
                Action.APPROVE_ALL,
                CardTarget(plan.id, calls.compute_card_revision(shown), row.seq or 0),
                run,
                self._operator,
            )
            for row, shown in cards
        ]
        targets = [CallTarget(each.id, each.revision) for each in waiting]
        return PreparedCommand(made, partial(self._describe_votes, CallVerb.APPROVE, targets))

    def build_plan_send_back(self, asking: OperatorCommand) -> PreparedCommand | CommandRefusal:
        """Return the delivery that has the plan of a call made anew, with the operator's words."""
        found = self._find_call_context(asking.target)
        if isinstance(found, CommandRefusal):
            return found
        if not 0 < len(asking.words) <= MAX_WORDS or is_question(found.call):
            return CommandRefusal(terminal_sentences.send_back_needs_words_sentence(MAX_WORDS))
        made = operator_input.build_send_back_delivery(
            found.target, asking.words, found.run, self._operator
        )
        return PreparedCommand([made], _build_result_reporter(terminal_sentences.PLAN_SENT_BACK))

    def build_edit(self, asking: OperatorCommand) -> PreparedCommand | CommandRefusal:
        """Return the edit of a call's arguments, checked as in its dialog in Slack."""
        found = self._find_call_context(asking.target)
        if isinstance(found, CommandRefusal):
            return found
        tool, gate = self._host.tools.find_tool_of_call(found.call), find_stored_gate(found.call)
        if tool is None or not isinstance(gate, Ask) or is_question(found.call):
            return CommandRefusal(terminal_sentences.NOTHING_TO_EDIT)
        with self._host.store.read() as tx:
            now = calls.find_revision(tx, found.call.id, found.target.revision)
        if now is None:
            return CommandRefusal(terminal_sentences.UNKNOWN_CALL)
        try:
            before = build_readable_arguments(tool, now.arguments)
        except ValidationError:  # the tool has changed since
            return CommandRefusal(terminal_sentences.NOTHING_TO_EDIT)
        inputs = list_edit_inputs(restrict_editable_fields(tool, gate), before)
        state = build_dialog_state(inputs, asking.values)
        if isinstance(state, FieldErrors):
            return CommandRefusal(format_field_errors(state, inputs))
        if problem := self._find_edit_problem(found.target, state):
            return CommandRefusal(
                format_field_errors(problem, inputs)
                if isinstance(problem, FieldErrors)
                else problem
            )
        made = operator_input.build_dialog_delivery(
            DialogId.EDIT, found.target, state, found.run, self._operator
        )
        return PreparedCommand([made], partial(self._describe_edit, found.target))

    def _find_edit_problem(self, target: CallTarget, state: dict[str, Any]) -> FieldErrors | str:
        """Return what the dialog would refuse in this edit; "" for nothing that is known by now."""
        host, now = self._host, self._host.clock.now()
        try:
            read_ = host.edits.parse_edit(
                target.call, target.revision, state, self._operator, at=now, patience=PREVIEWED
            )
        except LookupPendingError:  # the tool is slow: the loop waits for it, and tells the rest
            return ""
        match read_:
            case ForbiddenEdit(sentence=sentence):
                return strip_mrkdwn(host.named(sentence))
            case FieldErrors() as errors:
                return errors
            case UnchangedEdit():
                return terminal_sentences.EDIT_CHANGES_NOTHING
            case _:
                return ""

    def build_answer(self, asking: OperatorCommand) -> PreparedCommand | CommandRefusal:
        """Return the answer to a question, checked as in its form in Slack."""
        found = self._find_call_context(asking.target)
        if isinstance(found, CommandRefusal):
            return found
        with self._host.store.read() as tx:
            question = find_question(tx, found.call.id)
        if question is None:
            return CommandRefusal(terminal_sentences.NOT_A_QUESTION)
        inputs = list_question_inputs(question.asked)
        values = dict(asking.values)
        if asking.words and len(inputs) == 1:
            values = {get_input_name(inputs[0]): asking.words}
        state = build_dialog_state(inputs, values)
        errors = (
            state
            if isinstance(state, FieldErrors)
            else parse_answer_submission(question.asked, state)
        )
        if isinstance(state, FieldErrors) or isinstance(errors, FieldErrors):
            assert isinstance(errors, FieldErrors)
            return CommandRefusal(format_field_errors(errors, inputs))
        made = operator_input.build_dialog_delivery(
            DialogId.ANSWER, found.target, state, found.run, self._operator
        )
        return PreparedCommand([made], _build_result_reporter(terminal_sentences.ANSWER_SAVED))

    def build_chat_message(self, asking: OperatorCommand) -> PreparedCommand | CommandRefusal:
        """Return a message to the agent, in the chat of a request or in a new one."""
        words, run = asking.words.strip(), None
        if not words:
            return CommandRefusal(terminal_sentences.NO_WORDS)
        if len(words) > LONGEST:
            return CommandRefusal(terminal_sentences.text_too_long_sentence(LONGEST, len(words)))
        if asking.target:
            with self._host.store.read() as tx:
                run = runs.find_run(tx, asking.target)
            if run is None or run.requester != self._operator or runs.is_run_without_model(run):
                return CommandRefusal(terminal_sentences.UNKNOWN_CHAT)
            if not run.thread_ts:
                return CommandRefusal(terminal_sentences.CHAT_NOT_IN_SLACK_YET)
        team, now = self._host.identity.team, self._host.clock.now()
        made = operator_input.build_message_delivery(words, run, team, self._operator, now)
        return PreparedCommand([made], _build_result_reporter(terminal_sentences.MESSAGE_RECEIVED))

    def build_call_click(self, asking: OperatorCommand) -> PreparedCommand | CommandRefusal:
        """Return the click that declines a question or says how an UNKNOWN call ended."""
        found = self._find_call_context(asking.target)
        if isinstance(found, CommandRefusal):
            return found
        made = operator_input.build_click_delivery(
            CLICKS[asking.wish], found.target, found.run, self._operator
        )
        return PreparedCommand([made], _build_result_reporter(terminal_sentences.STATEMENT_SAVED))

    def build_request_click(self, asking: OperatorCommand) -> PreparedCommand | CommandRefusal:
        """Return the click that cancels a request or retries one that could not go on."""
        with self._host.store.read() as tx:
            run = runs.find_run(tx, asking.target)
        if run is None:
            return CommandRefusal(terminal_sentences.UNKNOWN_REQUEST)
        made = operator_input.build_click_delivery(
            CLICKS[asking.wish], RunTarget(run.id), run, self._operator
        )
        said = (
            terminal_sentences.REQUEST_CANCELLED
            if asking.wish is CommandKind.CANCEL
            else terminal_sentences.REQUEST_RETRIED
        )
        return PreparedCommand([made], _build_result_reporter(said))

    def _find_call_context(self, wanted: str) -> _CallContext | CommandRefusal:
        target = _parse_call_target(wanted)
        with self._host.store.read() as tx:
            call = calls.find_call(tx, target.call) if target else None
            run = runs.find_run(tx, call.run_id) if call else None
            has_gate = call is not None and find_stored_gate(call) is not None
            view = build_call_view(self._host.tools, tx, call.id) if call and has_gate else None
        if target is None or call is None or run is None or view is None:
            return CommandRefusal(terminal_sentences.UNKNOWN_CALL)
        return _CallContext(target, call, run, view)

    def _describe_votes(
        self, verb: CallVerb, targets: Sequence[CallTarget], rows: Sequence[Delivery]
    ) -> str:
        """Return the result of the operator's votes in these deliveries; "" if none was cast."""
        at = {each.received_at for each in rows}
        lines = [self._describe_vote(verb, target, at) for target in targets]
        return "\n".join(line for line in lines if line)

    def _describe_vote(self, verb: CallVerb, target: CallTarget, at: set[Any]) -> str:
        with self._host.store.read() as tx:
            call = calls.find_call(tx, target.call)
            votes = calls.list_votes_on_revision(tx, target.call, target.revision)
            effect = describe_call_effect(self._host.tools, tx, call) if call else ""
            needed = count_missing_approvals(tx, call) if call else 0
        own = [vote for vote in votes if (vote.person, vote.verb) == (self._operator, verb)]
        if call is None or not any(vote.created_at in at for vote in own):
            return ""
        if calls.is_waiting_for_people(call):
            return terminal_sentences.vote_counted_sentence(verb, effect, needed)
        return terminal_sentences.vote_decided_call_sentence(verb, effect)

    def _describe_edit(self, target: CallTarget, rows: Sequence[Delivery]) -> str:
        """Return the edited call's effect and its new id; "" if the edit was not stored."""
        with self._host.store.read() as tx:
            call = calls.find_call(tx, target.call)
            new = calls.find_revision(tx, target.call, target.revision + 1)
            effect = describe_call_effect(self._host.tools, tx, call) if call else ""
        at = {each.received_at for each in rows}
        if new is None or (new.author, new.created_at in at) != (self._operator, True):
            return ""
        return terminal_sentences.edit_saved_sentence(effect, f"{target.call}:{new.number}")


def _build_result_reporter(said: str) -> Callable[[Sequence[Delivery]], str]:
    """Return a function that returns `said`, or "" if the loop answered something itself."""
    return lambda rows: "" if any(each.answer for each in rows) else said


def _parse_call_target(wanted: str) -> CallTarget | None:
    found = decode_click(Action.APPROVE, wanted)
    return (
        found.target if isinstance(found, Click) and isinstance(found.target, CallTarget) else None
    )
