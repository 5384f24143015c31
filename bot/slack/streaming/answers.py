"""The steps of requests under way, as tasks above the answer that is streamed for them.

Only what no card shows. What is over within seconds is shown with the answer, where that is long
enough to be streamed; what takes longer begins the stream, and the answer follows in it.
"""

from __future__ import annotations

import threading
from collections import OrderedDict

from bot.clock import Clock
from bot.live import Event, EventKind, RunEvent, StepEnd, StepEvent
from bot.policy.directory import Directory
from bot.signals import Signals
from bot.slack.client import SlackClient
from bot.slack.streaming.answer import SlackAnswer
from bot.slack.streaming.refusals import Streaming
from bot.slack.streaming.tasks import ENDS, Tasks, TaskStatus
from storage.models import Run
from storage.states import MODELLED, RunSource
from storage.store import Store

REMEMBERED = 500  # requests whose steps are kept
BEATS = 2  # that a step goes on for before it begins a stream: three seconds


class SlackAnswers:
    """Makes the answers of turns, and keeps those that a step has begun before there were words.

    One per process; any thread.
    """

    def __init__(
        self,
        store: Store,
        directory: Directory,
        signals: Signals,
        client: SlackClient,
        clock: Clock,
    ) -> None:
        """`client` must have no retry handlers."""
        self._parts = store, directory, signals, client
        self._stopping = signals.stopping
        self._streaming = Streaming(clock)
        self._lock = threading.Lock()
        self._tasks: OrderedDict[str, Tasks] = OrderedDict()  # by request
        self._begun: dict[str, SlackAnswer] = {}
        signals.live.listen(self.hear)

    def of(self, run: Run) -> SlackAnswer:
        """Open the way for one turn's words: in the stream that the run's steps began, if any."""
        with self._lock:
            begun, tasks = self._begun.pop(run.id, None), self._tasks.get(_request(run))
        if begun is not None and begun.serves(run):
            return begun
        return SlackAnswer(*self._parts, self._streaming, run, tasks or Tasks(), self._keep)

    def hear(self, event: Event) -> None:
        """Note a step of a request that the model answers; where one waits, its stream ends.

        What its sub-agents do are its steps, too; they begin no stream, for it waits for them.
        """
        if isinstance(event, RunEvent) and event.kind is not EventKind.WORKS:
            self._close(event.run, over=event.kind is EventKind.OVER)
        if not isinstance(event, StepEvent) or event.step.asked:
            return
        if event.run.source not in MODELLED:
            return
        tasks = self._tasks_of(event.run)
        if event.end is StepEnd.ENTRUSTED:
            tasks.drop(event.step)
        else:
            tasks.put(event.step, ENDS[event.end] if event.end else TaskStatus.IN_PROGRESS)
        with self._lock:
            begun = self._begun.get(event.run.id)
        if begun is not None and not begun.serves(event.run):
            begun = None
        is_long = event.kind is EventKind.STEP_GOES_ON and tasks.beats(event.step) >= BEATS
        is_answered = event.run.source is RunSource.MESSAGE and not self._stopping.is_set()
        if begun is None and is_long and is_answered:
            begun = self.of(event.run)
            self._keep(begun)
        if begun is not None:
            begun.show_steps()

    def _tasks_of(self, run: Run) -> Tasks:
        with self._lock:
            found = self._tasks.setdefault(_request(run), Tasks())
            self._tasks.move_to_end(_request(run))
            if len(self._tasks) > REMEMBERED:
                self._tasks.popitem(last=False)
            return found

    def _keep(self, answer: SlackAnswer) -> None:
        """An answer has no words yet, and its stream goes on."""
        with self._lock:
            self._begun[answer.run.id] = answer

    def _close(self, run: Run, *, over: bool) -> None:
        with self._lock:
            if over:
                self._tasks.pop(run.id, None)
            begun = self._begun.pop(run.id, None)
        if begun is not None:
            begun.abandon()


def _request(run: Run) -> str:
    """Return the id of the run that people began, of which this one may be a sub-agent's."""
    return run.root_id or run.id
