"""Display of what the bot is doing, by Slack's thread status and session state.

Best effort, and nothing waits for it. A state that a thread shows already is not set again: Slack
removes a status by itself when the app posts in the thread, and after two minutes; a session's
state stays. A state that Slack refuses for now is set later, unless the thread is to show another
one by then.
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

from bot.cards.notices import tool_status_text
from bot.monitoring.live_events import Event, EventKind, StepEvent
from bot.signals import Signals
from bot.slack.client import (
    SlackClient,
    get_retry_after_seconds,
    is_feature_missing,
    is_permanent_refusal,
)
from bot.slack_codes import extract_error_code
from storage.record import Run

log = logging.getLogger("countersign.presence")
WORKING_STATUS_TEXT = "is working on it…"
PROGRESS_EVENT_KINDS = (EventKind.STEP_GOES_ON, EventKind.STEP_TOLD)
MAX_STATUS_AGE_SECONDS = 90.0  # Slack drops it after 120
MAX_SESSION_AGE_SECONDS = 1800.0  # then "processing" is set again: Slack does not keep it for ever
DEFAULT_RETRY_SECONDS = 5.0  # if Slack names no time
MAX_ATTEMPTS = 5  # to show one state
MAX_REMEMBERED_THREADS = 2_000
ABSENT_SECONDS = 3600.0  # before a feature that Slack said is missing is tried again
SUGGESTED_PROMPTS = [
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
class _PresenceState:
    """The status and session state that a thread is to show."""

    status: str
    session: str
    initiator: str
    post_follows: bool = False  # a post follows, which removes the status: no call is needed


@dataclass(slots=True)
class _ThreadPresence:
    """The status and session state last set in a thread; None if it is not known."""

    wanted: _PresenceState | None = None
    latest: _PresenceState | None = None
    tries: int = 0  # attempts to show `latest`
    finished_run_id: str = ""  # the run that ended last; "" if it goes on
    status: str | None = None
    status_at: float = 0.0
    last_post_number: int = 0  # number of the app's last post before the status was set
    session: str | None = None
    session_at: float = 0.0

    def has_session_state(self, state: str) -> bool:
        """Return whether the thread's session is in that state, as far as is known."""
        lasts = (
            state != "processing" or time.monotonic() - self.session_at < MAX_SESSION_AGE_SECONDS
        )
        return self.session == state and lasts

    def find_shown_status(self, last_post: int) -> str | None:
        """Return the status that the thread shows now; "" for none, None if not known.

        `last_post`: the number of the app's last post in the thread, as a post removes the status.
        """
        if self.status and last_post != self.last_post_number:
            return ""
        if self.status and time.monotonic() - self.status_at >= MAX_STATUS_AGE_SECONDS:
            return None
        return self.status


class SlackStatusSender:
    """Sends the statuses of threads to Slack on a thread of its own, in order; logs failures.

    If a thread's state changes several times before it is sent, only the latest is sent.
    """

    def __init__(
        self, client: SlackClient, prompts: list[dict[str, str]], signals: Signals
    ) -> None:
        """`client` is the one that posts; `signals` let more urgent work go first.

        `prompts`: at most four {title, message} to suggest in direct messages.
        """
        self._signals = signals
        self._client = client
        self._prompts = prompts
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="presence")
        self._absent_until: dict[str, float] = {}  # by feature, in monotonic seconds
        self._lock = threading.Lock()
        self._threads: OrderedDict[tuple[str, str], _ThreadPresence] = OrderedDict()
        self._postponed: dict[tuple[str, str], _ThreadPresence] = {}  # refused by Slack for now
        self._timer: threading.Timer | None = None
        self._wait = 0.0  # how many seconds to leave Slack alone; for the presence thread only
        self._stop_listening = signals.live.listen(self.handle_event)

    def show_working(self, run: Run) -> None:
        """Show that the run is at work: the model or a tool."""
        self._queue_state(run, _PresenceState(WORKING_STATUS_TEXT, "processing", run.requester))

    def show_waiting(self, run: Run) -> None:
        """Show that the run waits for people, unless it is already over."""
        with self._lock:
            thread = self._threads.get((run.channel, run.thread_ts))
            is_over = thread is not None and thread.finished_run_id == run.id
        if not is_over:
            self._queue_state(run, _PresenceState("", "suspended", run.requester))

    def show_done(self, run: Run) -> None:
        """Show that the run is over; its last message is about to be posted."""
        self._queue_state(run, _PresenceState("", "active", run.requester, post_follows=True))

    def handle_event(self, event: Event) -> None:
        """Show which tool is running when it takes longer than a second or reports progress."""
        if isinstance(event, StepEvent) and event.kind in PROGRESS_EVENT_KINDS:
            status = tool_status_text(event.step.doing, event.step.title, event.step.so_far)
            self._queue_state(event.run, _PresenceState(status, "processing", event.run.requester))

    def show_suggested_prompts(self, channel: str) -> None:
        """Show the suggested prompts in a direct message."""
        if self._prompts:
            method = self._client.assistant_threads_setSuggestedPrompts
            arguments = {"channel_id": channel, "prompts": self._prompts}
            self._submit_job("prompts", lambda: self._call_slack("prompts", method, **arguments))

    def close(self) -> None:
        """Stop sending; wait for the call in progress."""
        self._stop_listening()
        with self._lock:
            if self._timer is not None:
                self._timer.cancel()
            self._postponed.clear()
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _queue_state(self, run: Run, look: _PresenceState) -> None:
        place = run.channel, run.thread_ts
        with self._lock:
            thread = self._threads.setdefault(place, _ThreadPresence())
            self._threads.move_to_end(place)
            is_queued, thread.wanted = thread.wanted is not None, look
            thread.latest, thread.tries = look, 0
            thread.finished_run_id = run.id if look.session == "active" else ""
            if len(self._threads) > MAX_REMEMBERED_THREADS:
                self._threads.popitem(last=False)
        if not is_queued:
            self._submit_job("presence", lambda: self._send_state(place, thread))

    def _send_state(self, place: tuple[str, str], thread: _ThreadPresence) -> None:
        """Set a thread's status and session state in Slack, where they differ from those shown.

        Called on the presence thread.
        """
        self._signals.wait_until_urgent_work_done()
        with self._lock:
            look, thread.wanted = thread.wanted, None
        if look is None:
            return
        self._wait = 0.0
        at = {"channel_id": place[0], "thread_ts": place[1]}
        post = self._client.get_last_post_sequence_number(*place)
        shown_status, now = thread.find_shown_status(post), time.monotonic()
        # the last words may go into an open stream, which does not remove the status
        is_cleared = look.post_follows and not self._client.is_last_post_stream(*place)
        if shown_status != look.status and not (is_cleared and shown_status):
            set_status = self._client.assistant_threads_setStatus
            done = self._call_slack("status", set_status, **at, status=look.status)
            # a post meanwhile may have come before or after the status
            is_known = done and self._client.get_last_post_sequence_number(*place) == post
            thread.status, thread.status_at = look.status if is_known else None, now
            thread.last_post_number = post
        if not thread.has_session_state(look.session):
            body = {**at, "status": look.session, "initiator_user_id": look.initiator}
            call, method = self._client.api_call, "agents.sessions.setStatus"
            done = self._call_slack("session", call, method, json=body)
            thread.session, thread.session_at = look.session if done else None, now
        if self._wait:
            self._postpone_state(place, thread, look, self._wait)

    def _postpone_state(
        self, place: tuple[str, str], thread: _ThreadPresence, look: _PresenceState, seconds: float
    ) -> None:
        """Schedule this state to be set later, together with others that Slack has refused."""
        with self._lock:
            thread.tries += 1
            if thread.latest is not look or thread.tries >= MAX_ATTEMPTS:
                return
            self._postponed[place] = thread
            if self._timer is None:
                self._timer = threading.Timer(seconds, self._send_postponed_states)
                self._timer.daemon = True
                self._timer.start()

    def _send_postponed_states(self) -> None:
        """Set the postponed states of threads that have no newer one waiting."""
        with self._lock:
            late, self._postponed, self._timer = self._postponed, {}, None
            late = {place: thread for place, thread in late.items() if thread.wanted is None}
            for thread in late.values():
                thread.wanted = thread.latest
        for place, thread in late.items():
            self._submit_job("presence", partial(self._send_state, place, thread))

    def _call_slack(
        self, feature: str, method: Callable[..., Any], *args: Any, **kwargs: Any
    ) -> bool:
        """Call Slack; return True on success, and while the feature is known not to exist."""
        if time.monotonic() < self._absent_until.get(feature, 0.0):
            return True
        try:
            method(*args, **kwargs)
            return True
        except SlackApiError as error:
            if is_feature_missing(error):
                self._absent_until[feature] = time.monotonic() + ABSENT_SECONDS
            elif not is_permanent_refusal(error):
                self._wait = max(
                    self._wait, get_retry_after_seconds(error) or DEFAULT_RETRY_SECONDS
                )
            log.debug("%s: %s", feature, extract_error_code(error))
        except Exception as error:  # noqa: BLE001 - a status is a comfort
            self._wait = max(self._wait, DEFAULT_RETRY_SECONDS)
            log.debug("%s: %s", feature, error)
        return False

    def _submit_job(self, feature: str, job: Callable[[], object]) -> None:
        try:
            self._pool.submit(job)
        except RuntimeError:
            log.debug("%s: stopping", feature)
