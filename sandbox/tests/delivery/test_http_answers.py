"""Answers over signed HTTP: what an app's response to a click, a submission or a command does."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from slack_bolt import Ack, Respond
from slack_bolt import App as Bolt
from slack_sdk import WebClient

from sandbox.tests.builders import Json, buttons, modal
from sandbox.tests.http_app import HttpAnswer, HttpApp, build_bolt_answer, serve_http_app
from slack_sandbox.server import Sandbox


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


@pytest.mark.parametrize("status", [500, 404, 201])
def test_interactions_are_not_retried(
    sandbox: Sandbox, client: WebClient, app_server: HttpApp, status: int
) -> None:
    """A failed click stays failed, however much time passes; only 200 counts as success."""
    ts = str(client.chat_postMessage(channel="C0SUPPORT", text="x", blocks=[buttons("go")])["ts"])
    sandbox.wait(lambda: len(app_server.requests) == 1)
    app_server.answer = lambda _: HttpAnswer(status)
    click = sandbox.person("ana").click("support", ts, "go")
    assert click.wait() == "http_error"
    sandbox.clock.advance(1000)
    assert (click.attempts, len(app_server.requests)) == (1, 2)


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        (HttpAnswer(200), {"outcome": "closed"}),
        (
            HttpAnswer(
                200, '{"response_action": "clear"}', (("Content-Type", "application/json"),)
            ),
            {"outcome": "closed"},
        ),
        (HttpAnswer(200, "fine"), {"outcome": "invalid"}),
        (HttpAnswer(500), {"outcome": "timeout"}),
    ],
)
def test_the_answer_to_a_submission_changes_the_modal(
    sandbox: Sandbox, client: WebClient, app_server: HttpApp, answer: HttpAnswer, outcome: Json
) -> None:
    """The body of the answer says what becomes of the modal.

    Any other body is an error.
    """
    ts = str(client.chat_postMessage(channel="C0SUPPORT", text="x", blocks=[buttons("go")])["ts"])
    ana = sandbox.person("ana")
    trigger = ana.click("support", ts, "go").payload["trigger_id"]
    client.views_open(trigger_id=trigger, view=modal())
    app_server.answer = lambda _: answer
    assert ana.submit({"field": {"text": {"value": "x"}}}).items() >= outcome.items()


def test_a_response_url_works_for_clicks_over_http(
    sandbox: Sandbox, client: WebClient, bolt: Bolt
) -> None:
    """It works as in Socket Mode."""

    @bolt.action("go")
    def clicked(ack: Ack, respond: Respond) -> None:
        ack()
        respond(text="only for you", replace_original=False)

    ts = str(client.chat_postMessage(channel="C0SUPPORT", text="x", blocks=[buttons("go")])["ts"])
    ana = sandbox.person("ana")
    ana.click("support", ts, "go")
    sandbox.wait(lambda: any(m.get("is_ephemeral") for m in ana.messages("support")))
