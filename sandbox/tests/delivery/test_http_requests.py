"""Signed HTTP: requests to an app, what its answers mean, and when a request is retried."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from slack_bolt import Ack
from slack_bolt import App as Bolt
from slack_bolt import Say as BoltSay
from slack_sdk import WebClient
from slack_sdk.signature import SignatureVerifier

from sandbox.tests.builders import Json, buttons, modal
from sandbox.tests.http_app import (
    HttpAnswer,
    HttpApp,
    ReceivedRequest,
    build_bolt_answer,
    serve_http_app,
)
from sandbox.tests.recordings import fixture
from slack_sandbox.ports import any_free
from slack_sandbox.server import Sandbox
from slack_sandbox.workspace.records import Delivery


@pytest.fixture
def app_server() -> Iterator[HttpApp]:
    """The HTTP server of the app."""
    with serve_http_app() as app:
        yield app


@pytest.fixture
def manifest(manifest: Json, app_server: HttpApp) -> Json:
    """The manifest of an app at request URLs."""
    return app_server.manifest(manifest)


@pytest.fixture
def bolt(sandbox: Sandbox, app_server: HttpApp) -> Bolt:
    """A real Bolt app that answers at that server."""
    client = WebClient(token=sandbox.bot_token, base_url=sandbox.api_url)
    app = Bolt(client=client, signing_secret=sandbox.world.app.signing_secret)
    app_server.answer = build_bolt_answer(app)
    return app


def events(sandbox: Sandbox) -> list[Delivery]:
    """The deliveries of events."""
    return [d for d in sandbox.deliveries if d.kind == "events_api"]


def planned(sandbox: Sandbox, attempts: int) -> Delivery:
    """The first event, after that many failed attempts, with the next one scheduled."""
    sandbox.wait(
        lambda: events(sandbox)[0].attempts == attempts and events(sandbox)[0].next_at is not None
    )
    return events(sandbox)[0]


def command(sandbox: Sandbox, text: str = "Berlin") -> Delivery:
    """A slash command as it is sent."""
    fields = {
        "command": "/weather",
        "text": text,
        "user_id": "UANA00001",
        "channel_id": "C0SUPPORT",
        "team_id": sandbox.team_id,
        "is_enterprise_install": "false",
        "trigger_id": "1.2.abc",
    }
    delivery = Delivery("slash_commands", fields, sandbox.world.app, accepts_response_payload=True)
    sandbox.world.send(delivery)
    return delivery


def test_a_bolt_app_works_over_signed_http(sandbox: Sandbox, bolt: Bolt) -> None:
    """A real Bolt app takes a mention, a click, a submission and a command over signed HTTP."""

    @bolt.event("app_mention")
    def mentioned(event: Json, say: BoltSay) -> None:
        say(text="hello", blocks=[buttons("go")], thread_ts=event["ts"])

    @bolt.action("go")
    def clicked(ack: Ack, body: Json, client: WebClient) -> None:
        ack()
        client.views_open(trigger_id=body["trigger_id"], view=modal())

    @bolt.view("form")
    def submitted(ack: Ack) -> None:
        ack(response_action="errors", errors={"field": "not like this"})

    @bolt.command("/weather")
    def weather(ack: Ack, command: Json) -> None:
        ack(f"rain in {command['text']}")

    ana = sandbox.person("ana")
    ts = ana.say("support", "@bot hello")
    posted = sandbox.wait(lambda: [m for m in ana.messages("support", ts) if m.get("bot_id")])
    ana.click("support", posted[0]["ts"], "go")
    sandbox.wait(ana.view)
    filled = {"field": {"text": {"value": "x"}}}
    assert ana.submit(filled) == {"outcome": "errors", "errors": {"field": "not like this"}}
    asked = command(sandbox)
    assert (asked.wait(), asked.ack) == ("acked", {"text": "rain in Berlin"})


def test_each_delivery_is_signed_and_sent_to_its_own_url(
    sandbox: Sandbox, client: WebClient, app_server: HttpApp
) -> None:
    """Events are JSON, interactions a form with `payload`, commands a form.

    Each goes to its own URL, signed.
    """
    sandbox.person("ana").say("support", "hello")
    sandbox.wait(lambda: len(app_server.requests) == 1)
    ts = str(client.chat_postMessage(channel="C0SUPPORT", text="x", blocks=[buttons("go")])["ts"])
    sandbox.wait(lambda: len(app_server.requests) == 2)
    sandbox.person("ana").click("support", ts, "go").wait()
    command(sandbox, "a & b").wait()
    menu = {"type": "block_suggestion", "action_id": "a", "block_id": "b", "value": "x"}
    sandbox.forge(menu, accepts=True).wait()
    event, _, click, slash, options = app_server.requests
    assert [g.path for g in app_server.requests[2:]] == [
        "/slack/actions",
        "/slack/commands",
        "/slack/options",
    ]
    assert [g.headers["content-type"] for g in (event, click, slash)] == [
        "application/json",
        "application/x-www-form-urlencoded",
        "application/x-www-form-urlencoded",
    ]
    assert event.payload["event"]["text"] == "hello"
    assert click.payload["type"] == "block_actions"
    assert set(click.form) == {"payload"}
    assert (slash.form["text"], slash.form["is_enterprise_install"]) == ("a & b", "false")
    assert options.payload == menu
    verifier = SignatureVerifier(sandbox.world.app.signing_secret)
    for got in (*app_server.requests, *app_server.challenges):
        assert verifier.is_valid_request(got.body, got.headers)
        assert not any(name.startswith("x-slack-retry") for name in got.headers)
    clicks = [click.payload, fixture("bolt_payloads.json")["block_actions.body"]]
    assert {type(value) for value in slash.form.values()} == {str}
    assert set(clicks[1]) - set(clicks[0]) == set()


def test_a_tampered_request_is_refused(sandbox: Sandbox, bolt: Bolt, app_server: HttpApp) -> None:
    """Bolt takes our signature and refuses the same request with one letter changed."""
    bolt.event("message")(lambda: None)
    sandbox.person("ana").say("support", "hello")
    sandbox.wait(lambda: events(sandbox)[0].ok)
    [got] = app_server.requests
    answer = build_bolt_answer(bolt)
    assert answer(got).status == 200
    tampered = ReceivedRequest(
        got.method, got.path, got.headers, got.body.replace("hello", "hallo")
    )
    assert answer(tampered).status == 401


def test_the_challenge_is_asked_once(sandbox: Sandbox, app_server: HttpApp) -> None:
    """The request URL gets a challenge at the start, and none after it has echoed that."""
    sandbox.wait(lambda: sandbox.world.app.verified)
    sandbox.person("ana").say("support", "hello")
    sandbox.wait(lambda: events(sandbox)[0].ok)
    [asked] = app_server.challenges
    assert set(asked.payload) == {"token", "challenge", "type"}
    assert [d.outcome for d in sandbox.deliveries if d.kind == "url_verification"] == ["acked"]


def test_a_url_that_fails_the_challenge_gets_no_events(
    sandbox: Sandbox, manifest: Json, app_server: HttpApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the right answer to the challenge no event is sent.

    After a right answer at the next try, it is.
    """
    sandbox.wait(lambda: sandbox.world.app.verified)
    honest = app_server.take
    monkeypatch.setattr(app_server, "take", lambda _: HttpAnswer(200, "something else"))
    other = sandbox.install(manifest, ["random"])
    sandbox.person("ana").say("random", "hello")
    planned(sandbox, 2)
    assert app_server.requests == []
    monkeypatch.setattr(app_server, "take", honest)
    sandbox.clock.advance(60)
    sandbox.wait(lambda: events(sandbox)[0].ok)
    assert other.verified


def test_a_failed_event_is_sent_again_three_times(sandbox: Sandbox, app_server: HttpApp) -> None:
    """The retries come at once, after a minute and after five minutes."""
    app_server.answer = lambda _: HttpAnswer(500)
    sandbox.person("ana").say("support", "hello")
    planned(sandbox, 2)
    sandbox.clock.advance(60)
    sent = planned(sandbox, 3)
    assert len(app_server.requests) == 3
    sandbox.clock.advance(300)
    assert (sent.wait(), sent.attempts) == ("http_error", 4)
    numbers = [got.headers.get("x-slack-retry-num") for got in app_server.requests]
    assert numbers == [None, "1", "2", "3"]
    assert {got.headers["x-slack-retry-reason"] for got in app_server.requests[1:]} == {
        "http_error"
    }
    assert len({got.payload["event_id"] for got in app_server.requests}) == 1


def test_a_successful_retry_ends_the_retries(sandbox: Sandbox, app_server: HttpApp) -> None:
    """The first successful answer ends the retries."""
    answers = [HttpAnswer(503), HttpAnswer(204)]
    app_server.answer = lambda _: answers.pop(0)
    sandbox.person("ana").say("support", "hello")
    sandbox.wait(lambda: events(sandbox)[0].ok)
    sandbox.clock.advance(400)
    sandbox.person("ana").say("random", "nobody hears this")
    assert [got.headers.get("x-slack-retry-num") for got in app_server.requests] == [None, "1"]


@pytest.mark.parametrize("status", [500, 404])
def test_no_retry_ends_the_retries(sandbox: Sandbox, app_server: HttpApp, status: int) -> None:
    """The header is x-slack-no-retry: 1 in the answer to a failed attempt."""
    app_server.answer = lambda _: HttpAnswer(status, headers=(("X-Slack-No-Retry", "1"),))
    sandbox.person("ana").say("support", "hello")
    assert (events(sandbox)[0].wait(), len(app_server.requests)) == ("http_error", 1)


def test_a_late_answer_is_an_http_timeout(sandbox: Sandbox, app_server: HttpApp) -> None:
    """The event is sent again with the reason http_timeout."""
    sandbox.wait(lambda: sandbox.world.app.verified)
    sandbox.world.ack_seconds = 0.1

    def slow(got: ReceivedRequest) -> HttpAnswer:
        if "x-slack-retry-num" not in got.headers:
            app_server.gate.wait(5)
        return HttpAnswer()

    app_server.answer = slow
    sandbox.person("ana").say("support", "hello")
    sandbox.wait(lambda: events(sandbox)[0].ok)
    assert app_server.requests[1].headers["x-slack-retry-reason"] == "http_timeout"


@pytest.mark.parametrize(("hops", "outcome"), [(2, "acked"), (3, "http_error")])
def test_two_redirects_are_followed(
    sandbox: Sandbox, app_server: HttpApp, hops: int, outcome: str
) -> None:
    """Two redirects are followed with the same signed body, a third is too many."""

    def answer(got: ReceivedRequest) -> HttpAnswer:
        number = int(got.path.partition("?hop=")[2] or 0)
        again = HttpAnswer(
            302, headers=(("Location", f"/elsewhere?hop={number + 1}"), ("x-slack-no-retry", "1"))
        )
        return again if number < hops else HttpAnswer()

    app_server.answer = answer
    sandbox.person("ana").say("support", "hello")
    [sent] = events(sandbox)
    if outcome == "acked":
        assert sent.wait() == outcome
        sent_as = {(g.method, g.body, g.headers["x-slack-signature"]) for g in app_server.requests}
        assert len(sent_as) == 1
    else:
        assert planned(sandbox, 2).retry_reason == "too_many_redirects"


def test_a_refused_connection_is_told_apart_from_a_tls_error(
    sandbox: Sandbox, app_server: HttpApp
) -> None:
    """A refused connection is connection_failed; plain text where TLS was meant is ssl_error."""
    app = sandbox.world.app
    sandbox.wait(lambda: app.verified)
    subscriptions = app.manifest["settings"]["event_subscriptions"]
    for url, reason in (
        (f"http://127.0.0.1:{any_free()}/", "connection_failed"),
        ("https" + app_server.url[4:], "ssl_error"),
    ):
        subscriptions["request_url"] = url
        before = len(events(sandbox))
        sandbox.person("ana").say("support", "hello")
        sandbox.wait(lambda at=before: events(sandbox)[at].attempts == 2)
        assert events(sandbox)[before].retry_reason == reason


def test_a_lost_acknowledgement_sends_the_event_again(
    sandbox: Sandbox, app_server: HttpApp
) -> None:
    """A lost answer counts as a time-out."""
    sandbox.faults.lose_ack("events_api")
    sandbox.person("ana").say("support", "hello")
    sandbox.wait(lambda: events(sandbox)[0].ok)
    assert [got.headers.get("x-slack-retry-reason") for got in app_server.requests] == [
        None,
        "http_timeout",
    ]


def test_socket_mode_takes_precedence_over_request_urls(
    sandbox: Sandbox, manifest: Json, app_server: HttpApp
) -> None:
    """An app with both in its manifest gets nothing over HTTP."""
    theirs = json.loads(json.dumps(manifest))
    theirs["settings"]["socket_mode_enabled"] = True
    other = sandbox.install(theirs, ["random"])
    sandbox.person("ana").say("random", "hello")
    sandbox.wait(lambda: sandbox.world.app.verified)
    assert [(d.app, d.attempts) for d in events(sandbox)] == [(other, 0)]
    assert (app_server.requests, len(app_server.challenges)) == ([], 1)
