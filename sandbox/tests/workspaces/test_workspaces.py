"""Several workspaces in one sandbox: each has its own people, channels, installation and limits."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from urllib.error import HTTPError
from urllib.request import Request, urlopen

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
from slack_sandbox.workspace.seed import default_seeds

Clients = Callable[[App], WebClient]


def card(client: WebClient, channel: str) -> str:
    """A message of the app with a button; its ts."""
    answer = client.chat_postMessage(channel=channel, text="card", blocks=[buttons("go")])
    return str(answer["ts"])


def test_calls_go_to_the_workspace_of_their_token(
    sandbox: Sandbox, second: Admin, client_of: Clients
) -> None:
    """The app has another bot, token and people in each workspace, and cannot see the other."""
    here, there = sandbox.world.app, sandbox.install(sandbox.world.app, ["general"], SECOND)
    assert (here.id, here.client_id, here.signing_secret) == (
        there.id,
        there.client_id,
        there.signing_secret,
    )
    assert here.bot_token != there.bot_token
    assert here.bot_user != there.bot_user
    first, other = client_of(here), client_of(there)
    assert [first.auth_test()["team_id"], other.auth_test()["team_id"]] == ["T0SANDBOX", SECOND]
    assert other.team_info()["team"]["name"] == "Sandbox Tea"
    ids = [{m["id"] for m in client.users_list()["members"]} for client in (first, other)]
    assert ids[0].isdisjoint(ids[1])
    assert len(ids[1]) == 7  # six people, the bot
    first.chat_postMessage(channel="C0GENERAL", text="coffee")
    other.chat_postMessage(channel="C0GENERALB", text="tea")
    assert refused(first, "chat.postMessage", channel="C0GENERALB", text="x") == "channel_not_found"
    assert refused(first, "users.info", user="UANA00001B") == "user_not_found"
    assert [m["text"] for m in sandbox.person("ana").messages("general")] == ["coffee"]
    assert [m["text"] for m in second.person("ana").messages("general")] == ["tea"]


def test_ids_of_many_workspaces_are_as_slack_gives_them(manifest: Json) -> None:
    """Capitals and digits, also beyond the letters of the alphabet, and no two are the same."""
    with Sandbox(manifest, workspaces=60) as running:
        worlds = list(running.world.worlds.values())
        people = [person.id for each in worlds for person in each.by_id.values()]
        bots = [bot for each in worlds for app in each.apps.values() for bot in (app.bot_id,)]
        ids = [*(each.team for each in worlds), *people, *bots]
    assert len(worlds) == 60
    assert [each for each in ids if not re.fullmatch("[TUWB][A-Z0-9]+", each)] == []
    assert len(set(bots)) == 60


def test_one_socket_for_all_workspaces(sandbox: Sandbox, second: Admin, client_of: Clients) -> None:
    """Each payload names its workspace."""
    there = sandbox.install(sandbox.world.app, ["general"], SECOND)
    app, ana = HandApp(sandbox), second.person("ana")
    ana.say("general", "tea, please")
    event = app.take()["payload"]
    assert (event["team_id"], event["context_team_id"]) == (SECOND, SECOND)
    assert event["authorizations"] == [
        {
            "enterprise_id": None,
            "team_id": SECOND,
            "user_id": there.bot_user,
            "is_bot": True,
            "is_enterprise_install": False,
        }
    ]
    ts = card(client_of(there), "C0GENERALB")
    app.take()
    click = ana.click("general", ts, "go")
    payload = app.take()["payload"]
    assert (payload["team"]["id"], payload["user"]["team_id"]) == (SECOND, SECOND)
    assert payload["api_app_id"] == there.id
    assert click.wait() == "acked"
    opened = client_of(there).views_open(trigger_id=payload["trigger_id"], view=modal())
    assert opened["view"]["app_installed_team_id"] == SECOND
    assert sandbox.person("ana").view() is None
    assert ana.view() is not None
    ana.command("general", "/tea green")
    assert app.take()["payload"]["team_id"] == SECOND
    app.close()


def test_a_workspace_without_the_app_has_nothing_of_it(sandbox: Sandbox, second: Admin) -> None:
    """It has no bot, command or shortcut of the app, and sends it nothing."""
    ana = second.person("ana")
    ana.say("general", "hello @bot")
    assert ana.command("general", "/tea") == "/tea is not a valid command."
    assert sandbox.deliveries == []


def test_an_uninstall_ends_one_installation(
    sandbox: Sandbox, second: Admin, client_of: Clients
) -> None:
    """That token alone is revoked, and that installation gets the event."""
    there = sandbox.install(sandbox.world.app, ["general"], SECOND)
    second.uninstall(there)
    told = [(d.event["type"], d.payload["team_id"]) for d in sandbox.deliveries]
    assert told == [("tokens_revoked", SECOND), ("app_uninstalled", SECOND)]
    assert sandbox.deliveries[0].event["tokens"] == {"oauth": [], "bot": [there.bot_user]}
    assert refused(client_of(there), "auth.test") == "token_revoked"
    assert client_of(sandbox.world.app).auth_test()["ok"]
    ana = second.person("ana")
    ana.say("general", "is anybody there?")
    ana.open_home()
    ana.set_status(":tea:")
    assert len(sandbox.deliveries) == 2
    sandbox.person("ana").say("general", "and here?")
    assert len(events(sandbox, "message")) == 1


def test_ids_may_be_equal_in_all_workspaces(manifest: Json) -> None:
    """On demand, channels, people and messages have the same ids in each workspace."""
    with Sandbox(manifest, workspaces=2, same_ids=True) as sandbox:
        there = sandbox.workspace(SECOND)
        app = there.install(sandbox.world.app, ["general"])
        assert app.bot_user == sandbox.bot_user_id
        assert app.bot_token != sandbox.bot_token
        here, other = sandbox.person("ana"), there.person("ana")
        assert here.id == other.id
        sent = [each.say("C0GENERAL", "hello") for each in (here, other)]
        assert sent[0] == sent[1]
        assert len({d.payload["event_id"] for d in sandbox.deliveries}) == 2
        assert [d.payload["team_id"] for d in sandbox.deliveries] == ["T0SANDBOX", SECOND]
        other.edit("C0GENERAL", sent[1], "only here")
        assert [m["text"] for m in here.messages("general")] == ["hello"]
        socket = HandApp(sandbox)
        other.shortcut("form")
        while "trigger_id" not in (payload := socket.take()["payload"]):
            pass
        trigger = payload["trigger_id"]
        wrong, right = (
            WebClient(token, base_url=sandbox.api_url)
            for token in (sandbox.bot_token, app.bot_token)
        )
        view = json.dumps(modal())
        assert refused(wrong, "views.open", trigger_id=trigger, view=view) == "invalid_trigger_id"
        assert right.views_open(trigger_id=trigger, view=modal())["ok"]
        assert here.view() is None
        ts = other.share("general", "", {"a.txt": b"secret"})
        url = other.files_of("general", ts)[0]["url_private"]
        with urlopen(Request(url, headers={"Authorization": f"Bearer {app.bot_token}"})) as answer:
            assert answer.read() == b"secret"
        with pytest.raises(HTTPError):
            urlopen(Request(url, headers={"Authorization": f"Bearer {sandbox.bot_token}"}))
        socket.close()


def test_rate_limits_count_by_workspace(
    sandbox: Sandbox, second: Admin, client_of: Clients
) -> None:
    """Calls for one workspace do not count in another."""
    there = sandbox.install(sandbox.world.app, workspace=SECOND)
    sandbox.rates.enabled = True
    first, other = client_of(sandbox.world.app), client_of(there)
    for _ in range(20):
        first.users_list()
    assert refused(first, "users.list") == "ratelimited"
    assert other.users_list()["ok"]


def posted(sandbox: Sandbox, path: str, body: Json) -> Json:
    """The answer of the control interface."""
    request = Request(f"{sandbox.url}/sandbox/{path}", json.dumps(body).encode())
    with urlopen(request) as answer:
        found: Json = json.load(answer)
        return found


def test_the_control_interface_names_a_workspace(sandbox: Sandbox, second: Admin) -> None:
    """`team` in an address or a body says which workspace is meant; none means the first."""
    hello = {"as": "ana", "channel": "general", "text": "hello"}
    for path, body in ((f"say?team={SECOND}", hello), ("say", hello | {"team": SECOND})):
        assert posted(sandbox, path, body)["ok"]
    assert [m["text"] for m in second.person("ana").messages("general")] == ["hello"] * 2
    with urlopen(f"{sandbox.url}/sandbox/state?as=ana&team={SECOND}") as answer:
        state = json.load(answer)
    assert [each["id"] for each in state["workspaces"]] == ["T0SANDBOX", SECOND]
    assert (state["team"], state["apps"]) == (SECOND, [])
    with pytest.raises(HTTPError) as refused_there:
        urlopen(f"{sandbox.url}/sandbox/state?as=ana&team=T0NOWHERE")
    assert refused_there.value.code == 404


def test_an_admin_removes_the_app(sandbox: Sandbox, second: Admin, client_of: Clients) -> None:
    """An admin of a workspace removes an app there; a click on what it left is not sent."""
    there = second.install(sandbox.world.app, ["general"])
    ts = card(client_of(there), "C0GENERALB")
    path = f"uninstall?team={SECOND}"
    assert posted(sandbox, path, {"as": "ben"}) == {
        "ok": False,
        "message": "ben cannot remove countersign",
    }
    assert posted(sandbox, path, {"as": "ana"}) == {"ok": True}
    assert refused(client_of(there), "auth.test") == "token_revoked"
    app = HandApp(sandbox)
    assert second.person("ana").click("general", ts, "go").wait() == "no_socket"
    assert client_of(sandbox.world.app).auth_test()["ok"]
    app.close()


def test_workspaces_can_be_given_by_seeds(manifest: Json) -> None:
    """A seed for each workspace, with its team id, makes them; files are served for each."""
    mine, other = default_seeds(2)
    other.team, other.teams = "T0MILL", {"T0MILL": ("Paper Mill", "papermill")}
    for person in other.people:
        person.team_id = "T0MILL"
    with Sandbox(manifest, seed=[mine, other]) as sandbox:
        mill = sandbox.workspace("T0MILL")
        app = mill.install(sandbox.world.app, ["general"])
        ts = mill.person("ben").share("general", "look", {"a.txt": b"paper"})
        [file] = mill.person("ben").files_of("general", ts)
        assert "/files-pri/T0MILL-" in file["url_private"]
        headers = {"Authorization": f"Bearer {app.bot_token}"}
        with urlopen(Request(file["url_private"], headers=headers)) as answer:
            assert answer.read() == b"paper"
        headers = {"Authorization": f"Bearer {sandbox.bot_token}"}
        with pytest.raises(HTTPError) as refused_there:
            urlopen(Request(file["url_private"], headers=headers))
        assert refused_there.value.code == 403


def test_faults_can_be_limited_to_one_workspace(
    sandbox: Sandbox, second: Admin, client_of: Clients
) -> None:
    """They can be limited to a person there, too."""
    there = second.install(sandbox.world.app, ["general"])
    first, other = client_of(sandbox.world.app), client_of(there)
    with sandbox.faults.only(SECOND):
        sandbox.faults.fail("auth.test", "fatal_error")
        sandbox.faults.fail("users.info", "fatal_error", person="ana")
        sandbox.faults.lose_ack("slash_commands")
    assert first.auth_test()["ok"]
    assert refused(other, "auth.test") == "fatal_error"
    assert first.users_info(user="UANA00001")["ok"]
    assert other.users_info(user="UBEN00001B")["ok"]
    assert refused(other, "users.info", user="UANA00001B") == "fatal_error"
    app = HandApp(sandbox)
    for people, outcome in ((sandbox, "acked"), (second, "timeout")):
        sent = people.person("ben").command("general", "/tea")
        app.take()
        assert not isinstance(sent, str)
        assert sent.wait() == outcome
    assert sandbox.faults.waiting == []
    app.close()
