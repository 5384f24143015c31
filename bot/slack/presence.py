"""What the bot is doing, shown by Slack: the thread's status, the session's state.

Best effort, not waited for. What a thread shows already is not set again: Slack takes a status away
by itself when the app posts in the thread, and after two minutes; a session's state stays. What
Slack did not take for now is set later, unless the thread is to look otherwise by then.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

from slack_sdk.errors import SlackApiError

from bot.cards.notices import doing_now
from bot.monitoring.live_events import Event, EventKind, StepEvent
from bot.signals import Signals
from bot.slack.client import SlackClient, is_absent, is_final, seconds_asked
from bot.slack_codes import code_of
from storage.models import Run

log = logging.getLogger("countersign.presence")
WORKING = "is working on it…"
GOES_ON = (EventKind.STEP_GOES_ON, EventKind.STEP_TOLD)
FRESH = 90.0  # seconds for which a status still counts; Slack drops it after 120
LASTING = 1800.0  # the same of a session at work, which does not stay so for ever
PAUSE = 5.0  # seconds before Slack is tried again, where it does not say
TRIES = 5  # to show one look
REMEMBERED = 2_000  # threads
PROMPTS = [
    {
        "title": "Refund part of an order",
        "message": "Refund 15 EUR of order 1042, the mug was chipped",
    },
    {"title": "Look up an order", "message": "Look up order 1042"},
    {
        "title": "Cancel and tell the team",
        "message": "Cancel order 1043, the customer changed her mind, and tell #support",
    },
]


@dataclass(frozen=True, slots=True)
class _Look:
    """How a thread is to look."""

    status: str
    session: str
    initiator: str
    post_follows: bool = False  # which takes a status away, so that nobody else need


@dataclass(slots=True)
class _Thread:
    """What was last set in a thread; None where that is not known."""

    wanted: _Look | None = None
    latest: _Look | None = None
    tries: int = 0  # to show the latest
    over: str = ""  # the run that was done last, unless it goes on
    status: str | None = None
    status_at: float = 0.0
    post: int = 0  # the app's last one in the thread before the status was set
    session: str | None = None
    session_at: float = 0.0

    def has_session(self, state: str) -> bool:
        """Return whether its session is in that state, as far as is known."""
        lasts = state != "processing" or time.monotonic() - self.session_at < LASTING
        return self.session == state and lasts

    def shown(self, last_post: int) -> str | None:
        """The status that the thread shows now, as far as is known."""
        if self.status and last_post != self.post:
            return ""
        if self.status and time.monotonic() - self.status_at >= FRESH:
            return None
        return self.status


class SlackPresence:
    """Sends statuses on its own thread, in order; failures are logged and forgotten.

    Of what a thread was to look like one after the other only the latest is sent.
    """

    def __init__(
        self, client: SlackClient, prompts: list[dict[str, str]], signals: Signals
    ) -> None:
        """`client`: the one that posts; `prompts`: at most four {title, message} to suggest in DMs.

        `signals`: what goes before a status.
        """
        self._signals = signals
        self._client = client
        self._prompts = prompts
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="presence")
        self._absent: set[str] = set()
        self._lock = threading.Lock()
        self._threads: OrderedDict[tuple[str, str], _Thread] = OrderedDict()
        self._late: dict[tuple[str, str], _Thread] = {}  # what Slack did not take for now
        self._timer: threading.Timer | None = None
        self._wait = 0.0  # seconds that Slack is to be left alone; the presence thread's own
        self._deafen = signals.live.listen(self.hear)

    def working(self, run: Run) -> None:
        """It thinks or acts."""
        self._want(run, _Look(WORKING, "processing", run.requester))

    def waiting(self, run: Run) -> None:
        """It waits for people; where it is over by now, who says so comes too late."""
        with self._lock:
            thread = self._threads.get((run.channel, run.thread_ts))
            is_over = thread is not None and thread.over == run.id
        if not is_over:
            self._want(run, _Look("", "suspended", run.requester))

    def done(self, run: Run) -> None:
        """It is over, and its last words are about to be posted."""
        self._want(run, _Look("", "active", run.requester, post_follows=True))

    def hear(self, event: Event) -> None:
        """Name the tool that takes long; what is over within a second is not worth a change."""
        if isinstance(event, StepEvent) and event.kind in GOES_ON:
            status = doing_now(event.step.doing, event.step.title, event.step.so_far)
            self._want(event.run, _Look(status, "processing", event.run.requester))

    def suggest(self, channel: str) -> None:
        """Show the suggested prompts in a direct message."""
        if self._prompts:
            method = self._client.assistant_threads_setSuggestedPrompts
            arguments = {"channel_id": channel, "prompts": self._prompts}
            self._submit("prompts", lambda: self._call("prompts", method, **arguments))

    def close(self) -> None:
        """Stop sending."""
        self._deafen()
        with self._lock:
            if self._timer is not None:
                self._timer.cancel()
            self._late.clear()
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _want(self, run: Run, look: _Look) -> None:
        place = run.channel, run.thread_ts
        with self._lock:
            thread = self._threads.setdefault(place, _Thread())
            self._threads.move_to_end(place)
            is_queued, thread.wanted = thread.wanted is not None, look
            thread.latest, thread.tries = look, 0
            thread.over = run.id if look.session == "active" else ""
            if len(self._threads) > REMEMBERED:
                self._threads.popitem(last=False)
        if not is_queued:
            self._submit("presence", lambda: self._show(place, thread))

    def _show(self, place: tuple[str, str], thread: _Thread) -> None:
        """Set what differs from what the thread shows; on the presence thread."""
        self._signals.give_way()
        with self._lock:
            look, thread.wanted = thread.wanted, None
        if look is None:
            return
        self._wait = 0.0
        at = {"channel_id": place[0], "thread_ts": place[1]}
        post = self._client.last_post(*place)
        shown, now = thread.shown(post), time.monotonic()
        # the last words may go into a stream that is open already
        is_cleared = look.post_follows and not self._client.last_is_stream(*place)
        if shown != look.status and not (is_cleared and shown):
            done = self._call(
                "status", self._client.assistant_threads_setStatus, **at, status=look.status
            )
            # a post meanwhile came before it or after it
            is_known = done and self._client.last_post(*place) == post
            thread.status, thread.status_at = look.status if is_known else None, now
            thread.post = post
        if not thread.has_session(look.session):
            arguments = {**at, "status": look.session, "initiator_user_id": look.initiator}
            done = self._call(
                "session", self._client.api_call, "agents.sessions.setStatus", json=arguments
            )
            thread.session, thread.session_at = look.session if done else None, now
        if self._wait:
            self._put_off(place, thread, look, self._wait)

    def _put_off(
        self, place: tuple[str, str], thread: _Thread, look: _Look, seconds: float
    ) -> None:
        """Show this look later, with all others that Slack did not take by then."""
        with self._lock:
            thread.tries += 1
            if thread.latest is not look or thread.tries >= TRIES:
                return
            self._late[place] = thread
            if self._timer is None:
                self._timer = threading.Timer(seconds, self._catch_up)
                self._timer.daemon = True
                self._timer.start()

    def _catch_up(self) -> None:
        """Show what was put off, where nothing else is to be shown by now."""
        with self._lock:
            late, self._late, self._timer = self._late, {}, None
            late = {place: thread for place, thread in late.items() if thread.wanted is None}
            for thread in late.values():
                thread.wanted = thread.latest
        for place, thread in late.items():
            self._submit("presence", partial(self._show, place, thread))

    def _call(self, feature: str, method: Callable[..., Any], *args: Any, **kwargs: Any) -> bool:
        """Call Slack; whether it went well, or was left out because the feature is not there."""
        if feature in self._absent:
            return True
        try:
            method(*args, **kwargs)
            return True
        except SlackApiError as error:
            if is_absent(error):
                self._absent.add(feature)
            elif not is_final(error):
                self._wait = max(self._wait, seconds_asked(error) or PAUSE)
            log.debug("%s: %s", feature, code_of(error))
        except Exception as error:  # noqa: BLE001 - a status is a comfort
            self._wait = max(self._wait, PAUSE)
            log.debug("%s: %s", feature, error)
        return False

    def _submit(self, feature: str, job: Callable[[], object]) -> None:
        try:
            self._pool.submit(job)
        except RuntimeError:
            log.debug("%s: stopping", feature)
