"""Carries out the operator's commands: stores deliveries, and returns what the loop made of them.

Nothing is decided here: what a click or a dialog in Slack would be is stored, the loop is woken,
and its result awaited. On threads of its own.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress

from bot.approvals.call_state import describe_call_effect, list_approving_votes
from bot.approvals.call_views import build_call_view
from bot.approvals.person_questions import (
    AskedQuestion,
    find_question,
    get_asking_server_name,
    is_question_to_person,
    may_answer_question,
)
from bot.cards.answers import RECORD_CONTRADICTION_NOTICE
from bot.cards.button_codec import CallTarget, encode_button_value
from bot.cards.call_pieces import irreversibility_warning
from bot.cards.slack_text import (
    format_in_utc,
    replace_notifying_mentions,
    show_hidden_characters,
    strip_mrkdwn,
    user_mention,
)
from bot.cards.views import CallView
from bot.monitoring.live_events import Event, EventKind, StepEvent, WordsEvent
from bot.policy.authority import LookupFailedError, Permission
from bot.policy.gates import Approvers, Ask
from bot.runs.surfaces import Host
from bot.terminal.operator_acts import CommandDeliveryBuilder, CommandRefusedError, PreparedCommand
from bot.terminal.operator_input import (
    build_terminal_fields,
    list_edit_inputs,
    list_question_inputs,
)
from bot.terminal.request_reports import (
    find_deciders,
    find_waiting_plan_id,
    list_waiting_and_unknown_calls,
    parse_stored_gate,
    strip_revision_from_id,
)
from bot.terminal.terminal_messages import (
    COMMAND_FAILED,
    RESULT_DELAYED,
    UNKNOWN_CALL,
    AllowedAction,
    ChatEvent,
    ChatEventKind,
    CommandKind,
    CommandResult,
    OperatorCommand,
    TerminalCall,
    TerminalField,
)
from storage import call_history, calls, inbox, outbox, runs
from storage.masking import mask_secrets
from storage.record import Call, Delivery, Message, Run, Transaction, Vote
from storage.states import CallStatus, CallVerb, DeliveryStatus, MessageKind

SIGN_IN_SLACK_TEXT = "to approve it, with a passkey"
MAX_JUDGED_CALLS = 50  # of each kind, since it takes time to find what the operator may do
C = CallStatus


class OperatorCallFinder:
    """Finds calls, in the form in which the operator at the terminal is shown them."""

    def __init__(self, host: Host, operator: str) -> None:
        """`operator`: the Slack user id of the person at the terminal."""
        self._host = host
        self._operator = operator

    def list_actionable_calls(self) -> tuple[TerminalCall, ...]:
        """Return the pending and UNKNOWN calls that the operator may decide, answer or resolve."""
        host, now = self._host, self._host.clock.now()
        with host.store.read() as tx:
            team = host.identity.team
            found = list_waiting_and_unknown_calls(tx, team, now, MAX_JUDGED_CALLS)
        looked = [self.find_call(each.id) for each in found]
        alone = {AllowedAction.BREAK_GLASS}  # by itself no reason to list a call
        return tuple(each for each in looked if each and {*each.may} - alone)

    def find_call(self, call_id: str) -> TerminalCall | None:
        """Return a call with what the operator may do to it; None for an unknown id."""
        host, now = self._host, self._host.clock.now()
        with host.store.read() as tx:
            call = calls.find_call(tx, call_id)
            if call is None:
                return None
            run = runs.get_run(tx, call.run_id)
            # a call refused before policy was asked has nothing else to show
            view = build_call_view(host.tools, tx, call_id) if parse_stored_gate(call) else None
            question = find_question(tx, call_id) if is_question_to_person(call) else None
            votes = calls.list_votes_on_revision(tx, call.id, call.revision)
            who, plan = find_deciders(tx, call, now), find_waiting_plan_id(tx, call)
            effect = show_hidden_characters(
                " ".join(describe_call_effect(host.tools, tx, call).split())
            )
            fields = self._list_form_fields(tx, call, question)
            declined = call_history.was_question_declined(tx, call)
        target_value = encode_button_value(CallTarget(call.id, call.revision))
        asker = self.format_person(run.requester)
        if view is None:
            note = show_hidden_characters(mask_secrets(call.note))
            return TerminalCall(target_value, "", run.id, call.status, effect, asker, (), note=note)
        return TerminalCall(
            id=target_value,
            plan=plan,
            run=run.id,
            status=call.status,
            effect=effect,
            requester=asker,
            values=tuple(
                _list_question_values(question, fields) if question else _list_argument_values(view)
            ),
            is_final=view.does == "destructive",
            final=irreversibility_warning(view.does, view.effect_source),
            chain=view.delegation_lines,
            preview=view.preview,
            reason=show_hidden_characters(mask_secrets(view.agent_reason)),
            deciders=self._format_deciders(who, run),
            deadline=_format_deadline(call),
            approved_by=", ".join(
                self.format_person(vote.person) for vote in list_approving_votes(votes)
            ),
            note=show_hidden_characters(view.outcome or view.result or view.note),
            question=is_question_to_person(call),
            declined=declined,
            covered=(*view.masked_pieces, *([SIGN_IN_SLACK_TEXT] if view.needs_signature else [])),
            may=tuple(self._list_allowed_actions(call, run, view, question, votes)),
            fields=fields,
        )

    def format_person(self, person: str) -> str:
        """Return the name of the person with this Slack user id."""
        return strip_mrkdwn(self._host.add_names(user_mention(person)))

    def _list_form_fields(
        self, tx: Transaction, call: Call, question: AskedQuestion | None
    ) -> tuple[TerminalField, ...]:
        found = calls.find_call_with_revision(tx, call.id)
        if call.status is not C.PENDING or found is None:
            return ()
        if question is not None:
            return build_terminal_fields(list_question_inputs(question.asked))
        tool, gate = self._host.tools.find_tool_of_call(call), parse_stored_gate(call)
        return build_terminal_fields(list_edit_inputs(tool, gate, found.revision.arguments))

    def _list_allowed_actions(
        self,
        call: Call,
        run: Run,
        view: CallView,
        question: AskedQuestion | None,
        votes: list[Vote],
    ) -> Iterator[AllowedAction]:
        if question is not None:
            if call.status is C.PENDING and self._may_answer(question):
                yield AllowedAction.ANSWER
            return
        if call.status is C.UNKNOWN and self._may_resolve(call, run):
            yield AllowedAction.RESOLVE
        if call.status is not C.PENDING:
            return
        voted = any(self._operator in (vote.person, vote.for_person) for vote in votes)
        here = not view.masked_pieces  # if False, values are hidden that only Slack shows in full
        may_approve = here and not voted and not view.needs_signature
        if may_approve and self._is_permitted(CallVerb.APPROVE, call, run):
            yield AllowedAction.APPROVE
        gate = parse_stored_gate(call)
        signs = isinstance(gate, Ask) and gate.wants_signature
        if here and not signs and self._is_permitted(CallVerb.BREAK_GLASS, call, run):
            yield AllowedAction.BREAK_GLASS
        if view.editable and self._is_permitted(CallVerb.EDIT, call, run):
            yield AllowedAction.EDIT
        if self._is_permitted(CallVerb.REJECT, call, run):
            yield AllowedAction.REJECT

    def _may_answer(self, question: AskedQuestion) -> bool:
        try:
            return may_answer_question(self._host.authority, question, self._operator)
        except LookupFailedError:
            return False

    def _may_resolve(self, call: Call, run: Run) -> bool:
        if isinstance(parse_stored_gate(call), Ask):
            return self._is_permitted(CallVerb.RESOLVE, call, run)
        return run.requester == self._operator

    def _is_permitted(self, verb: CallVerb, call: Call, run: Run) -> bool:
        now = self._host.clock.now()
        found = self._host.permissions.judge_action(verb, call, run, self._operator, at=now)
        return isinstance(found, Permission)

    def _format_deciders(self, who: Approvers | None, run: Run) -> str:
        """Return who may decide as text: groups, people by name, channel members, the requester."""
        if who is None:
            return ""
        named = [*(f"@{each}" for each in who.groups), *map(self.format_person, who.users)]
        named += ["the members of the channel where it was asked"] if who.channel else []
        named += [self.format_person(run.requester)] if who.requester else []
        return ", ".join(named)


def _list_argument_values(view: CallView) -> Iterator[tuple[str, str, str]]:
    for each in view.values:
        if each.is_or_was_set:
            yield show_hidden_characters(each.label), each.text, each.previous_text or ""


def _list_question_values(
    question: AskedQuestion, fields: Sequence[TerminalField]
) -> Iterator[tuple[str, str, str]]:
    if server := get_asking_server_name(question.run):
        yield "Asked by", show_hidden_characters(f"the server {server}"), ""
    yield "Question", show_hidden_characters(mask_secrets(question.asked.question)), ""
    if len(fields) > 1:
        yield "Asks for", ", ".join(each.label for each in fields), ""
    elif fields and fields[0].options:
        yield "One of", ", ".join(fields[0].options), ""


# What happens in a chat: from the rows, so that nothing is missed, and words as they stream.

POLL_INTERVAL_SECONDS = 0.25  # between two reads of the rows
TYPED_KEY_PREFIX = "typed:"  # key prefix of notices that only repeat what the operator typed


class ChatFollower:
    """A reader of one chat, which returns its events as they happen."""

    def __init__(self, host: Host, seen: OperatorCallFinder, run_id: str) -> None:
        """`run_id`: any request of the chat. `close` is to be called at the end."""
        self._host = host
        self._finder = seen
        self._run_id = run_id
        self._live_events: queue.SimpleQueue[ChatEvent | None] = queue.SimpleQueue()
        self._reported_seqs: set[int | None] = set()  # of messages
        self._calls: dict[str, tuple[object, ...]] = {}
        self._state = ""
        self._place = ("", "")  # channel and thread, once known
        self.close = host.signals.live.listen(self._handle_live_event)  # ends the subscription

    def read_new_events(self) -> list[ChatEvent]:
        """Return the events since this was last called, at first the present state; may wait."""
        events: list[ChatEvent | None] = []
        with suppress(queue.Empty):
            events.append(self._live_events.get(timeout=POLL_INTERVAL_SECONDS))
        news = list(self._list_stored_events())
        # only now, so that the words of an answer in `news` come before it
        with suppress(queue.Empty):
            while True:
                events.append(self._live_events.get_nowait())
        return [*filter(None, events), *news]

    def _handle_live_event(self, event: Event) -> None:
        """Queue a live event of this chat; called on the thread that works on the request."""
        run = event.run
        if run.id != self._run_id and (run.channel, run.thread_ts) != self._place:
            return
        found: ChatEvent | None = None  # wakes read_new_events, which then reads the rows
        match event:
            case WordsEvent(EventKind.WORDS, text=text):
                found = ChatEvent(ChatEventKind.WORDS, run.id, text)
            case WordsEvent(EventKind.WORDS_VOID):
                found = ChatEvent(ChatEventKind.VOID, run.id)
            case StepEvent(EventKind.STEP_TOLD, step=step):
                found = ChatEvent(ChatEventKind.STEP, run.id, step.so_far)
            case StepEvent(EventKind.STEP_BEGAN, step=step):
                found = ChatEvent(ChatEventKind.STEP, run.id, step.doing or step.title)
        self._live_events.put(found)

    def _list_stored_events(self) -> Iterator[ChatEvent]:
        """Yield what is new in the rows: ended calls, messages, pending calls, the run's status."""
        with self._host.store.read() as tx:
            run = self._find_newest_run(tx)
            if run is None:
                return
            self._run_id, self._place = run.id, (run.channel, run.thread_ts)
            unsaid = self._list_new_messages(tx, run)
            changed = list(self._list_changed_calls(tx, run))
        terminal_calls = map(self._finder.find_call, changed)
        call_events = [
            ChatEvent(ChatEventKind.CALL, run.id, call=each) for each in terminal_calls if each
        ]
        # in between comes the answer, which reports ended calls and announces pending ones
        yield from (each for each in call_events if not _is_pending_call_event(each))
        yield from (line for line in map(self._build_message_event, unsaid) if line.text.strip())
        yield from filter(_is_pending_call_event, call_events)
        state = f"{run.id}:{run.status}:{run.fence}"  # differs after each claim by a worker
        if state != self._state:
            self._state = state
            yield ChatEvent(ChatEventKind.STATE, run.id, run.status, id=state)

    def _find_newest_run(self, tx: Transaction) -> Run | None:
        run = runs.find_run(tx, self._run_id)
        if run is None or not run.thread_ts:
            return run
        return runs.find_newest_run_in_thread(tx, run.team, run.channel, run.thread_ts)

    def _list_changed_calls(self, tx: Transaction, run: Run) -> Iterator[str]:
        """Yield the ids of the calls that have changed since the last look, in order."""
        for call in calls.list_calls_of_request(tx, run.id):
            votes = calls.list_votes_on_revision(tx, call.id, call.revision)
            now = (call.status, call.revision, call.asked_at, len(votes), call.note)
            if self._calls.get(call.id) != now:
                self._calls[call.id] = now
                yield call.id

    def _list_new_messages(self, tx: Transaction, run: Run) -> list[Message]:
        """Return the thread's new messages, except those that repeat what the operator typed."""
        found = [
            row
            for row in call_history.list_request_answers_and_notices(tx, run.id)
            if row.seq not in self._reported_seqs
        ]
        self._reported_seqs |= {row.seq for row in found}
        return [row for row in found if not row.key.startswith(TYPED_KEY_PREFIX)]

    def _build_message_event(self, row: Message) -> ChatEvent:
        """Return a message as an event: an answer of the agent's, or a notice. Looks names up.

        An answer is followed by the outcomes of its calls, and by a notice if it contradicts the
        record.
        """
        body = outbox.parse_message_body(row)
        text = self._host.add_names(str(body.get("text") or ""))
        if row.kind is MessageKind.ANSWER:
            below = [strip_mrkdwn(self._host.add_names(each)) for each in body.get("outcomes", ())]
            below += (
                [f"{RECORD_CONTRADICTION_NOTICE} {body['record']}"] if body.get("record") else []
            )
            said = "\n\n".join(filter(None, [replace_notifying_mentions(text), *below]))
            return ChatEvent(ChatEventKind.ANSWER, row.run_id, said, id=row.key)
        return ChatEvent(ChatEventKind.NOTICE, row.run_id, strip_mrkdwn(text), id=row.key)


def _format_deadline(call: Call) -> str:
    """Return a call's deadline in words; for a scheduled call, also that it starts then."""
    until = format_in_utc(call.deadline) if call.deadline else ""
    return f"{until} (approved; starts then)" if calls.is_scheduled(call) else until


def _is_pending_call_event(event: ChatEvent) -> bool:
    return event.call is not None and event.call.status is CallStatus.PENDING


ANSWER_TIMEOUT_SECONDS = 30.0  # Slack may have to be asked who the operator is


class OperatorCommandExecutor:
    """The executor of one operator's commands, which returns the result of each."""

    def __init__(self, host: Host, operator: str) -> None:
        self._host = host
        self._finder = OperatorCallFinder(host, operator)
        self._acts = CommandDeliveryBuilder(host, operator)
        self._ending = threading.Event()

    def run_command(self, command: OperatorCommand) -> CommandResult:
        """Carry out a command and return its result, waiting ANSWER_TIMEOUT_SECONDS at most."""
        match command.kind:
            case CommandKind.PENDING:
                return CommandResult(True, "", calls=self._finder.list_actionable_calls())
            case CommandKind.LOOK:
                call = self._finder.find_call(strip_revision_from_id(command.target))
                if call is None:
                    return CommandResult(False, UNKNOWN_CALL)
                return CommandResult(True, "", calls=(call,))
            case _:
                try:
                    typed = self._acts.prepare_command(command)
                except CommandRefusedError as error:
                    return CommandResult(False, str(error))
                return self._store_and_await_result(typed)

    def follow_chat(self, run_id: str) -> ChatFollower:
        """Return a reader of the events in the chat of a request; the caller closes it."""
        return ChatFollower(self._host, self._finder, run_id)

    def stop(self) -> None:
        """End all waits for results, as the process ends; what is stored stays."""
        self._ending.set()
        self._host.signals.rest.notify_changed()

    def _store_and_await_result(self, typed: PreparedCommand) -> CommandResult:
        for delivery in typed.deliveries:
            self._host.keep(delivery)
        self._host.signals.rest.wait_for(
            lambda: self._ending.is_set() or bool(self._list_settled_deliveries(typed)),
            ANSWER_TIMEOUT_SECONDS,
        )
        settled = self._list_settled_deliveries(typed)
        if not settled:
            return CommandResult(False, RESULT_DELAYED)
        if any(each.status is DeliveryStatus.BROKEN for each in settled):
            return CommandResult(False, COMMAND_FAILED)
        answers = [
            strip_mrkdwn(self._host.add_names(each.answer)) for each in settled if each.answer
        ]
        if result_text := typed.describe_result(settled):
            return CommandResult(
                True, "\n".join([result_text, *answers]), run=settled[0].run_id or ""
            )
        return CommandResult(False, "\n".join(answers) or COMMAND_FAILED)

    def _list_settled_deliveries(self, typed: PreparedCommand) -> list[Delivery]:
        """Return the command's deliveries once the loop has handled all of them; before that []."""
        with self._host.store.read() as tx:
            rows = [inbox.find_delivery(tx, each.key) for each in typed.deliveries]
        settled = [each for each in rows if each and each.status is not DeliveryStatus.NEW]
        return settled if len(settled) == len(rows) else []
