"""OAuth into several workspaces: the consent page, tokens, and a Bolt app that is in two."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from slack_bolt import App as Bolt
from slack_bolt import BoltRequest
from slack_bolt.oauth.oauth_settings import OAuthSettings
from slack_sdk import WebClient
from slack_sdk.oauth.installation_store import FileInstallationStore
from slack_sdk.oauth.state_store import FileOAuthStateStore

from sandbox.tests.http_app import HttpApp, build_bolt_answer, serve_http_app
from sandbox.tests.oauth.browser import Parts, address, consent, exchange_code, fetch
from sandbox.tests.refusals import refused
from sandbox.tests.workspaces.conftest import SECOND
from slack_sandbox.client.admin import Admin
from slack_sandbox.server import Sandbox
from slack_sandbox.workspace.apps import App

Clients = Callable[[App], WebClient]


def options(page: str) -> set[str | None]:
    """The options of the page."""
    return {attrs["value"] for tag, attrs in Parts(page).tags if tag == "option"}


def test_the_page_offers_each_workspace(sandbox: Sandbox) -> None:
    """The page offers the people of every workspace, or of the one that the address names."""
    page = fetch(address(sandbox))[1]
    assert {"T0SANDBOX/ana", f"{SECOND}/ana"} < options(page)
    assert {f"{SECOND}/{name}" for name in ("ana", "ben", "cleo", "dan")} == options(
        fetch(address(sandbox, team=SECOND))[1]
    )
    assert fetch(address(sandbox, team="T0NOWHERE"))[0] == 400
    form = {"as": "T0SANDBOX/ana", "decision": "allow"}
    assert fetch(address(sandbox, team=SECOND), form)[0] == 400


def test_a_code_installs_in_its_workspace(
    sandbox: Sandbox, second: Admin, client_of: Clients
) -> None:
    """It is that of the person who consented; later codes add scopes."""
    answer = exchange_code(sandbox, consent(sandbox, f"{SECOND}/ben")["code"])
    there = second.world.app
    assert answer["team"] == {"id": SECOND, "name": "Sandbox Tea"}
    assert (answer["access_token"], answer["bot_user_id"]) == (there.bot_token, there.bot_user)
    assert answer["authed_user"] == {"id": "UBEN00001B"}
    client = client_of(there)
    assert refused(client, "usergroups.list") == "missing_scope"
    again = exchange_code(
        sandbox, consent(sandbox, f"{SECOND}/ana", scope="usergroups:read")["code"]
    )
    assert again["access_token"] == answer["access_token"]
    assert client.usergroups_list()["ok"]
    assert sandbox.world.app.granted is None


def test_each_installation_refreshes_its_own_tokens(sandbox: Sandbox, second: Admin) -> None:
    """A refresh token works once; the other workspace's tokens stay."""
    sandbox.world.app.manifest.setdefault("settings", {})["token_rotation_enabled"] = True
    app, client = sandbox.world.app, WebClient(base_url=sandbox.api_url)
    ids = {"client_id": app.client_id, "client_secret": app.client_secret}
    here = client.oauth_v2_exchange(token=app.bot_token, **ids)
    there = exchange_code(sandbox, consent(sandbox, f"{SECOND}/ana")["code"])
    again = {"grant_type": "refresh_token", "refresh_token": there["refresh_token"], **ids}
    fresh = client.oauth_v2_access(**again)
    assert fresh["team"]["id"] == SECOND
    assert refused(client, "oauth.v2.access", **again) == "invalid_refresh_token"
    assert client.auth_test(token=fresh["access_token"])["team_id"] == SECOND
    assert client.auth_test(token=here["access_token"])["team_id"] == "T0SANDBOX"
    second.uninstall()
    again["refresh_token"] = fresh["refresh_token"]
    assert refused(client, "oauth.v2.access", **again) == "invalid_refresh_token"
    again["refresh_token"] = here["refresh_token"]
    assert client.oauth_v2_access(**again)["team"]["id"] == "T0SANDBOX"


def test_revoking_ends_one_installation(
    sandbox: Sandbox, second: Admin, client_of: Clients
) -> None:
    """auth.revoke and apps.uninstall end the installation of their token and no other."""
    there = sandbox.install(sandbox.world.app, workspace=SECOND)
    client_of(there).auth_revoke()
    assert [d.payload["team_id"] for d in sandbox.deliveries] == [SECOND]
    assert refused(client_of(there), "auth.test") == "token_revoked"
    app = sandbox.world.app
    ids = {"client_id": app.client_id, "client_secret": app.client_secret}
    there = second.install(app)
    client_of(there).api_call("apps.uninstall", data=ids)
    assert client_of(app).auth_test()["ok"]


@pytest.fixture
def app_server() -> Iterator[HttpApp]:
    """The server of the Bolt app."""
    with serve_http_app() as app:
        yield app


def test_a_bolt_app_works_in_two_workspaces(
    sandbox: Sandbox, app_server: HttpApp, tmp_path: Any
) -> None:
    """A real Bolt app is installed in both by OAuth, and answers each with its own token."""
    app = sandbox.world.app
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
    )
    client = WebClient(base_url=sandbox.api_url)
    bolt = Bolt(client=client, signing_secret=app.signing_secret, oauth_settings=settings)
    bolt.enable_token_revocation_listeners()
    bolt.event("app_mention")(lambda context, say: say(text=f"here I am in {context.team_id}"))
    flow = bolt.oauth_flow
    assert flow is not None
    for team in ("T0SANDBOX", SECOND):
        started = flow.handle_installation(BoltRequest(body="", query="", headers={}))
        ours = next(a["href"] for tag, a in Parts(started.body).tags if tag == "a")
        cookie = started.headers["set-cookie"][0].split(";")[0]
        location = fetch(str(ours), {"as": f"{team}/ana", "decision": "allow"})[2]
        query = {name: values[0] for name, values in parse_qs(urlsplit(location).query).items()}
        done = flow.handle_callback(BoltRequest(body="", query=query, headers={"cookie": [cookie]}))
        assert done.status == 200
    app_server.answer = build_bolt_answer(bolt)
    second = sandbox.workspace(SECOND)
    second.invite_bot("general")
    for people, team in ((sandbox, "T0SANDBOX"), (second, SECOND)):
        ana = people.person("ana")
        ana.say("general", "@bot hello")
        said = f"here I am in {team}"
        sandbox.wait(
            lambda ana=ana, said=said: said in [m["text"] for m in ana.messages("general")]
        )
