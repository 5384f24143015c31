"""What the operator wants at the terminal: stored as a delivery, decided by the loop, answered.

It decides nothing: it stores what a click or a dialog in Slack would be, wakes the loop, and waits
for what the loop made of it. On threads of its own.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial

from bot.cards.action_names import Action
from bot.cards.button_codec import CallTarget, Click, decode
from bot.cards.slack_text import neutral_markdown, strip_mrkdwn
from bot.monitoring.live_events import Event, EventKind, StepEvent, WordsEvent
from bot.runs.surfaces import Host
from bot.terminal import terminal_sentences
from bot.terminal.operator_acts import InTheWay, OperatorActs, Typed
from bot.terminal.operator_view import Seen
from bot.terminal.terminal_messages import Answering, Asking, Happening, Happens, Wish
from storage import call_history, calls, inbox, outbox, runs
from storage.models import Delivery, Message, Run
from storage.states import CallStatus, DeliveryStatus, MessageKind
from storage.transaction import Transaction

# What happens in a chat: from the rows, so that nothing is missed, and words while they come.

GLANCE = 0.25  # seconds between two looks at the rows
TYPED = "typed:"  # what the keys of notices begin with that only repeat what was typed


class Following:
    """The story of one chat, told as it goes on."""

    def __init__(self, host: Host, seen: Seen, run_id: str) -> None:
        """`run_id`: any request of the chat. To be closed."""
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
        """Return what has happened since, at first how things stand; waits a moment for news."""
        first = None
        with suppress(queue.Empty):
            first = self._heard.get(timeout=GLANCE)
        news = list(self._news())
        # only now: all the words of an answer that is among the news have been heard
        return [*self._since(first), *news]

    def _hear(self, event: Event) -> None:
        """Keep what is heard; called on the thread that works on the request."""
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
        """What was heard until now, `first` before the rest."""
        found = first
        with suppress(queue.Empty):
            while True:
                if found is not None:
                    yield found
                found = self._heard.get_nowait()

    def _news(self) -> Iterator[Happening]:
        """What the rows say that was not told yet: what ended, lines, what waits, how it stands."""
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
        """The calls that stand otherwise than they were told, in order."""
        for call in calls.of_request(tx, run.id):
            votes = calls.votes(tx, call.id, call.revision)
            now = (call.status, call.revision, call.asked_at, len(votes), call.note)
            if self._calls.get(call.id) != now:
                self._calls[call.id] = now
                yield call.id

    def _unsaid(self, tx: Transaction, run: Run) -> list[Message]:
        """The messages of the thread that were not told yet, but for what was typed here."""
        found = [
            row for row in call_history.thread_messages(tx, run.id) if row.seq not in self._told
        ]
        self._told |= {row.seq for row in found}
        return [row for row in found if not row.key.startswith(TYPED)]

    def _line(self, row: Message) -> Happening:
        """One of them: the agent's words, or a line of the bot's own. Looks names up."""
        text = self._host.named(str(outbox.body(row).get("text") or ""))
        if row.kind is MessageKind.ANSWER:
            return Happening(Happens.ANSWER, row.run_id, neutral_markdown(text), id=row.key)
        return Happening(Happens.NOTICE, row.run_id, strip_mrkdwn(text), id=row.key)


def _waits(told: Happening) -> bool:
    return told.call is not None and told.call.status is CallStatus.PENDING


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
                    return Answering(False, terminal_sentences.no_such_call())
                return Answering(True, "", calls=(found,))
            case wish:
                typed = self._typed()[wish](asking)
                if isinstance(typed, InTheWay):
                    return Answering(False, typed.sentence)
                return self._done(typed)

    def follow(self, run_id: str) -> Following:
        """Return what tells what happens in the chat of a request, until it is closed."""
        return Following(self._host, self._seen, run_id)

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
    """Return the id without the revision behind it."""
    match decode(Action.APPROVE, target):
        case Click(target=CallTarget(call=call)):
            return call
    return target
