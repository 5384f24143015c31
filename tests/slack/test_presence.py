"""Statuses and session states on their way to Slack: set when they change, and not otherwise."""

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
PROMPTED = "assistant.threads.setSuggestedPrompts"
BEGUN = [WORKING, ("session", "processing")]


class Stage:
    """A thread in a local Slack, and the presence that is shown in it."""

    def __init__(self, slack: Sandbox) -> None:
        self.slack = slack
        self.client = SlackClient(slack.bot_token, base_url=slack.api_url, retry_handlers=[])
        self.presence = SlackStatusSender(self.client, SUGGESTED_PROMPTS, Signals())
        self.run = self.thread()
        self._seen = 0

    def thread(self) -> Run:
        """A run in a new thread."""
        now = datetime.now(UTC)
        ts = self.slack.person("ben").say(SUPPORT, "please")
        place = {"team": "T0", "channel": SUPPORT, "thread_ts": ts, "requester": "UBEN00001"}
        return Run(**place, created_at=now, updated_at=now)

    def post(self) -> None:
        """The bot says something in the thread."""
        self.client.chat_postMessage(channel=SUPPORT, thread_ts=self.run.thread_ts, text="said")

    def sent(self) -> list[tuple[str, str]]:
        """What was set since this was last asked, in order, once all of it is through."""
        before = len(self._calls(PROMPTED))
        self.presence.show_suggested_prompts(self.slack.person("ben").dm_channel)
        self.slack.wait(lambda: len(self._calls(PROMPTED)) > before)  # they share a queue
        calls = self._calls(STATUS, SESSION)
        found, self._seen = calls[self._seen :], len(calls)
        return [
            ("status" if call.method == STATUS else "session", str(call.args.get("status", "")))
            for call in found
        ]

    def shown(self) -> list[str]:
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
def stage(slack: Sandbox) -> Iterator[Stage]:
    made = Stage(slack)
    made.sent()
    yield made
    slack.faults.clear()
    made.presence.close()
    made.client.close()


def test_what_is_shown_already_is_not_set_again(stage: Stage) -> None:
    """At work is at work, however often it is said."""
    for _ in range(3):
        stage.presence.show_working(stage.run)
        stage.slack.wait(stage.shown)
    assert stage.sent() == BEGUN


def test_a_whole_story_sets_each_change_once(stage: Stage) -> None:
    """Work, a wait for people, work in two steps, an answer: each change is set once.

    A clear comes where no post brings it.
    """
    stage.presence.show_working(stage.run)
    assert stage.sent() == BEGUN
    stage.presence.show_waiting(stage.run)
    assert stage.sent() == [("status", ""), ("session", "suspended")]
    assert stage.shown() == []
    stage.presence.show_working(stage.run)
    stage.presence.show_working(stage.run)
    assert stage.sent() == BEGUN
    stage.presence.show_done(stage.run)
    assert stage.sent() == [("session", "active")]
    stage.post()
    assert stage.shown() == []
    stage.presence.show_working(stage.run)
    assert stage.sent() == BEGUN
    assert stage.shown() == [WORKING[1]]


def test_a_wait_that_is_told_late_changes_nothing(stage: Stage) -> None:
    """Whoever withdraws a request may be quicker than who says that it waits."""
    stage.presence.show_working(stage.run)
    assert stage.sent() == BEGUN
    stage.presence.show_done(stage.run)
    stage.presence.show_waiting(stage.run)
    assert stage.sent() == [("session", "active")]
    stage.presence.show_working(stage.run)  # with Retry it goes on
    stage.presence.show_waiting(stage.run)
    assert stage.sent()[-1] == ("session", "suspended")


def test_a_post_takes_the_status_away(stage: Stage) -> None:
    """After the bot has posted in the thread the status is set anew, and not cleared."""
    stage.presence.show_working(stage.run)
    assert stage.sent() == BEGUN
    stage.post()
    stage.presence.show_working(stage.run)
    assert stage.sent() == [WORKING]
    stage.post()
    stage.presence.show_waiting(stage.run)
    assert stage.sent() == [("session", "suspended")]
    assert stage.shown() == []


def test_a_post_that_overtakes_the_status(stage: Stage) -> None:
    """The last words are posted while the status is on its way: it is cleared after all."""
    held = stage.slack.faults.hold(STATUS)
    stage.presence.show_working(stage.run)
    assert held.arrived.wait(30)
    stage.post()
    stage.presence.show_done(stage.run)
    held.release()
    assert stage.sent() == [*BEGUN, ("status", ""), ("session", "active")]
    assert stage.shown() == []


def test_only_the_latest_is_sent(stage: Stage) -> None:
    """What has been overtaken before it could be sent is left out."""
    other = stage.thread()
    held = stage.slack.faults.hold(STATUS)
    stage.presence.show_working(other)
    assert held.arrived.wait(30)
    stage.presence.show_working(stage.run)
    stage.presence.show_waiting(stage.run)
    stage.presence.show_done(stage.run)
    held.release()
    assert stage.sent() == [*BEGUN, ("status", ""), ("session", "active")]


def test_after_an_error_it_is_set_again(stage: Stage) -> None:
    """A call that failed, or whose connection broke, counts for nothing."""
    stage.slack.faults.fail(STATUS)
    stage.slack.faults.drop(SESSION)
    for _ in range(2):
        stage.presence.show_working(stage.run)
        assert stage.sent() == BEGUN
    assert stage.shown() == [WORKING[1]]


@pytest.mark.parametrize("method", [STATUS, SESSION])
def test_what_slack_did_not_take_is_set_later(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    """The last states of a request are lost to a limit, twice: they are set once there is room."""
    monkeypatch.setattr(module, "DEFAULT_RETRY_SECONDS", 0.02)
    stage.presence.show_working(stage.run)
    stage.sent()
    stage.slack.faults.rate_limit(method, times=2, retry_after=0)
    stage.presence.show_waiting(stage.run)
    sessions = stage.slack.world.sessions
    mine = [key for key in sessions if stage.run.thread_ts in key]
    stage.slack.wait(lambda: sessions[mine[0]]["status"] == "suspended" and not stage.shown())
    kind = "status" if method == STATUS else "session"
    assert [each for each, _ in stage.sent()].count(kind) == 3


def test_after_a_while_it_is_set_again(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Slack drops a status after two minutes, so an older one is set anew; a session's stays."""
    stage.presence.show_working(stage.run)
    assert stage.sent() == BEGUN
    monkeypatch.setattr(module, "MAX_STATUS_AGE_SECONDS", 0.0)
    stage.presence.show_working(stage.run)
    assert stage.sent() == [WORKING]


def test_an_absent_feature_is_asked_for_once(stage: Stage) -> None:
    """Where the workspace has no sessions, the states of sessions are not tried again."""
    stage.slack.faults.fail(SESSION, "feature_disabled")
    stage.presence.show_working(stage.run)
    assert stage.sent() == BEGUN
    stage.presence.show_waiting(stage.run)
    assert stage.sent() == [("status", "")]


def test_a_server_that_does_not_know_the_method(stage: Stage) -> None:
    """A bare 404 says the same: it is not asked again."""
    stage.slack.faults.status(SESSION, 404)
    stage.presence.show_working(stage.run)
    assert stage.sent() == BEGUN
    stage.presence.show_waiting(stage.run)
    assert stage.sent() == [("status", "")]


def test_an_absent_feature_is_tried_again_later(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One odd answer, as of a proxy, does not switch it off until the bot is started anew."""
    monkeypatch.setattr(module, "ABSENT_SECONDS", 0.0)
    stage.slack.faults.status(SESSION, 404)
    stage.presence.show_working(stage.run)
    assert stage.sent() == BEGUN
    stage.presence.show_waiting(stage.run)
    assert stage.sent() == [("status", ""), ("session", "suspended")]


def test_a_step_that_takes_long_is_named(stage: Stage) -> None:
    """It is named until the bot goes on; that it began or ended changes nothing."""
    stage.presence.show_working(stage.run)
    stage.sent()
    step = ToolStep(
        "call-1", "look_up_order", "Look up an order", "looking up order 1042", asked=False
    )
    for kind in (EventKind.STEP_BEGAN, EventKind.STEP_GOES_ON, EventKind.STEP_GOES_ON):
        stage.presence.handle_event(StepEvent(kind, stage.run, step))
    assert stage.sent() == [("status", "is looking up order 1042…")]
    stage.presence.handle_event(StepEvent(EventKind.STEP_ENDED, stage.run, step))
    assert stage.sent() == []
    stage.presence.show_working(stage.run)
    assert stage.sent() == [WORKING]


def test_few_threads_are_remembered(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """The memory is bounded: the thread that was shown longest ago is forgotten first."""
    monkeypatch.setattr(module, "MAX_REMEMBERED_THREADS", 1)
    stage.presence.show_working(stage.run)
    stage.presence.show_working(stage.thread())
    assert stage.sent() == BEGUN * 2
    stage.presence.show_working(stage.run)
    assert stage.sent() == BEGUN
