"""Carries out the operator's commands: stores deliveries, and returns what the loop made of them.

Nothing is decided here: what a click or a dialog in Slack would be is stored, the loop is woken,
and its result awaited. On threads of its own.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial

from pydantic import ValidationError

from bot.approvals.call_state import approving, effect_of
from bot.approvals.card_views import call_view
from bot.approvals.person_questions import AskedQuestion, is_question, may_answer, read, server_of
from bot.cards.action_names import Action
from bot.cards.button_codec import CallTarget, Click, decode, encode
from bot.cards.call_pieces import finality
from bot.cards.slack_text import in_utc, mention, neutral_markdown, strip_mrkdwn, visible
from bot.cards.views import CallView
from bot.monitoring.live_events import Event, EventKind, StepEvent, WordsEvent
from bot.policy.authority import LookupFailedError, Yes
from bot.policy.gates import Approvers, Ask
from bot.runs.surfaces import Host
from bot.terminal import terminal_sentences
from bot.terminal.operator_acts import InTheWay, OperatorActs, Typed
from bot.terminal.operator_input import inputs_of_edit, inputs_of_question, shown
from bot.terminal.request_reports import deciders_of, plan_of, stored_gate
from bot.terminal.terminal_messages import (
    Answering,
    Asking,
    CallShown,
    FieldShown,
    Happening,
    Happens,
    May,
    Wish,
)
from bot.tools.arguments import as_editable, readable_arguments
from storage import call_history, calls, inbox, outbox, request_lists, runs
from storage.masking import mask_secrets
from storage.models import Call, Delivery, Message, Run, Vote
from storage.states import CallStatus, DeliveryStatus, MessageKind, Verb
from storage.transaction import Transaction

# Calls as the operator is shown them: as on their cards, with what the operator may do to them.

MOST = 50  # calls of which it is judged whether the operator may decide
C = CallStatus


class Seen:
    """The calls as the operator is shown them."""

    def __init__(self, host: Host, operator: str) -> None:
        """`operator`: the Slack user id of the person at the terminal."""
        self._host = host
        self._operator = operator

    def pending(self) -> tuple[CallShown, ...]:
        """Return the calls that the operator may decide, answer, or say the outcome of."""
        host, now = self._host, self._host.clock.now()
        with host.store.read() as tx:
            team = host.identity.team
            found = request_lists.waiting_calls(tx, team, now, MOST)
            found += request_lists.waiting_calls(tx, team, now, MOST, C.UNKNOWN)
        looked = [self.call(each.id) for each in found]
        return tuple(each for each in looked if each and each.may)

    def call(self, call_id: str) -> CallShown | None:
        """Return a call with what the operator may do to it; None for an unknown id."""
        host, now = self._host, self._host.clock.now()
        with host.store.read() as tx:
            call = calls.get(tx, call_id)
            run = runs.get(tx, call.run_id) if call else None
            if call is None or run is None:
                return None
            # what was refused before policy was asked has no more to show
            view = call_view(host.tools, tx, call_id) if stored_gate(call) else None
            question = read(tx, call_id) if is_question(call) else None
            votes = calls.votes(tx, call.id, call.revision)
            who, plan = deciders_of(tx, call, now), plan_of(tx, call)
            effect = visible(" ".join(effect_of(host.tools, tx, call).split()))
            fields = self._fields(tx, call, question)
            declined = call_history.is_declined(tx, call)
        wanted, asker = encode(CallTarget(call.id, call.revision)), self.person(run.requester)
        if view is None:
            note = visible(mask_secrets(call.note))
            return CallShown(wanted, "", run.id, call.status, effect, asker, (), note=note)
        return CallShown(
            id=wanted,
            plan=plan,
            run=run.id,
            status=call.status,
            effect=effect,
            requester=asker,
            values=tuple(_asked(question, fields) if question else _values(view)),
            is_final=view.does == "destructive",
            final=finality(view.does, view.stated),
            chain=view.chain,
            preview=view.preview,
            reason=visible(mask_secrets(view.agent_reason)),
            deciders=self._in_words(who, run),
            deadline=in_utc(call.deadline) if call.deadline else "",
            approved_by=", ".join(self.person(vote.person) for vote in approving(votes)),
            note=visible(view.outcome or view.result or view.note),
            question=is_question(call),
            declined=declined,
            covered=view.covered,
            may=tuple(self._may(call, run, view, question, votes)),
            fields=fields,
        )

    def person(self, person: str) -> str:
        """Return the name of the person with this Slack user id."""
        return strip_mrkdwn(self._host.named(mention(person)))

    def _fields(
        self, tx: Transaction, call: Call, question: AskedQuestion | None
    ) -> tuple[FieldShown, ...]:
        found = calls.shown(tx, call.id)
        tool = self._host.tools.of(call)
        if call.status is not C.PENDING or found is None:
            return ()
        if question is not None:
            return shown(inputs_of_question(question.asked))
        gate = stored_gate(call)
        if tool is None or not isinstance(gate, Ask):
            return ()
        try:
            arguments = readable_arguments(tool, found.revision.arguments)
        except ValidationError:  # the tool has changed since
            return ()
        return shown(inputs_of_edit(as_editable(tool, gate), arguments))

    def _may(
        self,
        call: Call,
        run: Run,
        view: CallView,
        question: AskedQuestion | None,
        votes: list[Vote],
    ) -> Iterator[May]:
        if question is not None:
            if call.status is C.PENDING and self._may_answer(question):
                yield May.ANSWER
            return
        if call.status is C.UNKNOWN and self._may_resolve(call, run):
            yield May.RESOLVE
        if call.status is not C.PENDING:
            return
        voted = any(self._operator in (vote.person, vote.for_person) for vote in votes)
        if not voted and not view.covered and self._verdict(Verb.APPROVE, call, run):
            yield May.APPROVE
        if view.editable and self._verdict(Verb.EDIT, call, run):
            yield May.EDIT
        if self._verdict(Verb.REJECT, call, run):
            yield May.REJECT

    def _may_answer(self, question: AskedQuestion) -> bool:
        try:
            return may_answer(self._host.authority, question, self._operator)
        except LookupFailedError:
            return False

    def _may_resolve(self, call: Call, run: Run) -> bool:
        if isinstance(stored_gate(call), Ask):
            return self._verdict(Verb.RESOLVE, call, run)
        return run.requester == self._operator

    def _verdict(self, verb: Verb, call: Call, run: Run) -> bool:
        now = self._host.clock.now()
        found = self._host.permissions.verdict(verb, call, run, self._operator, at=now)
        return isinstance(found, Yes)

    def _in_words(self, who: Approvers | None, run: Run) -> str:
        """Return who may decide as text: groups, people by name, channel members, the requester."""
        if who is None:
            return ""
        named = [*(f"@{each}" for each in who.groups), *map(self.person, who.users)]
        named += ["the members of the channel where it was asked"] if who.channel else []
        named += [self.person(run.requester)] if who.requester else []
        return ", ".join(named)


def _values(view: CallView) -> Iterator[tuple[str, str, str]]:
    for each in view.values:
        if each.says_something:
            yield visible(each.label), each.text, each.before or ""


def _asked(question: AskedQuestion, fields: Sequence[FieldShown]) -> Iterator[tuple[str, str, str]]:
    if server := server_of(question.run):
        yield "Asked by", visible(f"the server {server}"), ""
    yield "Question", visible(mask_secrets(question.asked.question)), ""
    if len(fields) > 1:
        yield "Asks for", ", ".join(each.label for each in fields), ""
    elif fields and fields[0].options:
        yield "One of", ", ".join(fields[0].options), ""


# What happens in a chat: from the rows, so that nothing is missed, and words as they stream.

GLANCE = 0.25  # seconds between two looks at the rows
TYPED = "typed:"  # what the keys of notices begin with that only repeat what was typed


class Following:
    """A reader of one chat, which returns its events as they happen."""

    def __init__(self, host: Host, seen: Seen, run_id: str) -> None:
        """`run_id`: any request of the chat. `close` is to be called at the end."""
        self._host = host
        self._seen = seen
        self._run_id = run_id
        self._heard: queue.SimpleQueue[Happening | None] = queue.SimpleQueue()
        self._told: set[int | None] = set()  # messages
        self._calls: dict[str, tuple[object, ...]] = {}
        self._state = ""
        self._place = ("", "")  # channel and thread, once there is one
        self.close = host.signals.live.listen(self._hear)  # hears nothing any more

    def take(self) -> list[Happening]:
        """Return the events since the last call, at first the present state; may wait a moment."""
        first = None
        with suppress(queue.Empty):
            first = self._heard.get(timeout=GLANCE)
        news = list(self._news())
        # only now: all the words of an answer that is among the news have been heard
        return [*self._since(first), *news]

    def _hear(self, event: Event) -> None:
        """Queue a live event of this chat; called on the thread that works on the request."""
        run = event.run
        if run.id != self._run_id and (run.channel, run.thread_ts) != self._place:
            return
        match event:
            case WordsEvent(EventKind.WORDS, text=text):
                self._heard.put(Happening(Happens.WORDS, event.run.id, text))
            case WordsEvent(EventKind.WORDS_VOID):
                self._heard.put(Happening(Happens.VOID, event.run.id))
            case StepEvent(EventKind.STEP_TOLD, step=step):
                self._heard.put(Happening(Happens.STEP, event.run.id, step.so_far))
            case StepEvent(EventKind.STEP_BEGAN, step=step):
                self._heard.put(Happening(Happens.STEP, event.run.id, step.doing or step.title))
            case _:
                self._heard.put(None)  # a reason to look

    def _since(self, first: Happening | None) -> Iterator[Happening]:
        """Yield the live events that are queued by now, `first` before the rest."""
        found = first
        with suppress(queue.Empty):
            while True:
                if found is not None:
                    yield found
                found = self._heard.get_nowait()

    def _news(self) -> Iterator[Happening]:
        """Yield what is new in the rows: ended calls, messages, pending calls, the run's status."""
        with self._host.store.read() as tx:
            run = self._newest(tx)
            if run is None:
                return
            self._run_id, self._place = run.id, (run.channel, run.thread_ts)
            unsaid = self._unsaid(tx, run)
            changed = list(self._changed(tx, run))
        found = map(self._seen.call, changed)
        told = [Happening(Happens.CALL, run.id, call=each) for each in found if each]
        # an answer stands between what it tells of and what it asks for
        yield from (each for each in told if not _waits(each))
        yield from (line for line in map(self._line, unsaid) if line.text.strip())
        yield from filter(_waits, told)
        state = f"{run.id}:{run.status}:{run.fence}"  # each time somebody has worked on it
        if state != self._state:
            self._state = state
            yield Happening(Happens.STATE, run.id, run.status, id=state)

    def _newest(self, tx: Transaction) -> Run | None:
        run = runs.get(tx, self._run_id)
        if run is None or not run.thread_ts:
            return run
        return runs.in_thread(tx, run.team, run.channel, run.thread_ts)

    def _changed(self, tx: Transaction, run: Run) -> Iterator[str]:
        """Yield the ids of the calls that have changed since the last look, in order."""
        for call in calls.of_request(tx, run.id):
            votes = calls.votes(tx, call.id, call.revision)
            now = (call.status, call.revision, call.asked_at, len(votes), call.note)
            if self._calls.get(call.id) != now:
                self._calls[call.id] = now
                yield call.id

    def _unsaid(self, tx: Transaction, run: Run) -> list[Message]:
        """Return the thread's new messages, except those that repeat what was typed here."""
        found = [
            row for row in call_history.thread_messages(tx, run.id) if row.seq not in self._told
        ]
        self._told |= {row.seq for row in found}
        return [row for row in found if not row.key.startswith(TYPED)]

    def _line(self, row: Message) -> Happening:
        """Return a message as an event: an answer of the agent's, or a notice. Looks names up."""
        text = self._host.named(str(outbox.body(row).get("text") or ""))
        if row.kind is MessageKind.ANSWER:
            return Happening(Happens.ANSWER, row.run_id, neutral_markdown(text), id=row.key)
        return Happening(Happens.NOTICE, row.run_id, strip_mrkdwn(text), id=row.key)


def _waits(told: Happening) -> bool:
    return told.call is not None and told.call.status is CallStatus.PENDING


PATIENCE = 30.0  # seconds that an answer may take: Slack is asked who the operator is


class Terminal:
    """The executor of one operator's commands, which returns the result of each."""

    def __init__(self, host: Host, operator: str) -> None:
        """`operator`: the Slack user id of the person at the terminal."""
        self._host = host
        self._seen = Seen(host, operator)
        self._acts = OperatorActs(host, operator)
        self._ending = threading.Event()

    def answer(self, asking: Asking) -> Answering:
        """Carry out a command and return its result. Waits for the loop, up to PATIENCE seconds."""
        match asking.wish:
            case Wish.PENDING:
                return Answering(True, "", calls=self._seen.pending())
            case Wish.LOOK:
                found = self._seen.call(_call_of(asking.target))
                if found is None:
                    return Answering(False, terminal_sentences.no_such_call())
                return Answering(True, "", calls=(found,))
            case wish:
                typed = self._typed()[wish](asking)
                if isinstance(typed, InTheWay):
                    return Answering(False, typed.sentence)
                return self._done(typed)

    def follow(self, run_id: str) -> Following:
        """Return a reader of the events in the chat of a request; the caller closes it."""
        return Following(self._host, self._seen, run_id)

    def _typed(self) -> Mapping[Wish, Callable[[Asking], Typed | InTheWay]]:
        """Return, for each wish that changes something, the method that makes its deliveries."""
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
        """End all waits for results, as the process ends; what is stored stays."""
        self._ending.set()
        self._host.signals.rest.changed()

    def _done(self, typed: Typed) -> Answering:
        """Store a command's deliveries, wait for the loop, and return the result."""
        for delivery in typed.deliveries:
            self._host.keep(delivery)
        self._host.signals.rest.wait_for(partial(self._over, typed), PATIENCE)
        rows = [self._row(each) for each in typed.deliveries]
        if not all(each and each.status is not DeliveryStatus.NEW for each in rows):
            return Answering(False, terminal_sentences.still_deciding())
        found = [each for each in rows if each]
        if any(each.status is DeliveryStatus.BROKEN for each in found):
            return Answering(False, terminal_sentences.could_not_be_decided())
        told = [strip_mrkdwn(self._host.named(each.answer)) for each in found if each.answer]
        if said := typed.came_of_it(found):
            return Answering(True, "\n".join([said, *told]), run=found[0].run_id or "")
        return Answering(False, "\n".join(told) or terminal_sentences.could_not_be_decided())

    def _over(self, typed: Typed) -> bool:
        rows = [self._row(each) for each in typed.deliveries]
        is_settled = all(each and each.status is not DeliveryStatus.NEW for each in rows)
        return self._ending.is_set() or is_settled

    def _row(self, delivery: Delivery) -> Delivery | None:
        with self._host.store.read() as tx:
            return inbox.find(tx, delivery.key)


def _call_of(target: str) -> str:
    """Return a call's id without its revision; any other text as it is."""
    match decode(Action.APPROVE, target):
        case Click(target=CallTarget(call=call)):
            return call
    return target
