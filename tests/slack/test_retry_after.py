"""Whatever time Slack's Retry-After has, nothing is lost, hurried or put off for ever."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import timedelta
from http.client import HTTPException
from typing import Any

import pytest

from bot.slack.client import MAX_RETRY_AFTER_SECONDS, RateLimitPauses, parse_retry_after
from bot.slack.lookups import build_read_only_slack_client
from storage.states import MessageStatus
from tests.slack.odd_server import OddServer
from tests.slack.sender_harness import SenderHarness

M = MessageStatus
ABSURD = (
    None,
    "",
    "soon",
    "-5",
    "0",
    "1e400",
    "nan",
    "1e300",
    "99999999999999999999",
    "Wed, 25 Nov 2026 20:00:00 GMT",
)


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        *((each, 0.0) for each in (None, "", "soon", "-5", "0", "nan", "inf", "1e400", "²")),
        ("1.5", 1.5),
        (7, 7.0),
        ("1e300", MAX_RETRY_AFTER_SECONDS),
        ("86400", MAX_RETRY_AFTER_SECONDS),
    ],
)
def test_a_retry_after_header_is_parsed_as_seconds(header: object, seconds: float) -> None:
    """A value that is no number counts as none; the longest wait is limited."""
    assert parse_retry_after(header) == seconds


@pytest.fixture
def limiting_server() -> Iterator[OddServer]:
    """A server that answers 429 to every call."""
    with OddServer() as server:
        server.status, server.body = 429, b'{"ok": false, "error": "ratelimited"}'
        yield server


@pytest.mark.parametrize("header", ABSURD)
@pytest.mark.parametrize("with_body", [True, False])
def test_a_rate_limited_message_is_sent_later(
    harness: SenderHarness, limiting_server: OddServer, header: str | None, with_body: bool
) -> None:
    """It is PENDING, due within five minutes and not at once, however often it was limited."""
    harness.client.pauses = RateLimitPauses(harness.clock)
    limiting_server.headers = {} if header is None else {"Retry-After": header}
    limiting_server.body = limiting_server.body if with_body else b""
    row, right = harness.queue(attempts=40), harness.client.base_url
    harness.client.base_url = limiting_server.url
    for _ in range(3):
        assert harness.send(row) is False
        assert harness.read(row).status is M.PENDING
        assert 0.4 < harness.get_delay(row) <= MAX_RETRY_AFTER_SECONDS
        harness.clock.at += timedelta(seconds=MAX_RETRY_AFTER_SECONDS)
    harness.client.base_url = right
    assert harness.send(row) is True
    assert harness.read(row).status is M.SENT


@pytest.mark.parametrize("header", ABSURD)
def test_a_rate_limited_look_up_is_tried_again(header: str | None) -> None:
    """It waits a moment, whatever the header says."""
    begun = time.monotonic()
    client = build_read_only_slack_client("xoxb-1", "http://127.0.0.1:9/")
    patience: Any = client.retry_handlers[-1]
    headers = {} if header is None else {"Retry-After": [header]}
    client.close()  # a client that is not closed waits for the full time
    state, answer = _State(), _Answer(headers)
    patience.prepare_for_next_attempt(state=state, request=None, response=answer)
    assert state.next_attempt_requested
    assert time.monotonic() - begun < 10


@pytest.mark.parametrize("breaks", ["never", "before", "within"])
def test_a_look_up_without_an_answer_is_tried_again(breaks: str) -> None:
    """None, half of one, or none in time; a closed client does not ask again."""
    user = b'{"ok": true, "user": {"id": "UANA00001"}}'
    with OddServer() as server:
        server.breaks, server.body, server.most, server.right = breaks, user[:20], 2, user
        server.missing = 5
        client = build_read_only_slack_client("xoxb-1", server.url)
        client.timeout = 0.2
        assert client.users_info(user="UANA00001")["user"] == {"id": "UANA00001"}
        assert server.asked == 3
        server.asked = 0
        client.close()
        with pytest.raises((OSError, HTTPException)):
            client.users_info(user="UANA00001")
        assert server.asked == 1


class _State:
    """What slack_sdk keeps of the tries of a call."""

    next_attempt_requested = False

    def increment_current_attempt(self) -> None:
        """Count one more."""


class _Answer:
    """An answer with these headers."""

    status_code = 429

    def __init__(self, headers: dict[str, list[str]]) -> None:
        self.headers = headers
