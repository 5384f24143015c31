"""A call that Slack limits is not made again until the time that Slack gave is over."""

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


class ClientHarness:
    """A client with a clock that tests set, and the number of its requests to Slack."""

    def __init__(self, slack: Sandbox) -> None:
        self.slack, self.clock = slack, StillClock()
        self.client = SlackClient(
            slack.bot_token, clock=self.clock, base_url=slack.api_url, retry_handlers=[]
        )

    def post(self, channel: str) -> str:
        """Post; return "" if it was accepted, else the seconds after which to try again."""
        try:
            self.client.chat_postMessage(channel=channel, text="said")
        except SlackApiError as error:
            return str(error.response.headers["Retry-After"])
        return ""

    def advance(self, seconds: float) -> None:
        """Advance the client's clock."""
        self.clock.at += timedelta(seconds=seconds)

    def count_requests(self) -> int:
        """How many requests reached Slack."""
        return len(self.slack.requests)


@pytest.fixture
def harness() -> Iterator[ClientHarness]:
    with build_local_slack() as slack:
        made = ClientHarness(slack)
        yield made
        made.client.close()


def test_a_limit_on_posts_pauses_that_channel_only(harness: ClientHarness) -> None:
    """Slack gets no more requests for it until the time is over; other channels do."""
    harness.slack.faults.rate_limit("chat.postMessage", retry_after=40)
    assert harness.post(SUPPORT) == "40"
    harness.advance(9.5)
    assert [harness.post(SUPPORT) for _ in range(5)] == ["31"] * 5
    assert harness.count_requests() == 1
    assert harness.post(GENERAL) == ""
    assert harness.client.auth_test()["ok"]
    harness.advance(30.5)
    assert harness.post(SUPPORT) == ""


def test_a_limit_on_another_method_pauses_it_in_all_channels(harness: ClientHarness) -> None:
    """Slack counts it by method, so no channel's call is made; posts go on."""
    harness.slack.faults.rate_limit("conversations.replies", retry_after=5)
    for channel in (SUPPORT, GENERAL):
        with pytest.raises(SlackApiError, match="ratelimited"):
            harness.client.conversations_replies(channel=channel, ts="1.0")
    assert harness.count_requests() == 1
    assert harness.post(SUPPORT) == ""
    harness.advance(5)
    with pytest.raises(SlackApiError, match="thread_not_found"):
        harness.client.conversations_replies(channel=GENERAL, ts="1.0")


def test_a_rate_limit_error_without_a_time_begins_no_pause(harness: ClientHarness) -> None:
    """The next call is sent."""
    harness.slack.faults.fail("auth.test", "ratelimited")
    with pytest.raises(SlackApiError):
        harness.client.auth_test()
    assert harness.client.auth_test()["ok"]
