"""Codes and tokens: what they allow and what ends them; and a Bolt app that installs itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from slack_bolt import App as Bolt
from slack_bolt import BoltRequest
from slack_bolt.oauth.oauth_settings import OAuthSettings
from slack_sdk import WebClient
from slack_sdk.errors import SlackApiError
from slack_sdk.oauth.installation_store import FileInstallationStore
from slack_sdk.oauth.state_store import FileOAuthStateStore

from sandbox.tests.builders import Json
from sandbox.tests.http_app import HttpApp, build_bolt_answer, serve_http_app
from sandbox.tests.oauth.browser import Parts, consent, exchange_code, fetch
from sandbox.tests.refusals import code
from slack_sandbox.server import Sandbox
from slack_sandbox.workspace.apps import App


def test_a_code_works_once_for_its_own_app(sandbox: Sandbox, app: App, manifest: Json) -> None:
    """A code works once, for ten minutes, for its own app with its own secret."""
    other = sandbox.install(manifest)
    first, second = consent(sandbox)["code"], consent(sandbox)["code"]

    def refusal(given: str, whose: App = app, **more: str) -> str:
        with pytest.raises(SlackApiError) as refused:
            exchange_code(sandbox, given, whose, **more)
        return code(refused)

    assert refusal(first, other) == "invalid_code"
    assert refusal(first, client_secret="wrong") == "bad_client_secret"
    assert refusal("made-up") == "invalid_code"
    assert exchange_code(sandbox, first)["ok"]
    assert refusal(first) == "invalid_code"
    sandbox.clock.advance(601)
    assert refusal(second) == "invalid_code"


def test_client_credentials_may_be_in_the_form(sandbox: Sandbox, app: App) -> None:
    """Client id and secret are taken from a form as well as from Basic authorization."""
    client = WebClient(base_url=sandbox.api_url)
    for secret, error in (("wrong", "bad_client_secret"), (app.client_secret, "invalid_code")):
        fields = {"client_id": app.client_id, "client_secret": secret, "code": "x"}
        with pytest.raises(SlackApiError) as refused:
            client.api_call("oauth.v2.access", data=fields)
        assert code(refused) == error


def test_an_app_can_be_uninstalled_and_installed_again(sandbox: Sandbox, app: App) -> None:
    """An app that removes itself loses its token and gets an event.

    A new consent gives a new token without the old scopes.
    """
    exchange_code(sandbox, consent(sandbox)["code"])
    old = app.bot_token
    client = WebClient(old, base_url=sandbox.api_url)
    with pytest.raises(SlackApiError) as refused:
        client.api_call(
            "apps.uninstall", data={"client_id": app.client_id, "client_secret": "wrong"}
        )
    assert code(refused) == "bad_client_secret"
    assert client.api_call(
        "apps.uninstall", data={"client_id": app.client_id, "client_secret": app.client_secret}
    )["ok"]
    assert [d.event["type"] for d in sandbox.deliveries] == ["tokens_revoked", "app_uninstalled"]
    with pytest.raises(SlackApiError) as refused:
        client.auth_test()
    assert code(refused) == "token_revoked"
    answer = exchange_code(sandbox, consent(sandbox, scope="team:read")["code"])
    assert answer["scope"] == "team:read"
    assert answer["access_token"] != old
    assert WebClient(answer["access_token"], base_url=sandbox.api_url).team_info()["ok"]


def test_a_refresh_token_works_once(sandbox: Sandbox, app: App) -> None:
    """Tokens of an app that rotates them expire after twelve hours.

    A refresh token gives the next, once.
    """
    app.manifest["settings"]["token_rotation_enabled"] = True
    client = WebClient(base_url=sandbox.api_url)
    ids = {"client_id": app.client_id, "client_secret": app.client_secret}
    first = client.oauth_v2_exchange(token=app.bot_token, **ids)
    assert (first["expires_in"], first["access_token"][:12]) == (43200, "xoxe.xoxb-1-")
    with pytest.raises(SlackApiError) as refused:
        client.oauth_v2_exchange(token=first["access_token"], **ids)
    assert code(refused) == "token_already_exchanged"
    again = {"grant_type": "refresh_token", "refresh_token": first["refresh_token"]}
    second = client.oauth_v2_access(**ids, **again)
    for token in (first["access_token"], second["access_token"]):
        assert client.auth_test(token=token)["ok"]
    with pytest.raises(SlackApiError) as refused:
        client.oauth_v2_access(**ids, **again)
    assert code(refused) == "invalid_refresh_token"
    sandbox.clock.advance(43201)
    for token in (first["access_token"], second["access_token"]):
        with pytest.raises(SlackApiError) as refused:
            client.auth_test(token=token)
        assert code(refused) == "token_expired"


@pytest.fixture
def app_server() -> Iterator[HttpApp]:
    """The server of the Bolt app."""
    with serve_http_app() as app:
        yield app


def test_a_bolt_app_installs_itself_by_oauth(
    sandbox: Sandbox, app: App, app_server: HttpApp, tmp_path: Any
) -> None:
    """A real Bolt app leads a person through both pages, and works with what it stored."""
    app.manifest["oauth_config"]["redirect_urls"] = [app_server.url]
    app_server.manifest(app.manifest)
    settings = OAuthSettings(
        client_id=app.client_id,
        client_secret=app.client_secret,
        scopes=["chat:write", "app_mentions:read", "channels:history"],
        redirect_uri=f"{app_server.url}/slack/oauth_redirect",
        authorization_url=f"{sandbox.url}/oauth/v2/authorize",
        installation_store=FileInstallationStore(base_dir=str(tmp_path)),
        state_store=FileOAuthStateStore(expiration_seconds=60, base_dir=str(tmp_path)),
        state_validation_enabled=True,
    )
    client = WebClient(base_url=sandbox.api_url)
    bolt = Bolt(client=client, signing_secret=app.signing_secret, oauth_settings=settings)
    bolt.event("app_mention")(lambda event, say: say(text="installed and awake"))
    flow = bolt.oauth_flow
    assert flow is not None

    started = flow.handle_installation(BoltRequest(body="", query="", headers={}))
    ours = next(a["href"] for tag, a in Parts(started.body).tags if tag == "a")
    cookie = started.headers["set-cookie"][0].split(";")[0]
    status, _, location = fetch(str(ours), {"as": "ana", "decision": "allow"})
    assert status == 302
    query = {name: values[0] for name, values in parse_qs(urlsplit(location).query).items()}
    done = flow.handle_callback(BoltRequest(body="", query=query, headers={"cookie": [cookie]}))
    assert done.status == 200

    app_server.answer = build_bolt_answer(bolt)
    ana = sandbox.person("ana")
    ana.say("support", "@bot hello")
    sandbox.wait(lambda: "installed and awake" in [m["text"] for m in ana.messages("support")])
