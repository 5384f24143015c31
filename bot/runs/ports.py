"""What the worker needs of a chat service: reading messages, answering, showing its status.

Also the wrappers that send the same to live listeners.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from bot.cards.answers import EMPTY_FOOTER, ModelAnswerFooter
from bot.monitoring.live_events import EventKind, LiveEventBroadcaster, RunEvent, WordsEvent
from bot.signals import Signals
from storage.record import Run, Transaction


class RunThread(Protocol):
    """The thread of a run, as the worker reads it."""

    def add_messages_to_transcript(self, run: Run) -> None:
        """Turn messages that wait for this run into items of its transcript."""
        ...


class Answer(Protocol):
    """The text of one model turn on its way to the thread."""

    def write(self, text: str) -> None:
        """Add text to the answer; raises moves.StaleFenceError if the run was stopped meanwhile."""
        ...

    def discard_text(self) -> None:
        """Discard what was written so far."""
        ...

    def store_whole_text(
        self, tx: Transaction, text: str, *, last: bool, record: ModelAnswerFooter = EMPTY_FOOTER
    ) -> None:
        """Store the whole text for the outbox, in the transaction that stores the turn.

        `record`: the footer below it.
        """
        ...

    def close_failed_answer(self) -> None:
        """Close what was shown of the answer, because the turn failed."""
        ...


class Presence(Protocol):
    """Shows in Slack what the bot is doing; its methods never fail."""

    def show_working(self, run: Run) -> None:
        """Show that the run is being worked on."""
        ...

    def show_waiting(self, run: Run) -> None:
        """Show that the run waits for people."""
        ...

    def show_done(self, run: Run) -> None:
        """Show that the run is over."""
        ...


class BroadcastAnswer:
    """An answer that also goes to the listeners for live events, such as the terminal."""

    def __init__(self, answer: Answer, live: LiveEventBroadcaster, run: Run) -> None:
        """`answer` is called first: text that it refuses reaches no listener."""
        self._answer, self._live, self._run = answer, live, run
        self._began = False
        self._whole = ""

    def write(self, text: str) -> None:
        """Add text to the answer; raises moves.StaleFenceError if the run was stopped meanwhile."""
        self._answer.write(text)
        self._began = True
        self._broadcast_words(EventKind.WORDS, text)

    def discard_text(self) -> None:
        """Discard what was written so far."""
        self._answer.discard_text()
        self._broadcast_discarded()

    def store_whole_text(
        self, tx: Transaction, text: str, *, last: bool, record: ModelAnswerFooter = EMPTY_FOOTER
    ) -> None:
        """Store the whole text, in the transaction that stores the turn."""
        self._answer.store_whole_text(tx, text, last=last, record=record)
        self._whole = text

    def broadcast_whole_text(self) -> None:
        """Send the whole answer to live listeners; called once the turn is committed."""
        self._began = False
        if self._whole:
            self._broadcast_words(EventKind.WORDS_ENDED, self._whole)

    def close_failed_answer(self) -> None:
        """Close what was shown of the answer, because the turn failed."""
        self._answer.close_failed_answer()
        self._broadcast_discarded()

    def _broadcast_discarded(self) -> None:
        if self._began:
            self._began = False
            self._broadcast_words(EventKind.WORDS_VOID)

    def _broadcast_words(self, kind: EventKind, text: str = "") -> None:
        self._live.broadcast(lambda: WordsEvent(kind, self._run, text))


@dataclass(frozen=True, slots=True)
class BroadcastPresence:
    """A display of what the bot is doing that also notifies the listeners for live events."""

    presence: Presence  # called before live listeners are notified
    live: LiveEventBroadcaster

    def show_working(self, run: Run) -> None:
        """Show that the run is being worked on."""
        self.presence.show_working(run)
        self.live.broadcast(lambda: RunEvent(EventKind.WORKS, run))

    def show_waiting(self, run: Run) -> None:
        """Show that the run waits for people."""
        self.presence.show_waiting(run)
        self.live.broadcast(lambda: RunEvent(EventKind.WAITS, run))

    def show_done(self, run: Run) -> None:
        """Show that the run is over, unless it is a sub-agent's."""
        if not run.parent_call:
            build_run_end_broadcaster(self.presence.show_done, self.live)(run)


def build_run_end_broadcaster(
    ended: Callable[[Run], None], live: LiveEventBroadcaster
) -> Callable[[Run], None]:
    """Return a function that calls `ended` with a run, then notifies live listeners of its end."""

    def over(run: Run) -> None:
        ended(run)
        live.broadcast(lambda: RunEvent(EventKind.OVER, run))

    return over


def announce_run_waits(run: Run, signals: Signals, presence: Presence) -> None:
    """Show in Slack that a run waits for people; called once its status is stored."""
    signals.outbox.notify()
    signals.work.notify()  # the loop may have to wake for a nearer deadline
    presence.show_waiting(run)


def ignore_run_end(_run: Run) -> None:
    """Do nothing: the end of a run is not shown."""


def ignore_home_tab(_person: str) -> None:
    """Do nothing: no Home tab is published."""


def answer_no_question(_person: str, _channel: str, _thread_ts: str, _text: str) -> bool:
    """Answer no question about approvals; return False for every message."""
    return False
