"""What Slack limits is not asked for again until the time it gave is over."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest
from slack_sdk.errors import SlackApiError

from bot.slack.client import SlackClient
from slack_sandbox.server import Sandbox
from tests.local_slack import build_local_slack
from tests.runs.fakes import StillClock

SUPPORT, GENERAL = "C0SUPPORT", "C0GENERAL"


class Stage:
    """A client by a clock that is set, and how often Slack heard from it."""

    def __init__(self, slack: Sandbox) -> None:
        self.slack, self.clock = slack, StillClock()
        self.client = SlackClient(
            slack.bot_token, clock=self.clock, base_url=slack.api_url, retry_handlers=[]
        )

    def post(self, channel: str) -> str:
        """Say something; "" where it was taken, else the seconds after which to try again."""
        try:
            self.client.chat_postMessage(channel=channel, text="said")
        except SlackApiError as error:
            return str(error.response.headers["Retry-After"])
        return ""

    def pass_by(self, seconds: float) -> None:
        """Let time pass for the client."""
        self.clock.at += timedelta(seconds=seconds)

    def heard(self) -> int:
        """How many requests came to Slack."""
        return len(self.slack.requests)


@pytest.fixture
def stage() -> Iterator[Stage]:
    with build_local_slack() as slack:
        made = Stage(slack)
        yield made
        made.client.close()


def test_a_limit_on_posts_holds_for_the_channel(stage: Stage) -> None:
    """Until the time is over Slack is not asked about that channel; another one is posted to."""
    stage.slack.faults.rate_limit("chat.postMessage", retry_after=40)
    assert stage.post(SUPPORT) == "40"
    stage.pass_by(9.5)
    assert [stage.post(SUPPORT) for _ in range(5)] == ["31"] * 5
    assert stage.heard() == 1
    assert stage.post(GENERAL) == ""
    assert stage.client.auth_test()["ok"]
    stage.pass_by(30.5)
    assert stage.post(SUPPORT) == ""


def test_a_limit_on_other_methods_holds_everywhere(stage: Stage) -> None:
    """What Slack counts by method is not asked for in any channel; posts go on."""
    stage.slack.faults.rate_limit("conversations.replies", retry_after=5)
    for channel in (SUPPORT, GENERAL):
        with pytest.raises(SlackApiError, match="ratelimited"):
            stage.client.conversations_replies(channel=channel, ts="1.0")
    assert stage.heard() == 1
    assert stage.post(SUPPORT) == ""
    stage.pass_by(5)
    with pytest.raises(SlackApiError, match="thread_not_found"):
        stage.client.conversations_replies(channel=GENERAL, ts="1.0")


def test_an_error_that_names_no_time_begins_no_pause(stage: Stage) -> None:
    """Slack says `ratelimited` without a time: the next call is sent."""
    stage.slack.faults.fail("auth.test", "ratelimited")
    with pytest.raises(SlackApiError):
        stage.client.auth_test()
    assert stage.client.auth_test()["ok"]
