"""Odd answers of Slack to a tool: a request that was sent is never reported as failed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from slack_sdk import WebClient

from bot.slack.client import SlackClient
from bot.slack.directory import SlackDirectory
from bot.slack_codes import (
    MISSING_SCOPE,
    PERMANENT_ERROR_CODES,
    TEMPORARY_ERROR_CODES,
    TOKEN_ERROR_CODES,
    UNKNOWN_OUTCOME_CODES,
)
from bot.tools.names import SlackIdResolver
from bot.tools.runner import LostToolAnswer, ToolFailure
from bot.tools.slack_tools import build_slack_tools
from slack_sandbox.server import Sandbox
from tests.slack.odd_server import OddServer
from tests.slack.test_odd_answers import ODD
from tests.tools import NAMING, Tools
from tests.tools.harness import run_to_outcome

WRITES = {
    "post_message": ("chat.postMessage", {"channel": "C0GENERAL", "text": "x"}),
    "schedule_message": (
        "chat.scheduleMessage",
        {"channel": "C0GENERAL", "text": "x", "at": "2026-11-27T12:00:00+00:00"},
    ),
    "create_channel": ("conversations.create", {"name": "odd"}),
    "invite": ("conversations.invite", {"channel": "C0SUPPORT", "people": ["@cleo"]}),
    "set_topic": ("conversations.setTopic", {"channel": "C0SUPPORT", "topic": "t"}),
}
CERTAIN = PERMANENT_ERROR_CODES | TEMPORARY_ERROR_CODES | TOKEN_ERROR_CODES | {MISSING_SCOPE}


class Split:
    """A client whose writes go to one server, and all else to another."""

    def __init__(self, writing: WebClient, reading: WebClient) -> None:
        self._writing, self._reading = writing, reading

    def __getattr__(self, name: str) -> Any:
        method = {written.replace(".", "_") for written, _ in WRITES.values()}
        return getattr(self._writing if name in method else self._reading, name)


@pytest.fixture(params=list(ODD))
def odd(request: pytest.FixtureRequest) -> Any:
    """A server that answers in one of the odd ways."""
    how = ODD[request.param]
    with OddServer() as server:
        server.status, server.body, server.headers = how.status, how.body, how.headers
        server.missing, server.breaks = how.missing, how.breaks
        yield server


@pytest.mark.parametrize("kind", [SlackClient, WebClient])
def test_after_an_odd_answer_of_slack_the_outcome_is_unknown(
    slack: Sandbox, odd: OddServer, kind: Callable[..., WebClient]
) -> None:
    """This holds for each tool that writes; only status 429 says that nothing was done."""
    slack.leave("cleo", "support")
    reading = kind(slack.bot_token, base_url=slack.api_url, timeout=10, retry_handlers=[])
    writing = kind("xoxb-1", base_url=odd.url, timeout=10, retry_handlers=[])
    directory = SlackDirectory(reading, slack.clock)
    NAMING.set(SlackIdResolver(directory, "UBEN00001"))
    split: Any = Split(writing, reading)
    tools = {tool.name: tool for tool in build_slack_tools(split, directory)}
    for name, (_, values) in WRITES.items():
        found = run_to_outcome(tools[name], values)
        assert isinstance(found, ToolFailure if odd.status == 429 else LostToolAnswer), (
            name,
            found,
        )
        assert getattr(found, "certain", True)
    assert odd.asked == len(WRITES)


@pytest.mark.parametrize("name", list(WRITES))
def test_only_a_listed_refusal_of_slack_is_a_certain_failure(
    slack: Sandbox, chat: Tools, name: str
) -> None:
    """Slack's own failures and codes that we do not list leave the outcome unknown."""
    slack.leave("cleo", "support")
    method, values = WRITES[name]
    for code in sorted(CERTAIN | UNKNOWN_OUTCOME_CODES | {"a_code_of_next_year"}):
        slack.faults.fail(method, code)
        found = run_to_outcome(chat[name], values)
        assert isinstance(found, ToolFailure if code in CERTAIN else LostToolAnswer), (code, found)
        assert getattr(found, "certain", True), (code, found)
