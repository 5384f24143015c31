"""What the worker needs of a chat service: reading messages, answering, showing its status.

Also the wrappers that send the same to live listeners.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from bot.cards.answers import NOTHING_BELOW, AnswerFooter
from bot.monitoring.live_events import EventKind, Live, RunEvent, WordsEvent
from bot.signals import Signals
from storage.models import Run
from storage.transaction import Transaction


class Thread(Protocol):
    """The thread of a run, as the worker reads it."""

    def take_in(self, run: Run) -> None:
        """Turn messages that wait for this run into items of its transcript."""
        ...


class Answer(Protocol):
    """The text of one model turn on its way to the thread."""

    def write(self, text: str) -> None:
        """Add text to the answer; raises moves.FencedError if the run was stopped meanwhile."""
        ...

    def restart(self) -> None:
        """Discard what was written so far."""
        ...

    def finish(
        self, tx: Transaction, text: str, *, last: bool, record: AnswerFooter = NOTHING_BELOW
    ) -> None:
        """Store the whole text for the outbox, in the transaction that stores the turn.

        `record`: the footer below it.
        """
        ...

    def abandon(self) -> None:
        """Close what was shown of the answer, because the turn failed."""
        ...


class Presence(Protocol):
    """Shows in Slack what the bot is doing; its methods never fail."""

    def working(self, run: Run) -> None:
        """Show that the run is being worked on."""
        ...

    def waiting(self, run: Run) -> None:
        """Show that the run waits for people."""
        ...

    def done(self, run: Run) -> None:
        """Show that the run is over."""
        ...


class BroadcastAnswer:
    """An answer that is also sent to live listeners."""

    def __init__(self, answer: Answer, live: Live, run: Run) -> None:
        """`answer` is called first: text that it refuses reaches no listener."""
        self._answer, self._live, self._run = answer, live, run
        self._began = False
        self._whole = ""

    def write(self, text: str) -> None:
        """Add text to the answer; raises moves.FencedError if the run was stopped meanwhile."""
        self._answer.write(text)
        self._began = True
        self._tell(EventKind.WORDS, text)

    def restart(self) -> None:
        """Discard what was written so far."""
        self._answer.restart()
        self._void()

    def finish(
        self, tx: Transaction, text: str, *, last: bool, record: AnswerFooter = NOTHING_BELOW
    ) -> None:
        """Store the whole text, in the transaction that stores the turn."""
        self._answer.finish(tx, text, last=last, record=record)
        self._whole = text

    def stored(self) -> None:
        """Send the whole text to listeners, once the transaction of `finish` is committed."""
        self._began = False
        if self._whole:
            self._tell(EventKind.WORDS_ENDED, self._whole)

    def abandon(self) -> None:
        """Close what was shown of the answer, because the turn failed."""
        self._answer.abandon()
        self._void()

    def _void(self) -> None:
        if self._began:
            self._began = False
            self._tell(EventKind.WORDS_VOID)

    def _tell(self, kind: EventKind, text: str = "") -> None:
        self._live.tell(lambda: WordsEvent(kind, self._run, text))


class BroadcastPresence:
    """A presence that is also sent to live listeners."""

    def __init__(self, presence: Presence, live: Live) -> None:
        """`presence` is called before live listeners are notified."""
        self._presence, self._live = presence, live

    def working(self, run: Run) -> None:
        """Show that the run is being worked on."""
        self._presence.working(run)
        self._live.tell(lambda: RunEvent(EventKind.WORKS, run))

    def waiting(self, run: Run) -> None:
        """Show that the run waits for people."""
        self._presence.waiting(run)
        self._live.tell(lambda: RunEvent(EventKind.WAITS, run))

    def done(self, run: Run) -> None:
        """Show that the run is over, unless it is a sub-agent's."""
        if not run.parent_call:
            broadcast_end(self._presence.done, self._live)(run)


def broadcast_end(ended: Callable[[Run], None], live: Live) -> Callable[[Run], None]:
    """Return a function that calls `ended` with a run, then notifies live listeners of its end."""

    def over(run: Run) -> None:
        ended(run)
        live.tell(lambda: RunEvent(EventKind.OVER, run))

    return over


def announce_wait(run: Run, signals: Signals, presence: Presence) -> None:
    """Show that a run waits for people, once that is stored."""
    signals.post.give()
    signals.work.give()  # a nearer deadline may have come into being
    presence.waiting(run)


class DirectoryMemory(Protocol):
    """A cache of what Slack said about people, groups and channels."""

    def heard(self, event: Mapping[str, Any]) -> bool:
        """Update the cache from a Slack event; return whether the event concerned it."""
        ...


# (person, channel, thread, text) -> whether that asks about approvals; it is answered then
Questions = Callable[[str, str, str, str], bool]


def show_no_end(_run: Run) -> None:
    """Do nothing: the end of a run is not shown."""


def publish_no_home(_person: str) -> None:
    """Do nothing: no Home tab is published."""


def answer_no_question(_person: str, _channel: str, _thread_ts: str, _text: str) -> bool:
    """Answer no question about approvals; return False for every message."""
    return False
