"""What is sent to the bot's address and is not Slack's, or not now: nothing is stored."""

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
from tests.web.requests import FORM, JSON, Headers, Sender, event, form, head

OTHERS = "another-secret-of-somebody"
SIGNATURE, TIMESTAMP = "X-Slack-Signature", "X-Slack-Request-Timestamp"


@dataclass
class Tally:
    """How many rows a test is to leave."""

    stored: int = 0


@pytest.fixture(autouse=True)
def tally(bot: Harness) -> Iterator[Tally]:
    """Rows are counted before and after: none more, unless the test says so."""
    before, expected = len(bot.all(Delivery)), Tally()
    yield expected
    assert len(bot.all(Delivery)) == before + expected.stored


Change = Callable[[dict[str, str], Sender], dict[str, str]]
CHANGES: dict[str, tuple[int, Change]] = {
    "signed by somebody else": (
        401,
        lambda h, s: h | replace(s, secret=OTHERS).headers(b"{}"),
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
def test_a_request_that_is_not_slacks(sender: Sender, name: str) -> None:
    """Each is refused with its status."""
    body = event(name)
    status, change = CHANGES[name]
    assert sender.post(body, change(sender.headers(body), sender)) == status


@pytest.mark.parametrize("missing", [TIMESTAMP, SIGNATURE, "Content-Type"])
def test_a_missing_header(sender: Sender, missing: str) -> None:
    """Without any of the three it is refused."""
    body = event("something is missing")
    headers = sender.headers(body)
    del headers[missing]
    assert sender.post(body, headers) == (415 if missing == "Content-Type" else 401)


@pytest.mark.parametrize("age", [301, -400, 86_400, -86_400])
def test_too_old_or_from_the_future(sender: Sender, age: int) -> None:
    """More than five minutes from the bot's own time it is refused, however well it is signed."""
    body = event("not now")
    assert sender.post(body, sender.headers(body, age=age)) == 401


@pytest.mark.parametrize("name", [TIMESTAMP, SIGNATURE, "Content-Type"])
@pytest.mark.parametrize("first", [True, False])
def test_a_header_twice(sender: Sender, name: str, first: bool) -> None:
    """Whichever of the two is right: nobody has to choose."""
    body = event("twice")
    right = sender.headers(body) | {"Content-Length": str(len(body))}
    wrong = sender.headers(b"{}", kind=FORM, age=7)[name]
    headers: Headers = [(name, wrong), *right.items()] if first else [*right.items(), (name, wrong)]
    assert sender.raw(head(headers), body) == 400


def test_ten_megabytes_are_not_read(sender: Sender) -> None:
    """Refused before it comes where it says its length, else once it is too much."""
    headers = sender.headers(b"{}")
    length = {"Content-Length": str(10 * 1024 * 1024)}
    assert sender.raw(head((headers | length).items())) == 413
    chunk = b"10000\r\n" + b"x" * 0x10000 + b"\r\n"
    chunks = [chunk] * (module.MAX_BODY_BYTES // 0x10000 + 1)
    assert sender.raw(head((headers | {"Transfer-Encoding": "chunked"}).items()), *chunks) == 413


def test_a_length_and_chunks(sender: Sender) -> None:
    """What two programs might read in two ways is read in neither, or refused by its signature."""
    body = event("which is it")
    both = {"Content-Length": "4", "Transfer-Encoding": "chunked"}
    sent = head((sender.headers(body) | both).items()), b"4\r\nabcd\r\n0\r\n\r\n"
    assert sender.raw(*sent) in (400, 401)


def test_chunks_are_taken(sender: Sender, bot: Harness, tally: Tally) -> None:
    """A proxy may pass a body on without its length; it is signed as it is."""
    body = event("in two pieces")
    headers = head((sender.headers(body) | {"Transfer-Encoding": "chunked"}).items())
    pieces = [b"%x\r\n%s\r\n" % (len(each), each) for each in (body[:50], body[50:])]
    assert sender.raw(headers, *pieces, b"0\r\n\r\n") == 200
    tally.stored = 1


def test_a_slow_body(sender: Sender, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that does not come to its end is given up."""
    monkeypatch.setattr(module, "BODY_TIMEOUT_SECONDS", 0.2)
    body = event("wait for it")
    headers = sender.headers(body) | {"Content-Length": str(len(body))}
    assert sender.raw(head(headers.items()), body[:-1]) == 408


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
def test_another_path_or_method(sender: Sender, path: str, method: str, status: int) -> None:
    """There is one way in, however well a request is signed."""
    body = event("elsewhere")
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
def test_what_is_no_payload(sender: Sender, body: bytes, kind: str) -> None:
    """Even where it is signed, what is no payload is refused, and not a fault of ours."""
    assert sender.post(body, sender.headers(body, kind)) == 400


def test_a_replay_is_refused(sender: Sender, tally: Tally) -> None:
    """The very same request again is refused; as a retry it is acknowledged. One row is stored."""
    body = event("once")
    headers = sender.headers(body)
    assert sender.post(body, headers) == 200
    assert sender.post(body, headers) == 409
    again = {"X-Slack-Retry-Num": "1", "X-Slack-Retry-Reason": "http_timeout"}
    assert sender.post(body, headers, **again) == 200
    tally.stored = 1


def test_a_retry_with_a_new_time(sender: Sender, tally: Tally) -> None:
    """As Slack sends it when it heard nothing: signed anew, the same event, the same row."""
    body = event("heard nothing")
    for age, number in ((4, "0"), (0, "1")):
        sent = sender.headers(body, age=age) | {"X-Slack-Retry-Num": number}
        assert sender.post(body, sent) == 200
    tally.stored = 1


def test_an_event_of_another_workspace(sender: Sender) -> None:
    """An event of another team is acknowledged, so that it is not sent again, and dropped."""
    other = {"team_id": "T0OTHERCO", "authorizations": [{"team_id": "T0OTHERCO"}]}
    assert sender.post(event("from elsewhere", **other)) == 200


def test_a_command_of_another_workspace(sender: Sender) -> None:
    """A command, too, is dropped."""
    body = b"command=%2Fapprovals&text=list&team_id=T0OTHERCO&user_id=UBEN00001&channel_id=C1"
    assert sender.post(body, sender.headers(body, FORM)) == 200


@pytest.mark.parametrize("text", ["Füße 🦶 ほか", "half a pair: \ud83d", "\u202eback", "a\x00b"])
def test_what_people_write_is_stored(sender: Sender, bot: Harness, tally: Tally, text: str) -> None:
    """What people write is stored as it came; half a character is no text, and is replaced."""
    body = event(text)
    assert sender.post(body) == 200
    [row] = bot.all(Delivery, Delivery.key == f"event:{json.loads(body)['event_id']}")
    assert json.loads(row.body)["event"]["channel"]["name"] == text.replace("\ud83d", "?")
    tally.stored = 1


def test_who_asks_for_the_challenge(sender: Sender) -> None:
    """Only who knows the secret is given it back."""
    body = json.dumps({"type": "url_verification", "challenge": "c" * 30}).encode()
    assert sender.post(body, replace(sender, secret=OTHERS).headers(body)) == 401
    status, said = sender.ask("POST", "/slack/events", body, sender.headers(body))
    assert (status, json.loads(said)) == (200, {"challenge": "c" * 30})


def test_a_forwarded_address_says_nothing(sender: Sender) -> None:
    """Nobody is believed for the address they claim."""
    body = event("from Slack's own address")
    told = {"X-Forwarded-For": "127.0.0.1", "X-Forwarded-Proto": "https", "X-Real-IP": "127.0.0.1"}
    assert sender.post(body, replace(sender, secret=OTHERS).headers(body) | told) == 401


def test_slack_holds_events_back(sender: Sender, caplog: pytest.LogCaptureFixture) -> None:
    """That there were too many is acknowledged, and told to the operator."""
    body = json.dumps({"type": "app_rate_limited", "team_id": "T0COUNTER"}).encode()
    assert sender.post(body) == 200
    assert "Slack holds events back" in caplog.text


def test_what_is_refused_is_not_logged(sender: Sender, caplog: pytest.LogCaptureFixture) -> None:
    """The log has the status alone: nothing of the body, the headers or the secret."""
    caplog.set_level("DEBUG", logger="countersign")
    body = event("hunter2 is what they typed")
    headers = replace(sender, secret=OTHERS).headers(body)
    assert sender.post(body, headers) == 401
    assert "401" in caplog.text
    for secret in ("hunter2", sender.secret, headers[SIGNATURE]):
        assert secret not in caplog.text


@pytest.mark.long  # it takes time of a machine that others leave to it
def test_two_hundred_at_once(sender: Sender, bot: Harness, tally: Tally) -> None:
    """All are acknowledged within Slack's three seconds, and each is stored once."""
    bot.app.loop.pause()  # so that it is the acknowledgements that are timed
    bodies = [event(f"number {number}") for number in range(200)]

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


def test_words_that_bolt_reads_otherwise(bot: Harness) -> None:
    """A command is heard also where its words have "payload" in them."""
    bot.person("ben").command("C0SUPPORT", "/approvals payload")
    said = bot.slack.wait(
        lambda: next(
            (m for m in bot.person("ben").messages("C0SUPPORT") if "payload" in words(m)), None
        )
    )
    assert "I do not know" in words(said)


def test_a_forged_click_over_a_form(sender: Sender) -> None:
    """A form is signed like everything else."""
    click = {"type": "block_actions", "user": {"id": "UANA00001"}, "actions": [{"value": "x"}]}
    body = form(click)
    assert sender.post(body, replace(sender, secret=OTHERS).headers(body, FORM)) == 401
