"""Whatever comes instead of Slack's answer, no kind of message is given up."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from urllib.parse import urlsplit

import pytest
from slack_sdk.errors import SlackApiError
from sqlalchemy import select

from bot.slack.client import SlackClient, _ConnectionPool
from bot.slack_codes import extract_error_code
from bot.start_errors import describe_start_error
from storage.models import Call, Message
from storage.states import CallStatus, MessageStatus
from storage.transaction import fetch_rows
from tests.runs.fakes import BEN
from tests.slack.odd_server import OddServer
from tests.slack.sender_harness import SUPPORT, SenderHarness
from tests.slack.test_sender_failures import queue_stream_answer, start_stream
from tests.storage.builders import seed, set_message

M = MessageStatus


@dataclass(frozen=True)
class Odd:
    """One way to answer."""

    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    missing: int = 0
    breaks: str = ""


FAILURE = b'{"ok": false, "error": "fatal_error"}'
ODD = {
    "nothing": Odd(),
    "html": Odd(body=b"<!doctype html><title>Sign in</title>"),
    "a list": Odd(body=b"[]"),
    "null": Odd(body=b"null"),
    "no text": Odd(body=b"\xff\xfe\xfa"),
    "half of it": Odd(body=b'{"ok": true, "ts": "17'),
    "less than said": Odd(body=b'{"ok": true}', missing=100),
    "not ok, no error": Odd(body=b'{"ok": false}'),
    "neither": Odd(body=b'{"ts": "1.2"}'),
    "error as an object": Odd(body=b'{"ok": false, "error": {"code": "no"}}'),
    "error as a sentence": Odd(body=b'{"ok": false, "error": "Something went wrong."}'),
    "an unknown code": Odd(body=b'{"ok": false, "error": "a_code_of_next_year"}'),
    "redirect": Odd(302, headers={"Location": "http://127.0.0.1:9/"}),
    "redirect for good": Odd(301, b"<html>", headers={"Location": "http://127.0.0.1:9/"}),
    "not found": Odd(404, b"<html>"),
    "bad request": Odd(400, b"<html>"),
    "too early": Odd(425),
    "500": Odd(500, FAILURE),
    "502": Odd(502, b"<html>Bad gateway</html>"),
    "503 with a final code": Odd(503, b'{"ok": false, "error": "channel_not_found"}'),
    "504": Odd(504),
    "429": Odd(429),
    "429, html": Odd(429, b"<html>", headers={"Retry-After": "soon"}),
    "reset before": Odd(breaks="before"),
    "reset within": Odd(body=b'{"ok": true, "ts": ', missing=50, breaks="within"),
}


@pytest.fixture(params=list(ODD))
def odd(request: pytest.FixtureRequest) -> Iterator[OddServer]:
    """A server with that answer."""
    how = ODD[request.param]
    with OddServer() as server:
        server.status, server.body, server.headers = how.status, how.body, how.headers
        server.missing, server.breaks = how.missing, how.breaks
        yield server


def queue_line(harness: SenderHarness) -> Message:
    """A message in a channel."""
    return harness.queue()


def queue_private_line(harness: SenderHarness) -> Message:
    """A message for one person in a channel."""
    return harness.queue("private", body={"text": "for you"}, recipient=BEN)


def queue_direct_message(harness: SenderHarness) -> Message:
    """A direct message whose conversation is not open."""
    return harness.queue(channel=BEN)


def queue_file(harness: SenderHarness) -> Message:
    """A file."""
    body = {"name": "odd rows.csv", "title": "Rows", "content": "a"}
    return harness.queue("file", body=body, run_id=seed(harness.store).run_id)


def queue_redraw(harness: SenderHarness) -> Message:
    """A card in Slack that is to be drawn again."""
    card = harness.queue_card(seed(harness.store))
    assert harness.send(card) is True
    with harness.store.write() as tx:
        set_message(tx, card, status=M.STALE)
    return harness.read(card)


def queue_mark(harness: SenderHarness) -> Message:
    """An emoji on a request's message."""
    made = seed(harness.store)
    harness.change_call(made, asked_at=made.call().created_at)
    ts = harness.slack.person("ben").say(SUPPORT, "a request")
    return harness.queue("mark", run_id=made.run_id, ts=ts, body={"names": []})


def queue_stream_end(harness: SenderHarness) -> Message:
    """A stream that is to be stopped."""
    found: Message = queue_stream_answer(
        harness, *start_stream(harness, "one"), rest={"markdown_text": " two"}
    )
    return found


def point_client_at(harness: SenderHarness, url: str) -> None:
    """Have the client call another server, also on connections it would keep."""
    harness.client.base_url, harness.client._origin = url, urlsplit(url)[:2]
    harness.client._connections.close()
    harness.client._connections = _ConnectionPool(harness.client._create_connection)


KINDS = (
    queue_line,
    queue_private_line,
    queue_direct_message,
    queue_file,
    queue_redraw,
    queue_mark,
    queue_stream_end,
)


@pytest.mark.parametrize("body", [b'{"ok": true}', b'{"ok": true, "ts": null, "channel": {}}'])
@pytest.mark.parametrize("kind", [queue_line, queue_direct_message, queue_file])
def test_a_message_answered_without_its_place_is_sent_once_clear(
    harness: SenderHarness, kind: Callable[[SenderHarness], Message], body: bytes
) -> None:
    """Slack only says ok: the message is searched for, and sent in the end."""
    row, right = kind(harness), harness.client.base_url
    with OddServer() as odd:
        odd.body = body
        point_client_at(harness, odd.url)
        for _ in range(8):
            harness.send(row)
            assert harness.read(row).status in (M.PENDING, M.SENDING), harness.read(row).error
            harness.clock.at += timedelta(seconds=301)
        point_client_at(harness, right)
    for _ in range(3):
        if harness.read(row).status is not M.SENT:
            harness.send(row)
            harness.clock.at += timedelta(seconds=61)
    assert harness.read(row).status is M.SENT


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_no_message_is_given_up_for_an_odd_answer(
    harness: SenderHarness, odd: OddServer, kind: Callable[[SenderHarness], Message]
) -> None:
    """However often it comes; once Slack answers, the message is sent."""
    row, right = kind(harness), harness.client.base_url
    before = harness.read(row).status
    point_client_at(harness, odd.url)
    try:
        for _ in range(8):
            if harness.read(row).status is M.SENT:  # private lines end with a pointer to the card
                assert kind is queue_private_line
                break
            harness.send(row)
            now = harness.read(row)
            assert now.status in (before, M.SENDING) or kind is queue_private_line, now.error
            harness.clock.at += timedelta(seconds=301)
    finally:
        point_client_at(harness, right)
    assert odd.asked
    for _ in range(3):  # several tries: a direct message is opened first
        if harness.read(row).status is not M.SENT:
            harness.send(row)
            harness.clock.at += timedelta(seconds=61)
    assert harness.read(row).status is M.SENT
    with harness.store.read() as tx:
        calls = fetch_rows(tx, Call, select(Call))
    assert CallStatus.CANCELLED not in [each.status for each in calls]


def test_a_page_of_a_proxy_is_no_error_code() -> None:
    """slack_sdk gives the page as the code; the operator, people and metrics do not get it."""
    with OddServer() as server:
        server.status, server.body = 403, b"<html>blocked by your company</html>"
        client = SlackClient("xoxb-1", base_url=server.url, retry_handlers=[])
        with pytest.raises(SlackApiError) as caught:
            client.auth_test()
    assert extract_error_code(caught.value) == ""
    assert str(describe_start_error(caught.value)).startswith("A proxy answers for Slack, or Slack")
