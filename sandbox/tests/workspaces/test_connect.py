"""Slack Connect: one channel that two workspaces of the sandbox share."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from slack_sdk import WebClient

from sandbox.tests.builders import Json, buttons, modal
from sandbox.tests.harness import events
from sandbox.tests.refusals import refused
from sandbox.tests.socket_app import HandApp
from sandbox.tests.workspaces.conftest import SECOND
from slack_sandbox.client.admin import Admin
from slack_sandbox.server import Sandbox
from slack_sandbox.workspace.apps import App

Clients = Callable[[App], WebClient]
FIRST = "T0SANDBOX"


@pytest.fixture
def second_installation(sandbox: Sandbox, second: Admin) -> App:
    """The app in the second workspace, which shares #random with the first; both bots are in it."""
    app = second.install(sandbox.world.app)
    sandbox.invite_bot("random")
    sandbox.share("random", SECOND)
    second.join("ana", "C0RANDOM")
    second.invite_bot("C0RANDOM")
    return app


def list_payloads(sandbox: Sandbox, kind: str, since: int) -> list[Json]:
    """The payloads of events of that type after the first `since` deliveries."""
    return [d.payload for d in sandbox.deliveries[since:] if d.event.get("type") == kind]


def test_both_installations_get_each_event(
    sandbox: Sandbox, second: Admin, second_installation: App
) -> None:
    """Each event names its own workspace, whoever writes."""
    shared = {d.payload["context_team_id"]: d.event for d in sandbox.deliveries}
    assert events(sandbox, "channel_shared")[0]["connected_team_id"] == SECOND
    assert set(shared) == {FIRST, SECOND}
    for who in (sandbox.person("ana"), second.person("ana")):
        since = len(sandbox.deliveries)
        who.say("C0RANDOM", "hello")
        told = list_payloads(sandbox, "message", since)
        assert {p["context_team_id"]: p["authorizations"][0]["user_id"] for p in told} == {
            FIRST: sandbox.bot_user_id,
            SECOND: second_installation.bot_user,
        }
        assert len(told) == 2
        assert {p["event"]["user_team"] for p in told} == {who.person.team_id}
        assert all(p["is_ext_shared_channel"] for p in told)
    for each in (sandbox, second):
        assert [m["text"] for m in each.person("ana").messages("C0RANDOM")][-2:] == ["hello"] * 2


def test_a_mention_goes_to_one_installation(
    sandbox: Sandbox, second: Admin, second_installation: App
) -> None:
    """A mention of one bot is an app_mention for its installation alone."""
    since = len(sandbox.deliveries)
    second.person("ana").say("C0RANDOM", f"<@{sandbox.bot_user_id}> coffee?")
    [mention] = list_payloads(sandbox, "app_mention", since)
    assert mention["context_team_id"] == FIRST


def test_one_event_may_name_all_installations(
    sandbox: Sandbox, second: Admin, second_installation: App
) -> None:
    """On demand, as Slack has it: one event, which names the installation that joined last."""
    sandbox.world.shared.one_event = True
    since = len(sandbox.deliveries)
    sandbox.person("ana").say("C0RANDOM", "@bot hello")
    for kind in ("message", "app_mention"):
        [told] = list_payloads(sandbox, kind, since)
        assert told["authorizations"][0]["team_id"] == SECOND


def test_a_click_names_the_clickers_workspace(
    sandbox: Sandbox, second: Admin, second_installation: App, client_of: Clients
) -> None:
    """A click names the clicker's workspace; the modal opens there, by either token."""
    app, client = HandApp(sandbox), client_of(sandbox.world.app)
    ts = client.chat_postMessage(channel="C0RANDOM", text="?", blocks=[buttons("go")])["ts"]
    ana = second.person("ana")
    ana.click("C0RANDOM", ts, "go")
    while (payload := app.take()["payload"])["type"] != "block_actions":
        pass
    assert (payload["user"]["team_id"], payload["team"]["id"]) == (SECOND, SECOND)
    assert payload["message"]["team"] == FIRST
    opened = client.views_open(trigger_id=payload["trigger_id"], view=modal())["view"]
    assert (opened["team_id"], opened["app_installed_team_id"]) == (SECOND, FIRST)
    assert sandbox.person("ana").view() is None
    changed = modal() | {"callback_id": "other"}
    client.views_update(view_id=opened["id"], view=changed)
    assert (ana.view() or {})["callback_id"] == "other"
    other = client_of(second_installation)
    assert refused(other, "views.update", view_id=opened["id"], view=changed) == "not_found"
    assert refused(other, "chat.update", channel="C0RANDOM", ts=ts, text="x") == (
        "cant_update_message"
    )
    app.close()


def test_only_the_channel_itself_is_shared(
    sandbox: Sandbox, second: Admin, second_installation: App, client_of: Clients
) -> None:
    """Each app sees who is in the channel, no other channel and nobody else."""
    other = client_of(second_installation)
    info = other.conversations_info(channel="C0RANDOM")["channel"]
    assert (info["is_ext_shared"], info["connected_team_ids"]) == (True, [FIRST])
    assert info["conversation_host_id"] == FIRST
    ana = other.users_info(user="UANA00001")["user"]
    assert (ana["team_id"], ana["is_admin"], "email" in ana["profile"]) == (FIRST, False, False)
    assert refused(other, "users.info", user="UGUS00001") == "user_not_visible"
    assert refused(other, "conversations.info", channel="C0SUPPORT") == "channel_not_found"
    assert "UANA00001" not in [m["id"] for m in other.users_list()["members"]]
    assert other.team_info(team=FIRST)["team"]["name"] == "Sandbox Coffee"
    with pytest.raises(ValueError, match="no channel"):
        second.person("ana").say("C0FINANCE", "x")


def test_an_uninstall_leaves_the_other_installation(
    sandbox: Sandbox, second: Admin, second_installation: App
) -> None:
    """It still gets events of the channel."""
    second.uninstall(second_installation)
    since = len(sandbox.deliveries)
    second.person("ana").say("C0RANDOM", "hello")
    assert [p["context_team_id"] for p in list_payloads(sandbox, "message", since)] == [FIRST]
