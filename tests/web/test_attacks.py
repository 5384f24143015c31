"""Requests to the bot's address that are not Slack's, or too late: nothing is stored."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import pytest

from bot.http import slack_endpoint as module
from storage.models import Delivery
from tests.stories.harness import Harness
from tests.stories.messages import words
from tests.web.requests import FORM, JSON, Headers, Sender, build_event, build_head, encode_form

OTHER_SECRET = "another-secret-of-somebody"
SIGNATURE, TIMESTAMP = "X-Slack-Signature", "X-Slack-Request-Timestamp"


@dataclass
class Tally:
    """How many rows a test is expected to store."""

    stored: int = 0


@pytest.fixture(autouse=True)
def tally(bot: Harness) -> Iterator[Tally]:
    """Check that a test stores no more rows than it says."""
    before, expected = len(bot.all(Delivery)), Tally()
    yield expected
    assert len(bot.all(Delivery)) == before + expected.stored


Change = Callable[[dict[str, str], Sender], dict[str, str]]
CHANGES: dict[str, tuple[int, Change]] = {
    "signed by somebody else": (
        401,
        lambda h, s: h | replace(s, secret=OTHER_SECRET).headers(b"{}"),
    ),
    "the signature of another body": (401, lambda h, s: h | s.headers(b"{}")),
    "a time changed afterwards": (401, lambda h, s: h | {TIMESTAMP: str(s.now - 1)}),
    "no time": (401, lambda h, _: h | {TIMESTAMP: ""}),
    "no signature": (401, lambda h, _: h | {SIGNATURE: ""}),
    "a time that is no number": (401, lambda h, _: h | {TIMESTAMP: "1e9"}),
    "a negative time": (401, lambda h, _: h | {TIMESTAMP: "-1"}),
    "a time beyond all": (401, lambda h, _: h | {TIMESTAMP: "9" * 400}),
    "another version": (401, lambda h, _: h | {SIGNATURE: h[SIGNATURE].replace("v0", "v1")}),
    "in capitals": (401, lambda h, _: h | {SIGNATURE: "v0=" + h[SIGNATURE][3:].upper()}),
    "beyond ASCII": (401, lambda h, _: h | {SIGNATURE: "v0=" + "é" * 64}),
    "plain text": (415, lambda h, _: h | {"Content-Type": "text/plain"}),
    "no kind": (415, lambda h, _: h | {"Content-Type": ""}),
    "a file": (415, lambda h, _: h | {"Content-Type": "multipart/form-data; boundary=x"}),
    "compressed": (415, lambda h, _: h | {"Content-Encoding": "gzip"}),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_request_not_signed_by_slack_is_refused(sender: Sender, name: str) -> None:
    """So are requests with another type of content."""
    body = build_event(name)
    status, change = CHANGES[name]
    assert sender.post(body, change(sender.headers(body), sender)) == status


@pytest.mark.parametrize("missing", [TIMESTAMP, SIGNATURE, "Content-Type"])
def test_a_request_without_a_needed_header_is_refused(sender: Sender, missing: str) -> None:
    """Three headers are needed."""
    body = build_event("something is missing")
    headers = sender.headers(body)
    del headers[missing]
    assert sender.post(body, headers) == (415 if missing == "Content-Type" else 401)


@pytest.mark.parametrize("age", [301, -400, 86_400, -86_400])
def test_a_request_too_old_or_from_the_future_is_refused(sender: Sender, age: int) -> None:
    """It is properly signed, but more than five minutes from the bot's own time."""
    body = build_event("not now")
    assert sender.post(body, sender.headers(body, age=age)) == 401


@pytest.mark.parametrize("name", [TIMESTAMP, SIGNATURE, "Content-Type"])
@pytest.mark.parametrize("first", [True, False])
def test_a_header_given_twice_is_refused(sender: Sender, name: str, first: bool) -> None:
    """It does not matter which of the two is right."""
    body = build_event("twice")
    right = sender.headers(body) | {"Content-Length": str(len(body))}
    wrong = sender.headers(b"{}", kind=FORM, age=7)[name]
    headers: Headers = [(name, wrong), *right.items()] if first else [*right.items(), (name, wrong)]
    assert sender.raw(build_head(headers), body) == 400


def test_a_body_of_ten_megabytes_is_not_read(sender: Sender) -> None:
    """It is refused by its length; without one, as soon as it is too long."""
    headers = sender.headers(b"{}")
    length = {"Content-Length": str(10 * 1024 * 1024)}
    assert sender.raw(build_head((headers | length).items())) == 413
    chunk = b"10000\r\n" + b"x" * 0x10000 + b"\r\n"
    chunks = [chunk] * (module.MAX_BODY_BYTES // 0x10000 + 1)
    assert (
        sender.raw(build_head((headers | {"Transfer-Encoding": "chunked"}).items()), *chunks) == 413
    )


def test_a_request_with_both_a_length_and_chunks_is_refused(sender: Sender) -> None:
    """Two programs might read it in two ways."""
    body = build_event("which is it")
    both = {"Content-Length": "4", "Transfer-Encoding": "chunked"}
    sent = build_head((sender.headers(body) | both).items()), b"4\r\nabcd\r\n0\r\n\r\n"
    assert sender.raw(*sent) in (400, 401)


def test_a_body_in_chunks_is_accepted(sender: Sender, bot: Harness, tally: Tally) -> None:
    """A proxy may pass a body on without its length."""
    body = build_event("in two pieces")
    headers = build_head((sender.headers(body) | {"Transfer-Encoding": "chunked"}).items())
    pieces = [b"%x\r\n%s\r\n" % (len(each), each) for each in (body[:50], body[50:])]
    assert sender.raw(headers, *pieces, b"0\r\n\r\n") == 200
    tally.stored = 1


def test_a_body_that_does_not_end_is_given_up(
    sender: Sender, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bot answers with status 408."""
    monkeypatch.setattr(module, "BODY_TIMEOUT_SECONDS", 0.2)
    body = build_event("wait for it")
    headers = sender.headers(body) | {"Content-Length": str(len(body))}
    assert sender.raw(build_head(headers.items()), body[:-1]) == 408


@pytest.mark.parametrize(
    ("path", "method", "status"),
    [
        ("/", "POST", 404),
        ("/slack", "POST", 404),
        ("/slack/events/more", "POST", 404),
        ("//slack/events", "POST", 404),
        ("/slack/../slack/events", "POST", 404),
        ("/slack/events", "GET", 405),
        ("/slack/events", "HEAD", 405),
        ("/slack/events", "PUT", 405),
        ("/healthz", "POST", 405),
    ],
)
def test_signed_requests_to_other_paths_or_methods_are_refused(
    sender: Sender, path: str, method: str, status: int
) -> None:
    """There is one path and one method for Slack's requests."""
    body = build_event("elsewhere")
    assert sender.ask(method, path, body, sender.headers(body))[0] == status


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b"", JSON),
        (b"[]", JSON),
        (b"null", JSON),
        (b'{"type":', JSON),
        (b"[" * 100_000, JSON),
        (b'{"type": "\xff"}', JSON),
        (b"payload=%5B%5D", FORM),
        (b"payload={", FORM),
        (b"&".join(b"a=b" for _ in range(200)), FORM),
    ],
)
def test_a_signed_body_that_is_no_payload_is_refused(
    sender: Sender, body: bytes, kind: str
) -> None:
    """The status is 400 and not 500."""
    assert sender.post(body, sender.headers(body, kind)) == 400


def test_a_replayed_request_is_refused(sender: Sender, tally: Tally) -> None:
    """Marked as Slack's retry, it is acknowledged. One row is stored."""
    body = build_event("once")
    headers = sender.headers(body)
    assert sender.post(body, headers) == 200
    assert sender.post(body, headers) == 409
    again = {"X-Slack-Retry-Num": "1", "X-Slack-Retry-Reason": "http_timeout"}
    assert sender.post(body, headers, **again) == 200
    tally.stored = 1


def test_a_retry_with_a_new_signature_is_stored_once(sender: Sender, tally: Tally) -> None:
    """Slack sends the same event again, signed again, if it got no answer."""
    body = build_event("heard nothing")
    for age, number in ((4, "0"), (0, "1")):
        sent = sender.headers(body, age=age) | {"X-Slack-Retry-Num": number}
        assert sender.post(body, sent) == 200
    tally.stored = 1


def test_an_event_of_another_workspace_is_dropped(sender: Sender) -> None:
    """It is acknowledged, so that Slack does not send it again."""
    other = {"team_id": "T0OTHERCO", "authorizations": [{"team_id": "T0OTHERCO"}]}
    assert sender.post(build_event("from elsewhere", **other)) == 200


def test_a_command_of_another_workspace_is_dropped(sender: Sender) -> None:
    """It is acknowledged, too."""
    body = b"command=%2Fapprovals&text=list&team_id=T0OTHERCO&user_id=UBEN00001&channel_id=C1"
    assert sender.post(body, sender.headers(body, FORM)) == 200


@pytest.mark.parametrize("text", ["Füße 🦶 ほか", "half a pair: \ud83d", "\u202eback", "a\x00b"])
def test_text_is_stored_as_it_came(sender: Sender, bot: Harness, tally: Tally, text: str) -> None:
    """Half a character, which is no text, is replaced."""
    body = build_event(text)
    assert sender.post(body) == 200
    [row] = bot.all(Delivery, Delivery.key == f"event:{json.loads(body)['event_id']}")
    assert json.loads(row.body)["event"]["channel"]["name"] == text.replace("\ud83d", "?")
    tally.stored = 1


def test_the_challenge_is_returned_only_to_a_signed_request(sender: Sender) -> None:
    """Slack sends a challenge to verify the address."""
    body = json.dumps({"type": "url_verification", "challenge": "c" * 30}).encode()
    assert sender.post(body, replace(sender, secret=OTHER_SECRET).headers(body)) == 401
    status, said = sender.ask("POST", "/slack/events", body, sender.headers(body))
    assert (status, json.loads(said)) == (200, {"challenge": "c" * 30})


def test_forwarded_addresses_do_not_count(sender: Sender) -> None:
    """A sender can claim any address."""
    body = build_event("from Slack's own address")
    told = {"X-Forwarded-For": "127.0.0.1", "X-Forwarded-Proto": "https", "X-Real-IP": "127.0.0.1"}
    assert sender.post(body, replace(sender, secret=OTHER_SECRET).headers(body) | told) == 401


def test_a_rate_limit_of_slacks_events_is_logged(
    sender: Sender, caplog: pytest.LogCaptureFixture
) -> None:
    """Slack's notice is acknowledged; the operator reads it in the log."""
    body = json.dumps({"type": "app_rate_limited", "team_id": "T0COUNTER"}).encode()
    assert sender.post(body) == 200
    assert "Slack holds events back" in caplog.text


def test_a_refused_request_is_logged_by_its_status_only(
    sender: Sender, caplog: pytest.LogCaptureFixture
) -> None:
    """The log has nothing of the body, the headers or the secret."""
    caplog.set_level("DEBUG", logger="countersign")
    body = build_event("hunter2 is what they typed")
    headers = replace(sender, secret=OTHER_SECRET).headers(body)
    assert sender.post(body, headers) == 401
    assert "401" in caplog.text
    for secret in ("hunter2", sender.secret, headers[SIGNATURE]):
        assert secret not in caplog.text


@pytest.mark.long  # it needs a machine that is not busy
def test_two_hundred_requests_at_once_are_acknowledged_in_time(
    sender: Sender, bot: Harness, tally: Tally
) -> None:
    """Slack allows three seconds. Each is stored once."""
    bot.app.loop.pause()  # so that only the acknowledgements are timed
    bodies = [build_event(f"number {number}") for number in range(200)]

    def send(body: bytes) -> tuple[int, float]:
        began = time.monotonic()
        return sender.post(body), time.monotonic() - began

    try:
        with ThreadPoolExecutor(200) as pool:
            found = list(pool.map(send, bodies))
    finally:
        bot.app.loop.resume()
    assert {status for status, _ in found} == {200}
    assert max(took for _, took in found) < 3
    tally.stored = 200


def test_a_command_with_the_word_payload_is_answered(bot: Harness) -> None:
    """Bolt treats bodies with that word differently."""
    bot.person("ben").command("C0SUPPORT", "/approvals payload")
    said = bot.slack.wait(
        lambda: next(
            (m for m in bot.person("ben").messages("C0SUPPORT") if "payload" in words(m)), None
        )
    )
    assert "I do not know" in words(said)


def test_a_forged_click_is_refused(sender: Sender) -> None:
    """Clicks are forms, and signed like everything else."""
    click = {"type": "block_actions", "user": {"id": "UANA00001"}, "actions": [{"value": "x"}]}
    body = encode_form(click)
    assert sender.post(body, replace(sender, secret=OTHER_SECRET).headers(body, FORM)) == 401
