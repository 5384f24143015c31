"""What the worker needs of whoever carries words: to hear them, to answer, to show that it is at
work or waits; and how others hear the same.
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
    """A run's thread."""

    def take_in(self, run: Run) -> None:
        """Turn messages that wait for this run into items of its transcript."""
        ...


class Answer(Protocol):
    """The words of one turn on their way to the thread."""

    def write(self, text: str) -> None:
        """More text; raises moves.FencedError when the run was stopped meanwhile."""
        ...

    def restart(self) -> None:
        """What was written is void."""
        ...

    def finish(
        self, tx: Transaction, text: str, *, last: bool, record: AnswerFooter = NOTHING_BELOW
    ) -> None:
        """Store the whole text for the outbox, in the transaction that stores the turn.

        `record`: what is to stand below it.
        """
        ...

    def abandon(self) -> None:
        """The turn did not come to an end; what was shown is closed."""
        ...


class Presence(Protocol):
    """Tells Slack what the bot is doing; never fails."""

    def working(self, run: Run) -> None:
        """It thinks or acts."""
        ...

    def waiting(self, run: Run) -> None:
        """It waits for people."""
        ...

    def done(self, run: Run) -> None:
        """It is over."""
        ...


class BroadcastAnswer:
    """An answer that whoever listens hears as well."""

    def __init__(self, answer: Answer, live: Live, run: Run) -> None:
        """`answer` goes first: what it refuses, nobody hears."""
        self._answer, self._live, self._run = answer, live, run
        self._began = False
        self._whole = ""

    def write(self, text: str) -> None:
        """More text; raises moves.FencedError when the run was stopped meanwhile."""
        self._answer.write(text)
        self._began = True
        self._tell(EventKind.WORDS, text)

    def restart(self) -> None:
        """What was written is void."""
        self._answer.restart()
        self._void()

    def finish(
        self, tx: Transaction, text: str, *, last: bool, record: AnswerFooter = NOTHING_BELOW
    ) -> None:
        """Store the whole text, in the transaction that stores the turn."""
        self._answer.finish(tx, text, last=last, record=record)
        self._whole = text

    def stored(self) -> None:
        """The transaction of `finish` is through."""
        self._began = False
        if self._whole:
            self._tell(EventKind.WORDS_ENDED, self._whole)

    def abandon(self) -> None:
        """The turn did not come to an end."""
        self._answer.abandon()
        self._void()

    def _void(self) -> None:
        if self._began:
            self._began = False
            self._tell(EventKind.WORDS_VOID)

    def _tell(self, kind: EventKind, text: str = "") -> None:
        self._live.tell(lambda: WordsEvent(kind, self._run, text))


class BroadcastPresence:
    """A presence that whoever listens hears as well."""

    def __init__(self, presence: Presence, live: Live) -> None:
        """`presence` is shown first."""
        self._presence, self._live = presence, live

    def working(self, run: Run) -> None:
        """It thinks or acts."""
        self._presence.working(run)
        self._live.tell(lambda: RunEvent(EventKind.WORKS, run))

    def waiting(self, run: Run) -> None:
        """It waits for people."""
        self._presence.waiting(run)
        self._live.tell(lambda: RunEvent(EventKind.WAITS, run))

    def done(self, run: Run) -> None:
        """It is over, and with it the request, unless it was a sub-agent's part of one."""
        if not run.parent_call:
            broadcast_end(self._presence.done, self._live)(run)


def broadcast_end(ended: Callable[[Run], None], live: Live) -> Callable[[Run], None]:
    """Return what shows that a run is over, and has whoever listens hear it."""

    def over(run: Run) -> None:
        ended(run)
        live.tell(lambda: RunEvent(EventKind.OVER, run))

    return over


def announce_wait(run: Run, signals: Signals, presence: Presence) -> None:
    """Say that a run waits for people, once that is stored."""
    signals.post.give()
    signals.work.give()  # a nearer deadline may have come into being
    presence.waiting(run)


class DirectoryMemory(Protocol):
    """Whoever remembers what Slack said of people, groups and channels."""

    def heard(self, event: Mapping[str, Any]) -> bool:
        """Heed an event about them; return whether it was one."""
        ...


# (person, channel, thread, text) -> whether that asks about approvals; it is answered then
Questions = Callable[[str, str, str, str], bool]


def show_no_end(_run: Run) -> None:
    """Show nobody that a run is over."""


def publish_no_home(_person: str) -> None:
    """Publish no Home tab."""


def answer_no_question(_person: str, _channel: str, _thread_ts: str, _text: str) -> bool:
    """Hear no question about approvals in any message."""
    return False
