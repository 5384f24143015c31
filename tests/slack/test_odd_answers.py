"""Whatever comes in the place of Slack's answer, for each kind of message: nothing is given up."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from urllib.parse import urlsplit

import pytest
from sqlalchemy import select

from bot.slack.client import _ConnectionPool
from storage.models import Call, Message
from storage.states import CallStatus, MessageStatus
from storage.transaction import fetch_rows
from tests.runs.fakes import BEN
from tests.slack.odd_server import OddServer
from tests.slack.post_office import SUPPORT, PostOffice
from tests.slack.test_sender_troubles import answer, streamed
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
    """A server that answers so."""
    how = ODD[request.param]
    with OddServer() as server:
        server.status, server.body, server.headers = how.status, how.body, how.headers
        server.missing, server.breaks = how.missing, how.breaks
        yield server


def a_line(office: PostOffice) -> Message:
    """Words in a channel."""
    return office.put()


def for_one(office: PostOffice) -> Message:
    """Words for one person in a channel."""
    return office.put("private", body={"text": "for you"}, recipient=BEN)


def in_a_dm(office: PostOffice) -> Message:
    """Words for a direct message that is not open."""
    return office.put(channel=BEN)


def a_file(office: PostOffice) -> Message:
    """A file."""
    body = {"name": "odd rows.csv", "title": "Rows", "content": "a"}
    return office.put("file", body=body, run_id=seed(office.store).run_id)


def a_drawing(office: PostOffice) -> Message:
    """A card that stands, to be drawn again."""
    card = office.card(seed(office.store))
    assert office.send(card) is True
    with office.store.write() as tx:
        set_message(tx, card, status=M.STALE)
    return office.now(card)


def a_mark(office: PostOffice) -> Message:
    """An emoji on a request's message."""
    made = seed(office.store)
    office.change(made, asked_at=made.call().created_at)
    ts = office.slack.person("ben").say(SUPPORT, "a request")
    return office.put("mark", run_id=made.run_id, ts=ts, body={"names": []})


def a_stream(office: PostOffice) -> Message:
    """A stream to be stopped."""
    found: Message = answer(office, *streamed(office, "one"), rest={"markdown_text": " two"})
    return found


def point(office: PostOffice, url: str) -> None:
    """Have its client call another server, over the connections that it keeps."""
    office.client.base_url, office.client._origin = url, urlsplit(url)[:2]
    office.client._connections.close()
    office.client._connections = _ConnectionPool(office.client._create_connection)


KINDS = (a_line, for_one, in_a_dm, a_file, a_drawing, a_mark, a_stream)


@pytest.mark.parametrize("body", [b'{"ok": true}', b'{"ok": true, "ts": null, "channel": {}}'])
@pytest.mark.parametrize("kind", [a_line, in_a_dm, a_file])
def test_an_answer_that_lacks_what_was_asked_for(
    office: PostOffice, kind: Callable[[PostOffice], Message], body: bytes
) -> None:
    """Well, says Slack, and nothing else: it is looked for, and sent in the end."""
    row, right = kind(office), office.client.base_url
    with OddServer() as odd:
        odd.body = body
        point(office, odd.url)
        for _ in range(8):
            office.send(row)
            assert office.now(row).status in (M.PENDING, M.SENDING), office.now(row).error
            office.clock.at += timedelta(seconds=301)
        point(office, right)
    for _ in range(3):
        if office.now(row).status is not M.SENT:
            office.send(row)
            office.clock.at += timedelta(seconds=61)
    assert office.now(row).status is M.SENT


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_an_odd_answer_gives_nothing_up(
    office: PostOffice, odd: OddServer, kind: Callable[[PostOffice], Message]
) -> None:
    """However often it comes, the message is not failed; once Slack answers it is sent."""
    row, right = kind(office), office.client.base_url
    before = office.now(row).status
    point(office, odd.url)
    try:
        for _ in range(8):
            if office.now(row).status is M.SENT:  # words for one: pointed to, and left at that
                assert kind is for_one
                break
            office.send(row)
            now = office.now(row)
            assert now.status in (before, M.SENDING) or kind is for_one, now.error
            office.clock.at += timedelta(seconds=301)
    finally:
        point(office, right)
    assert odd.asked
    for _ in range(3):  # a direct message is opened first
        if office.now(row).status is not M.SENT:
            office.send(row)
            office.clock.at += timedelta(seconds=61)
    assert office.now(row).status is M.SENT
    with office.store.read() as tx:
        calls = fetch_rows(tx, Call, select(Call))
    assert CallStatus.CANCELLED not in [each.status for each in calls]
