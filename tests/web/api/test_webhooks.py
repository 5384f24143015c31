"""Webhooks: signed messages about requests, tried again for a day until they are accepted."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime

import pytest
from sqlalchemy import delete
from sqlmodel import col
from standardwebhooks import Webhook as Signature

from bot.http import webhooks
from bot.http.keys import derive_webhook_secret, parse_api_key
from storage.digest import SigningKey
from storage.webhooks import RETRY_INTERVALS, Webhook
from tests.client_keys import revoke_key
from tests.stories.harness import Harness
from tests.stories.steps import vote
from tests.web.api.conftest import make_program_key
from tests.web.api.program import Program
from tests.web.api.receiver import Receiver, run_receiver

DECIDED, ENDED = "request.decided", "request.ended"


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    """A receiver of webhooks."""
    with run_receiver() as made:
        yield made


def make_program(harness: Harness, receiver: Receiver, name: str) -> tuple[Program, str]:
    """Make a program with this receiver; returns the secret of its webhooks as well."""
    made = make_program_key(harness, name, webhook=receiver.url)
    return Program(harness, made.key, name), made.webhook_secret


def test_a_program_is_told_once_of_a_decision_and_of_the_end(
    bot: Harness, receiver: Receiver
) -> None:
    """Both messages are signed and have the request."""
    program, secret = make_program(bot, receiver, "told-twice")
    asked = program.note("tell me of this")
    vote(bot, "ana", program.card("tell me of this"))
    heard = receiver.wait(2)
    assert [each.said["type"] for each in heard] == [DECIDED, ENDED]
    for each in heard:
        at = datetime.fromtimestamp(int(each.headers["webhook-timestamp"]), UTC)
        signed = Signature(secret).sign(each.headers["webhook-id"], at, each.body.decode())
        assert each.headers["webhook-signature"] == signed
        assert each.said["data"]["id"] == asked["id"]
    assert heard[1].said["data"] == program.look(asked)
    bot.slack.wait(lambda: all(each.told_at for each in bot.all(Webhook)))
    assert len(receiver.heard) == 2


def test_webhooks_are_signed_with_the_new_key_and_the_old_one(
    bot: Harness, receiver: Receiver
) -> None:
    """While the bot has both keys, either secret of a program verifies the message."""
    program, secret = make_program(bot, receiver, "told-by-both")
    old = bot.app.core.store.signing_key
    bot.app.core.store._key = SigningKey(b"the new key of at least 32 characters", old)
    try:
        program.note("signed by both")
        vote(bot, "ana", program.card("signed by both"))
        heard = receiver.wait(2)
    finally:
        bot.app.core.store._key = old
    text = parse_api_key(program.key)
    assert text is not None
    new = derive_webhook_secret(b"the new key of at least 32 characters", text.id)
    for each in heard:
        at = datetime.fromtimestamp(int(each.headers["webhook-timestamp"]), UTC)
        signed = each.headers["webhook-signature"].split(" ")
        said = (each.headers["webhook-id"], at, each.body.decode())
        assert signed == [Signature(one).sign(*said) for one in (new, secret)]


def test_a_webhook_is_tried_again_after_longer_pauses_and_a_restart(
    bot: Harness, receiver: Receiver
) -> None:
    """The address fails or redirects. The message and its id stay the same."""
    receiver.status = 503
    program, _ = make_program(bot, receiver, "told-late")
    asked = program.deploy("7.0-told")
    vote(bot, "ana", program.card("7.0-told"))
    receiver.wait(1)
    wait_until_failed(bot, asked["id"], 1)
    receiver.status = 302
    bot.clock.advance(RETRY_INTERVALS[0].total_seconds() + 1)
    receiver.wait(2)
    wait_until_failed(bot, asked["id"], 2)
    bot.restart()
    receiver.status = 200
    bot.clock.advance(RETRY_INTERVALS[1].total_seconds() + 1)
    heard = receiver.wait(3)
    assert len({each.headers["webhook-id"] for each in heard}) == 1
    assert {each.said["data"]["status"] for each in heard} == {"approved"}
    assert len({each.said["timestamp"] for each in heard}) == 1
    program.claim(asked)
    program.report(asked, "done")
    assert receiver.wait(4)[3].said["type"] == ENDED


def test_webhooks_end_with_status_410_or_a_revoked_key(bot: Harness, receiver: Receiver) -> None:
    """Status 410 ends one request's messages; a revoked key ends all of them."""
    receiver.status = 410
    program, _ = make_program(bot, receiver, "told-gone")
    asked = program.note("gone by http")
    path = f"/v1/requests/{asked['id']}/cancel"
    program.card("gone by http")
    assert program.ask("POST", path)[0] == 200
    receiver.wait(2)
    rows = bot.slack.wait(lambda: list_finished(bot, asked["id"]))
    assert {each.error for each in rows} == {"it answered 410"}
    receiver.status = 200
    second = program.note("revoked by http")
    program.card("revoked by http")
    revoke_key(bot.app.core.store.path, program.name)
    vote(bot, "ana", program.card("revoked by http"))
    rows = bot.slack.wait(lambda: list_finished(bot, second["id"]))
    assert {each.error for each in rows} == {"its key is revoked"}
    assert len(receiver.heard) == 2


def test_a_request_made_just_before_a_crash_is_told(bot: Harness, receiver: Receiver) -> None:
    """The process died before it stored whom to tell; the next one adds that."""
    program, _ = make_program(bot, receiver, "told-after-a-death")
    asked = program.note("just before a death")
    card = program.card("just before a death")
    with bot.app.core.store.write() as tx:
        tx.execute(delete(Webhook).where(col(Webhook.run_id) == asked["id"]))
    bot.restart()
    vote(bot, "ana", card)
    assert [each.said["data"]["id"] for each in receiver.wait(2)] == [asked["id"]] * 2


def test_a_webhook_answered_endlessly_counts_as_failed(
    bot: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The address sends a letter now and then, until the time-out."""
    monkeypatch.setattr(webhooks, "POST_TIMEOUT_SECONDS", 1.0)
    with run_dripping_server() as url:
        slow = ask_for_slow_program(bot, url, "told-by-drops")
        wait_until_failed(bot, slow, 1)


def test_an_address_that_never_answers_does_not_delay_others(
    bot: Harness, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other programs are told meanwhile, also of later requests."""
    monkeypatch.setattr(webhooks, "POST_TIMEOUT_SECONDS", 120.0)
    with run_dripping_server() as url:
        slow = ask_for_slow_program(bot, url, "told-beside-none")
        program, _ = make_program(bot, receiver, "told-beside")
        for text in ("told beside drops", "told beside drops again"):
            program.note(text)
            vote(bot, "ana", program.card(text))
        receiver.wait(4)
        [decided, _] = sorted(bot.all(Webhook, Webhook.run_id == slow), key=lambda each: each.kind)
        assert (decided.attempts, decided.error) == (1, "")  # this one is still being waited for


def ask_for_slow_program(bot: Harness, url: str, name: str) -> str:
    """Make a request for a program at a slow address, and wait for its first webhook."""
    program = Program(bot, make_program_key(bot, name, webhook=url).key, name)
    asked = str(program.deploy(f"7.1-{name}")["id"])
    vote(bot, "ana", program.card(f"7.1-{name}"))
    bot.slack.wait(
        lambda: [each for each in bot.all(Webhook, Webhook.run_id == asked) if each.attempts]
    )
    return asked


@contextmanager
def run_dripping_server() -> Iterator[str]:
    """Run a server that answers letter by letter for ever; yields its address."""
    over = threading.Event()

    def answer(line: socket.socket) -> None:
        with line, suppress(OSError):
            line.sendall(b"HTTP/1.1 200 OK\r\nX: ")
            while not over.wait(0.2):
                line.sendall(b"x")

    def listen() -> None:
        with suppress(OSError):
            while True:
                threading.Thread(target=answer, args=(door.accept()[0],), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as door:
        threading.Thread(target=listen, daemon=True).start()
        yield f"http://127.0.0.1:{door.getsockname()[1]}/told"
        over.set()


def list_finished(harness: Harness, run_id: str) -> list[Webhook]:
    """List the webhooks of a request once both are sent or given up."""
    found = harness.all(Webhook, Webhook.run_id == run_id)
    done = len(found) == 2 and not any(each.waits or each.due_at for each in found)
    return found if done else []


def wait_until_failed(harness: Harness, run_id: str, attempts: int) -> None:
    """Wait until so many attempts are stored as failed."""
    harness.slack.wait(
        lambda: [
            each
            for each in harness.all(Webhook, Webhook.run_id == run_id)
            if each.attempts == attempts and each.error
        ]
    )
