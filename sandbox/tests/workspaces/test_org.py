"""An org: one app installed in all of it, the workspaces it may work in, people with one id."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from slack_sdk import WebClient

from sandbox.tests.builders import Json, buttons
from sandbox.tests.oauth.browser import Parts, address, consent, exchange_code, fetch
from sandbox.tests.refusals import refused
from sandbox.tests.socket_app import HandApp
from sandbox.tests.workspaces.conftest import SECOND
from slack_sandbox.client.admin import Admin
from slack_sandbox.server import Sandbox
from slack_sandbox.workspace.apps import App

Clients = Callable[[App], WebClient]
FIRST, ORG = "T0SANDBOX", "E0SANDBOX"
THIRD = "T0SANDBOXC"  # in no org


@pytest.fixture
def sandbox(manifest: Json) -> Iterator[Sandbox]:
    """Three workspaces, two of them in an org."""
    with Sandbox(manifest, workspaces=3, org=2) as running:
        yield running


def org_wide(sandbox: Sandbox, *added: str) -> Json:
    """Install the app in the org by its consent page, and add it to these workspaces."""
    scope = ",".join(sorted(sandbox.world.app.scopes))
    form = [("as", f"{FIRST}/ana"), ("decision", "allow"), ("for", ORG)]
    form += [("add", team) for team in added]
    location = fetch(address(sandbox, scope=scope), form)[2]
    given = location.partition("code=")[2].partition("&")[0]
    return exchange_code(sandbox, given)


def test_installing_in_an_org_gives_one_token(sandbox: Sandbox, client_of: Clients) -> None:
    """The answer names the org and no workspace; there is one token and one bot for all of it."""
    page = Parts(fetch(address(sandbox))[1])
    assert "in all of Sandbox Org" in page.words
    assert [a["value"] for tag, a in page.tags if a.get("name") == "add"] == [FIRST, SECOND]
    answer = org_wide(sandbox)
    assert (answer["team"], answer["is_enterprise_install"]) == (None, True)
    assert answer["enterprise"] == {"id": ORG, "name": "Sandbox Org"}
    client = WebClient(answer["access_token"], base_url=sandbox.api_url, retry_handlers=[])
    who = client.auth_test()
    assert (who["enterprise_id"], who["is_enterprise_install"]) == (ORG, True)
    first = {"id": FIRST, "name": "Sandbox Coffee"}  # it had the app before
    assert client.auth_teams_list()["teams"] == [first]
    assert refused(client, "users.list", team_id=SECOND) == "team_access_not_granted"
    sandbox.workspace(SECOND).grant_access()
    [told] = sandbox.deliveries
    assert (told.event["type"], told.event["team_ids"]) == ("team_access_granted", [SECOND])
    assert client.auth_teams_list()["teams"] == [first, {"id": SECOND, "name": "Sandbox Tea"}]


def test_only_an_admin_installs_in_the_org(sandbox: Sandbox) -> None:
    """A member cannot; the third workspace is in no org."""
    for who, org in (("ben", ORG), ("ana", "E0NOWHERE")):
        form = {"as": f"{FIRST}/{who}", "decision": "allow", "for": org}
        assert fetch(address(sandbox), form)[0] == 400
    form = {"as": f"{THIRD}/ana", "decision": "allow", "for": ORG}
    assert fetch(address(sandbox), form)[0] == 400


def test_calls_of_an_org_token_name_their_workspace(sandbox: Sandbox) -> None:
    """Lists take team_id, of a workspace that the app was added to; others find their own."""
    answer = org_wide(sandbox, FIRST, SECOND)
    client = WebClient(answer["access_token"], base_url=sandbox.api_url, retry_handlers=[])
    assert refused(client, "users.list") == "missing_argument"
    assert refused(client, "conversations.list", team_id=THIRD) == "team_access_not_granted"
    ids = [
        {m["id"] for m in client.users_list(team_id=team)["members"]} for team in (FIRST, SECOND)
    ]
    assert {"UANA00001", "UCLEO0001", answer["bot_user_id"]} == ids[0] & ids[1]
    assert {"UBEN00001"} <= ids[0] - ids[1]
    client.conversations_join(channel="C0GENERALB")
    client.chat_postMessage(channel="C0GENERALB", text="tea")
    ana = sandbox.workspace(SECOND).person("ana")
    assert [m["text"] for m in ana.messages("general")][-1] == "tea"
    user = client.users_info(user="UANA00001")["user"]["enterprise_user"]
    assert (user["enterprise_id"], user["teams"]) == (ORG, [FIRST, SECOND])
    view = {"type": "home", "blocks": [buttons("go")]}
    client.views_publish(user_id="UANA00001", view=view)
    assert (ana.home() or {})["blocks"] == (sandbox.person("ana").home() or {})["blocks"]
    sandbox.workspace(SECOND).revoke_access()
    last = sandbox.deliveries[-1]
    assert (last.event["type"], last.event["team_ids"]) == ("team_access_revoked", [SECOND])
    assert refused(client, "users.list", team_id=SECOND) == "team_access_not_granted"


def test_payloads_in_an_org_name_workspace_and_org(sandbox: Sandbox) -> None:
    """A click names the clicker's workspace and the org, but no team; commands and events do."""
    answer = org_wide(sandbox, FIRST, SECOND)
    client = WebClient(answer["access_token"], base_url=sandbox.api_url, retry_handlers=[])
    client.conversations_join(channel="C0GENERALB")
    ts = client.chat_postMessage(channel="C0GENERALB", text="?", blocks=[buttons("go")])["ts"]
    app, ana = HandApp(sandbox), sandbox.workspace(SECOND).person("ana")

    def next_of(*kinds: str) -> Json:
        while True:
            payload: Json = app.take()["payload"]
            if payload.get("event", payload).get("type", payload.get("command")) in kinds:
                return payload

    ana.click("general", ts, "go")
    click = next_of("block_actions")
    assert (click["team"], click["user"]["team_id"]) == (None, SECOND)
    assert click["enterprise"] == {"id": ORG, "name": "Sandbox Org"}
    assert click["is_enterprise_install"] is True
    ana.command("general", "/tea")
    command = next_of("/tea")
    assert (command["team_id"], command["enterprise_id"]) == (SECOND, ORG)
    assert command["is_enterprise_install"] == "true"
    ana.say("general", "hello")
    event = next_of("message")
    [granted] = event["authorizations"]
    assert (event["enterprise_id"], event["context_enterprise_id"]) == (ORG, ORG)
    assert (granted["enterprise_id"], granted["team_id"]) == (ORG, SECOND)
    assert granted["is_enterprise_install"] is True
    app.close()


def test_a_channel_within_an_org_is_not_external(sandbox: Sandbox, second: Admin) -> None:
    """Two workspaces of the org share it, and its event is sent once."""
    answer = org_wide(sandbox, FIRST, SECOND)
    client = WebClient(answer["access_token"], base_url=sandbox.api_url, retry_handlers=[])
    sandbox.share("general", SECOND)
    second.join("ben", "C0GENERAL")
    info = client.conversations_info(channel="C0GENERAL")["channel"]
    assert (info["is_ext_shared"], info["is_org_shared"]) == (False, True)
    assert info["shared_team_ids"] == [FIRST, SECOND]
    since = len(sandbox.deliveries)
    second.person("ben").say("C0GENERAL", "hello")
    [told] = sandbox.deliveries[since:]
    assert (told.payload["is_ext_shared_channel"], told.event["user"]) == (False, "UBEN00001B")
    assert told.payload["team_id"] == SECOND


def test_an_app_may_be_in_one_workspace_of_an_org(sandbox: Sandbox, client_of: Clients) -> None:
    """Its events name the workspace and the org."""
    answer = exchange_code(sandbox, consent(sandbox, f"{SECOND}/ana")["code"])
    assert answer["team"]["id"] == SECOND
    assert answer["enterprise"] == {"id": ORG, "name": "Sandbox Org"}
    assert answer["is_enterprise_install"] is False
    org_wide(sandbox, SECOND)
    code = consent(sandbox, f"{SECOND}/ana")["code"]
    app = sandbox.world.app
    ids = {"client_id": app.client_id, "client_secret": app.client_secret, "code": code}
    client = WebClient(base_url=sandbox.api_url)
    assert refused(client, "oauth.v2.access", **ids) == "cannot_install_an_org_installed_app"
    sandbox.uninstall()
    assert [d.event["type"] for d in sandbox.deliveries][-2:] == [
        "tokens_revoked",
        "app_uninstalled",
    ]
    assert not sandbox.workspace(SECOND).world.app.installed
