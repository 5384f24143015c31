"""Statuses and session states sent to Slack: when they change, and only then."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from bot.monitoring.live_events import EventKind, StepEvent, ToolStep
from bot.signals import Signals
from bot.slack import presence as module
from bot.slack.client import SlackClient
from bot.slack.presence import SUGGESTED_PROMPTS, SlackStatusSender
from slack_sandbox.server import Sandbox
from storage.models import Run
from tests.local_slack import build_local_slack

SUPPORT = "C0SUPPORT"
WORKING = ("status", "is working on it…")
STATUS, SESSION = "assistant.threads.setStatus", "agents.sessions.setStatus"
PROMPTS = "assistant.threads.setSuggestedPrompts"
WORK_BEGUN = [WORKING, ("session", "processing")]


class StatusHarness:
    """A thread in a local Slack, and the sender of its status."""

    def __init__(self, slack: Sandbox) -> None:
        self.slack = slack
        self.client = SlackClient(slack.bot_token, base_url=slack.api_url, retry_handlers=[])
        self.presence = SlackStatusSender(self.client, SUGGESTED_PROMPTS, Signals())
        self.run = self.start_thread()
        self._seen = 0

    def start_thread(self) -> Run:
        """Return a run in a new thread."""
        now = datetime.now(UTC)
        ts = self.slack.person("ben").say(SUPPORT, "please")
        place = {"team": "T0", "channel": SUPPORT, "thread_ts": ts, "requester": "UBEN00001"}
        return Run(**place, created_at=now, updated_at=now)

    def post(self) -> None:
        """Post a reply of the bot in the thread."""
        self.client.chat_postMessage(channel=SUPPORT, thread_ts=self.run.thread_ts, text="said")

    def take_sent(self) -> list[tuple[str, str]]:
        """Return what was set since the last call, in order, once all of it has arrived."""
        before = len(self._calls(PROMPTS))
        self.presence.show_suggested_prompts(self.slack.person("ben").dm_channel)
        self.slack.wait(lambda: len(self._calls(PROMPTS)) > before)  # they share a queue
        calls = self._calls(STATUS, SESSION)
        found, self._seen = calls[self._seen :], len(calls)
        return [
            ("status" if call.method == STATUS else "session", str(call.args.get("status", "")))
            for call in found
        ]

    def list_shown(self) -> list[str]:
        """The statuses that Slack shows in the thread."""
        statuses = self.slack.world.statuses
        return [s.status for k, s in statuses.items() if k == (SUPPORT, self.run.thread_ts)]

    def _calls(self, *methods: str) -> list[Any]:
        return [call for call in self.slack.requests if call.method in methods]


@pytest.fixture(scope="module")
def slack() -> Iterator[Sandbox]:
    with build_local_slack() as running:
        yield running


@pytest.fixture
def harness(slack: Sandbox) -> Iterator[StatusHarness]:
    made = StatusHarness(slack)
    made.take_sent()
    yield made
    slack.faults.clear()
    made.presence.close()
    made.client.close()


def test_a_status_that_is_shown_is_not_set_again(harness: StatusHarness) -> None:
    """However often it is set."""
    for _ in range(3):
        harness.presence.show_working(harness.run)
        harness.slack.wait(harness.list_shown)
    assert harness.take_sent() == WORK_BEGUN


def test_each_change_of_a_whole_story_is_sent_once(harness: StatusHarness) -> None:
    """Work, a wait for people, more work, an answer. A status is cleared where no post does it."""
    harness.presence.show_working(harness.run)
    assert harness.take_sent() == WORK_BEGUN
    harness.presence.show_waiting(harness.run)
    assert harness.take_sent() == [("status", ""), ("session", "suspended")]
    assert harness.list_shown() == []
    harness.presence.show_working(harness.run)
    harness.presence.show_working(harness.run)
    assert harness.take_sent() == WORK_BEGUN
    harness.presence.show_done(harness.run)
    assert harness.take_sent() == [("session", "active")]
    harness.post()
    assert harness.list_shown() == []
    harness.presence.show_working(harness.run)
    assert harness.take_sent() == WORK_BEGUN
    assert harness.list_shown() == [WORKING[1]]


def test_a_wait_reported_after_the_end_changes_nothing(harness: StatusHarness) -> None:
    """A withdrawal may be quicker than the news that the request waits."""
    harness.presence.show_working(harness.run)
    assert harness.take_sent() == WORK_BEGUN
    harness.presence.show_done(harness.run)
    harness.presence.show_waiting(harness.run)
    assert harness.take_sent() == [("session", "active")]
    harness.presence.show_working(harness.run)  # as after Retry
    harness.presence.show_waiting(harness.run)
    assert harness.take_sent()[-1] == ("session", "suspended")


def test_a_post_clears_the_status(harness: StatusHarness) -> None:
    """Slack clears it at a post, so it is set again when work goes on."""
    harness.presence.show_working(harness.run)
    assert harness.take_sent() == WORK_BEGUN
    harness.post()
    harness.presence.show_working(harness.run)
    assert harness.take_sent() == [WORKING]
    harness.post()
    harness.presence.show_waiting(harness.run)
    assert harness.take_sent() == [("session", "suspended")]
    assert harness.list_shown() == []


def test_a_status_that_arrives_after_the_last_post_is_cleared(harness: StatusHarness) -> None:
    """The last words are posted while the status is on its way."""
    held = harness.slack.faults.hold(STATUS)
    harness.presence.show_working(harness.run)
    assert held.arrived.wait(30)
    harness.post()
    harness.presence.show_done(harness.run)
    held.release()
    assert harness.take_sent() == [*WORK_BEGUN, ("status", ""), ("session", "active")]
    assert harness.list_shown() == []


def test_only_the_latest_state_is_sent(harness: StatusHarness) -> None:
    """States that changed before they could be sent are left out."""
    other = harness.start_thread()
    held = harness.slack.faults.hold(STATUS)
    harness.presence.show_working(other)
    assert held.arrived.wait(30)
    harness.presence.show_working(harness.run)
    harness.presence.show_waiting(harness.run)
    harness.presence.show_done(harness.run)
    held.release()
    assert harness.take_sent() == [*WORK_BEGUN, ("status", ""), ("session", "active")]


def test_a_state_is_set_again_after_an_error(harness: StatusHarness) -> None:
    """The call failed, or its connection broke."""
    harness.slack.faults.fail(STATUS)
    harness.slack.faults.drop(SESSION)
    for _ in range(2):
        harness.presence.show_working(harness.run)
        assert harness.take_sent() == WORK_BEGUN
    assert harness.list_shown() == [WORKING[1]]


@pytest.mark.parametrize("method", [STATUS, SESSION])
def test_a_rate_limited_state_is_set_later(
    harness: StatusHarness, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    """The last states of a request are limited twice, and set once Slack accepts them."""
    monkeypatch.setattr(module, "DEFAULT_RETRY_SECONDS", 0.02)
    harness.presence.show_working(harness.run)
    harness.take_sent()
    harness.slack.faults.rate_limit(method, times=2, retry_after=0)
    harness.presence.show_waiting(harness.run)
    sessions = harness.slack.world.sessions
    mine = [key for key in sessions if harness.run.thread_ts in key]
    harness.slack.wait(
        lambda: sessions[mine[0]]["status"] == "suspended" and not harness.list_shown()
    )
    kind = "status" if method == STATUS else "session"
    assert [each for each, _ in harness.take_sent()].count(kind) == 3


def test_an_old_status_is_set_again(
    harness: StatusHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Slack drops a status after two minutes; a session's state stays."""
    harness.presence.show_working(harness.run)
    assert harness.take_sent() == WORK_BEGUN
    monkeypatch.setattr(module, "MAX_STATUS_AGE_SECONDS", 0.0)
    harness.presence.show_working(harness.run)
    assert harness.take_sent() == [WORKING]


def test_sessions_are_not_tried_again_where_they_are_disabled(harness: StatusHarness) -> None:
    """A workspace without sessions gets no more session states."""
    harness.slack.faults.fail(SESSION, "feature_disabled")
    harness.presence.show_working(harness.run)
    assert harness.take_sent() == WORK_BEGUN
    harness.presence.show_waiting(harness.run)
    assert harness.take_sent() == [("status", "")]


def test_sessions_are_not_tried_again_after_a_404(harness: StatusHarness) -> None:
    """A bare 404 counts as an absent feature."""
    harness.slack.faults.status(SESSION, 404)
    harness.presence.show_working(harness.run)
    assert harness.take_sent() == WORK_BEGUN
    harness.presence.show_waiting(harness.run)
    assert harness.take_sent() == [("status", "")]


def test_an_absent_feature_is_tried_again_later(
    harness: StatusHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So one odd answer, as of a proxy, does not switch it off for good."""
    monkeypatch.setattr(module, "ABSENT_SECONDS", 0.0)
    harness.slack.faults.status(SESSION, 404)
    harness.presence.show_working(harness.run)
    assert harness.take_sent() == WORK_BEGUN
    harness.presence.show_waiting(harness.run)
    assert harness.take_sent() == [("status", ""), ("session", "suspended")]


def test_a_long_step_is_shown_as_the_status(harness: StatusHarness) -> None:
    """Until the bot goes on. Its beginning and its end change nothing."""
    harness.presence.show_working(harness.run)
    harness.take_sent()
    step = ToolStep(
        "call-1", "look_up_order", "Look up an order", "looking up order 1042", asked=False
    )
    for kind in (EventKind.STEP_BEGAN, EventKind.STEP_GOES_ON, EventKind.STEP_GOES_ON):
        harness.presence.handle_event(StepEvent(kind, harness.run, step))
    assert harness.take_sent() == [("status", "is looking up order 1042…")]
    harness.presence.handle_event(StepEvent(EventKind.STEP_ENDED, harness.run, step))
    assert harness.take_sent() == []
    harness.presence.show_working(harness.run)
    assert harness.take_sent() == [WORKING]


def test_only_the_latest_threads_are_remembered(
    harness: StatusHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread that was set longest ago is forgotten first."""
    monkeypatch.setattr(module, "MAX_REMEMBERED_THREADS", 1)
    harness.presence.show_working(harness.run)
    harness.presence.show_working(harness.start_thread())
    assert harness.take_sent() == WORK_BEGUN * 2
    harness.presence.show_working(harness.run)
    assert harness.take_sent() == WORK_BEGUN
