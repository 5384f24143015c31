"""Turns the operator's commands into the deliveries that would do the same in Slack.

A command that is not possible raises CommandRefusedError before anything is stored. A prepared
command also has a function that reports its result once the loop has handled its deliveries. Looks
people up.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from bot.approvals.call_state import count_missing_approvals, describe_call_effect
from bot.approvals.call_views import build_call_view
from bot.approvals.edits import ForbiddenEdit, UnchangedEdit
from bot.approvals.person_questions import find_question, is_question_to_person
from bot.approvals.question_answers import AnswerHandler
from bot.cards.action_names import Action, DialogId
from bot.cards.block_kit import MAX_DIALOG_TEXT_CHARS
from bot.cards.button_codec import CallTarget, CardTarget, RunTarget
from bot.cards.field_inputs import FieldInput
from bot.cards.field_layout import FieldErrors
from bot.cards.slack_text import strip_mrkdwn
from bot.policy.authority import LookupPendingError
from bot.runs.surfaces import Host
from bot.terminal import operator_input, terminal_messages
from bot.terminal.request_reports import parse_call_target, parse_stored_gate
from bot.terminal.terminal_messages import CommandKind, OperatorCommand
from bot.tools.preview import PREVIEW_TIMEOUT_SECONDS
from storage import calls, outbox, runs
from storage.record import Call, Delivery, Run, Transaction
from storage.states import CallStatus, CallVerb

MAX_MESSAGE_CHARS = 12_000  # in one message to the agent
ACTION_BY_COMMAND = {
    CommandKind.DECLINE: Action.DECLINE,
    CommandKind.DONE: Action.RESOLVE_DONE,
    CommandKind.NOT_DONE: Action.RESOLVE_NOT_DONE,
    CommandKind.AGAIN: Action.RUN_AGAIN,
    CommandKind.CANCEL: Action.CANCEL_RUN,
    CommandKind.RETRY: Action.RETRY,
}


class CommandRefusedError(Exception):
    """Raised with a sentence for a command that cannot be carried out at the terminal."""


@dataclass(frozen=True, slots=True)
class PreparedCommand:
    """The deliveries to store for a command, and a function that reports their result.

    `describe_result` takes the deliveries once they are handled, and returns a text; "" if they had
    no effect.
    """

    deliveries: Sequence[Delivery]
    describe_result: Callable[[Sequence[Delivery]], str]


class CommandDeliveryBuilder:
    """Turns the operator's commands into inbox deliveries."""

    def __init__(self, host: Host, operator: str) -> None:
        """`operator`: the Slack user id of the person at the terminal."""
        self._host, self._operator = host, operator

    def prepare_command(self, command: OperatorCommand) -> PreparedCommand:
        """Return a command that changes something as deliveries; raises CommandRefusedError."""
        match command.kind:
            case CommandKind.APPROVE | CommandKind.REJECT | CommandKind.BREAK_GLASS:
                return self._build_vote(command)
            case CommandKind.APPROVE_PLAN:
                return self._build_plan_approval(command)
            case CommandKind.SEND_BACK:
                return self._build_plan_send_back(command)
            case CommandKind.EDIT:
                return self._build_edit(command)
            case CommandKind.ANSWER:
                return self._build_answer(command)
            case CommandKind.SAY:
                return self._build_chat_message(command)
            case CommandKind.CANCEL | CommandKind.RETRY:
                return self._build_request_click(command)
            case kind:  # declining a question, or recording how an UNKNOWN call ended
                target, _, run = self._find_call(command.target)
                delivery = operator_input.build_click_delivery(
                    ACTION_BY_COMMAND[kind], target, run, self._operator
                )
                return _prepare_delivery(delivery, terminal_messages.STATEMENT_SAVED)

    def _build_vote(self, command: OperatorCommand) -> PreparedCommand:
        """Return the operator's vote on one call, at the revision they saw."""
        verb = CallVerb(command.kind)
        target, call, run = self._find_call(command.target)
        if is_question_to_person(call):
            raise CommandRefusedError(terminal_messages.CALL_IS_QUESTION)
        if len(command.words) > MAX_DIALOG_TEXT_CHARS:
            raise CommandRefusedError(
                terminal_messages.TEXT_TOO_LONG.format(MAX_DIALOG_TEXT_CHARS, len(command.words))
            )
        if verb is not CallVerb.REJECT:
            with self._host.store.read() as tx:
                self._require_nothing_hidden(tx, [call])
        delivery = operator_input.build_vote_delivery(
            verb, target, command.words, run, self._operator
        )
        return PreparedCommand([delivery], partial(self._describe_votes, verb, [target]))

    def _build_plan_approval(self, command: OperatorCommand) -> PreparedCommand:
        """Return approvals of all pending calls of a plan, card by card, if it has not changed."""
        plan_target = parse_call_target(command.target)
        with self._host.store.read() as tx:
            plan = calls.find_plan(tx, plan_target.call) if plan_target else None
            if plan_target is None or plan is None:
                raise CommandRefusedError(terminal_messages.UNKNOWN_PLAN)
            if plan.revision != plan_target.revision:
                raise CommandRefusedError(terminal_messages.PLAN_CHANGED)
            waiting = [
                each
                for each in calls.list_calls_of_plan(tx, plan.id)
                if each.status is CallStatus.PENDING and not is_question_to_person(each)
            ]
            self._require_nothing_hidden(tx, waiting)
            run, deliveries = runs.get_run(tx, plan.run_id), []
            for row in outbox.list_cards_of_plan(tx, plan.id):
                on_card = outbox.parse_message_body(row)["calls"]
                if shown := [each for each in waiting if each.id in on_card]:
                    card = CardTarget(plan.id, calls.compute_card_revision(shown), row.seq or 0)
                    deliveries.append(
                        operator_input.build_click_delivery(
                            Action.APPROVE_ALL, card, run, self._operator
                        )
                    )
        if not deliveries:
            raise CommandRefusedError(terminal_messages.UNKNOWN_PLAN)
        targets = [CallTarget(each.id, each.revision) for each in waiting]
        return PreparedCommand(deliveries, partial(self._describe_votes, CallVerb.APPROVE, targets))

    def _require_nothing_hidden(self, tx: Transaction, named_calls: Sequence[Call]) -> None:
        """Raise CommandRefusedError if the terminal masks any value of these calls."""
        views = [build_call_view(self._host.tools, tx, each.id) for each in named_calls]
        covered = dict.fromkeys(name for view in views if view for name in view.masked_pieces)
        if covered:
            raise CommandRefusedError(terminal_messages.VALUES_HIDDEN.format(", ".join(covered)))

    def _build_plan_send_back(self, command: OperatorCommand) -> PreparedCommand:
        """Return the delivery that sends a call's plan back, with the operator's words."""
        target, call, run = self._find_call(command.target)
        if not 0 < len(command.words) <= MAX_DIALOG_TEXT_CHARS or is_question_to_person(call):
            raise CommandRefusedError(
                terminal_messages.SEND_BACK_NEEDS_WORDS.format(MAX_DIALOG_TEXT_CHARS)
            )
        made = operator_input.build_send_back_delivery(target, command.words, run, self._operator)
        return _prepare_delivery(made, terminal_messages.PLAN_SENT_BACK)

    def _build_edit(self, command: OperatorCommand) -> PreparedCommand:
        """Return the edit of a call's arguments, checked as in its dialog in Slack."""
        target, call, run = self._find_call(command.target)
        with self._host.store.read() as tx:
            now = calls.find_revision(tx, call.id, target.revision)
        if now is None:
            raise CommandRefusedError(terminal_messages.UNKNOWN_CALL)
        tool, gate = self._host.tools.find_tool_of_call(call), parse_stored_gate(call)
        inputs = operator_input.list_edit_inputs(tool, gate, now.arguments)
        if not inputs or is_question_to_person(call):
            raise CommandRefusedError(terminal_messages.NOTHING_TO_EDIT)
        state = _build_state(inputs, command.values)
        self._check_edit(target, state, inputs)
        delivery = operator_input.build_dialog_submission_delivery(
            DialogId.EDIT, target, state, run, self._operator
        )
        return PreparedCommand([delivery], partial(self._describe_edit, target))

    def _check_edit(
        self, target: CallTarget, state: dict[str, Any], inputs: Sequence[FieldInput]
    ) -> None:
        """Raise CommandRefusedError with what the dialog would refuse in this edit."""
        host, now = self._host, self._host.clock.now()
        try:
            read = host.edits.parse_edit(
                target.call,
                target.revision,
                state,
                self._operator,
                at=now,
                patience=PREVIEW_TIMEOUT_SECONDS,
            )
        except LookupPendingError:  # the tool is slow: the loop will wait, and report errors
            return
        match read:
            case ForbiddenEdit(sentence=sentence):
                raise CommandRefusedError(strip_mrkdwn(host.add_names(sentence)))
            case FieldErrors():
                raise CommandRefusedError(operator_input.format_field_errors(read, inputs))
            case UnchangedEdit():
                raise CommandRefusedError(terminal_messages.EDIT_CHANGES_NOTHING)

    def _build_answer(self, command: OperatorCommand) -> PreparedCommand:
        """Return the answer to a question, checked as in its form in Slack."""
        target, call, run = self._find_call(command.target)
        with self._host.store.read() as tx:
            question = find_question(tx, call.id)
        if question is None:
            raise CommandRefusedError(terminal_messages.NOT_A_QUESTION)
        inputs = operator_input.list_question_inputs(question.asked)
        values = command.values
        if command.words and len(inputs) == 1:
            values = {operator_input.get_input_name(inputs[0]): command.words}
        state = _build_state(inputs, values)
        errors = AnswerHandler(self._host.store, self._host.authority).parse_submission(
            question, state
        )
        if isinstance(errors, FieldErrors):
            raise CommandRefusedError(operator_input.format_field_errors(errors, inputs))
        delivery = operator_input.build_dialog_submission_delivery(
            DialogId.ANSWER, target, state, run, self._operator
        )
        return _prepare_delivery(delivery, terminal_messages.ANSWER_SAVED)

    def _build_chat_message(self, command: OperatorCommand) -> PreparedCommand:
        """Return a message to the agent, in the chat of a request or in a new one."""
        words, run = command.words.strip(), None
        if not words:
            raise CommandRefusedError(terminal_messages.NO_WORDS)
        if len(words) > MAX_MESSAGE_CHARS:
            raise CommandRefusedError(
                terminal_messages.TEXT_TOO_LONG.format(MAX_MESSAGE_CHARS, len(words))
            )
        if command.target:
            with self._host.store.read() as tx:
                run = runs.find_run(tx, command.target)
            if run is None or run.requester != self._operator or runs.is_run_without_model(run):
                raise CommandRefusedError(terminal_messages.UNKNOWN_CHAT)
            if not run.thread_ts:
                raise CommandRefusedError(terminal_messages.CHAT_NOT_IN_SLACK_YET)
        team, now = self._host.identity.team, self._host.clock.now()
        delivery = operator_input.build_chat_message_delivery(words, run, team, self._operator, now)
        return _prepare_delivery(delivery, terminal_messages.MESSAGE_RECEIVED)

    def _build_request_click(self, command: OperatorCommand) -> PreparedCommand:
        """Return the click that cancels a request or retries one that could not go on."""
        with self._host.store.read() as tx:
            run = runs.find_run(tx, command.target)
        if run is None:
            raise CommandRefusedError(terminal_messages.UNKNOWN_REQUEST)
        delivery = operator_input.build_click_delivery(
            ACTION_BY_COMMAND[command.kind], RunTarget(run.id), run, self._operator
        )
        if command.kind is CommandKind.CANCEL:
            return _prepare_delivery(delivery, terminal_messages.REQUEST_CANCELLED)
        return _prepare_delivery(delivery, terminal_messages.REQUEST_RETRIED)

    def _find_call(self, name: str) -> tuple[CallTarget, Call, Run]:
        """Return the call that a command names, with its run; raises CommandRefusedError."""
        target = parse_call_target(name)
        with self._host.store.read() as tx:
            call = calls.find_call(tx, target.call) if target else None
            if target is None or call is None or parse_stored_gate(call) is None:
                raise CommandRefusedError(terminal_messages.UNKNOWN_CALL)
            return target, call, runs.get_run(tx, call.run_id)

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
            return terminal_messages.vote_counted_sentence(verb, effect, needed)
        return terminal_messages.vote_decided_call_sentence(verb, effect)

    def _describe_edit(self, target: CallTarget, rows: Sequence[Delivery]) -> str:
        """Return the edited call's effect and its new id; "" if the edit was not stored."""
        with self._host.store.read() as tx:
            call = calls.find_call(tx, target.call)
            new = calls.find_revision(tx, target.call, target.revision + 1)
            effect = describe_call_effect(self._host.tools, tx, call) if call else ""
        at = {each.received_at for each in rows}
        if new is None or (new.author, new.created_at in at) != (self._operator, True):
            return ""
        return terminal_messages.EDIT_SAVED.format(effect, f"{target.call}:{new.number}")


def _prepare_delivery(made: Delivery, said: str) -> PreparedCommand:
    """Return a command whose result is `said`, or "" if the loop answers the delivery itself."""
    return PreparedCommand([made], lambda rows: "" if any(each.answer for each in rows) else said)


def _build_state(inputs: Sequence[FieldInput], typed: Mapping[str, str]) -> dict[str, Any]:
    """Return the typed texts as the state of a dialog; raises CommandRefusedError."""
    state = operator_input.build_dialog_state(inputs, typed)
    if isinstance(state, FieldErrors):
        raise CommandRefusedError(operator_input.format_field_errors(state, inputs))
    return state
