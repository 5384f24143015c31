"""Several apps in one local Slack: each gets its own payloads, over its own sockets."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator

import pytest
from slack_sdk import WebClient
from slack_sdk.errors import SlackApiError

from sandbox.tests.builders import Json, buttons, modal
from sandbox.tests.refusals import code
from sandbox.tests.socket_app import HandApp
from slack_sandbox.server import Sandbox
from slack_sandbox.workspace.apps import App


@pytest.fixture
def other(sandbox: Sandbox, manifest: Json) -> App:
    """A second app, in #support and #random."""
    theirs = copy.deepcopy(manifest)
    theirs["features"]["bot_user"]["display_name"] = "Weather"
    return sandbox.install(theirs, ["support", "random"])


@pytest.fixture
def their_client(sandbox: Sandbox, other: App) -> WebClient:
    """The second app's client."""
    return WebClient(token=other.bot_token, base_url=sandbox.api_url, retry_handlers=[])


@pytest.fixture
def theirs(sandbox: Sandbox, other: App) -> Iterator[HandApp]:
    """The second app's socket."""
    connected = HandApp(sandbox, other)
    yield connected
    connected.close()


def events_of(sandbox: Sandbox, app: App) -> list[tuple[str, str]]:
    """Type and channel of every event that went to the app."""
    return [
        (d.event["type"], d.event.get("channel", "")) for d in sandbox.deliveries if d.app is app
    ]


def test_each_token_belongs_to_its_own_app(
    sandbox: Sandbox, client: WebClient, their_client: WebClient, other: App
) -> None:
    """Each token is answered for its own app, and each bot is found by the other."""
    first, second = client.auth_test(), their_client.auth_test()
    assert (first["user_id"], second["user_id"]) == (sandbox.bot_user_id, other.bot_user)
    assert first["bot_id"] != second["bot_id"]
    assert second["user"] == "weather"
    found = client.users_info(user=other.bot_user)["user"]
    assert found["is_bot"]
    assert found["profile"]["api_app_id"] == other.id
    assert client.bots_info(bot=other.bot_id)["bot"]["app_id"] == other.id
    assert {sandbox.bot_user_id, other.bot_user} <= {
        m["id"] for m in client.users_list()["members"]
    }


def test_events_go_where_the_bot_is(sandbox: Sandbox, other: App) -> None:
    """A message reaches the apps in its channel; a mention only the one that is named."""
    ana, first = sandbox.person("ana"), sandbox.world.app
    ana.say("general", "for one")
    ana.say("random", "for the other")
    ana.say("support", "@weather for both")
    assert events_of(sandbox, first) == [("message", "C0GENERAL"), ("message", "C0SUPPORT")]
    theirs = [("message", "C0RANDOM"), ("app_mention", "C0SUPPORT"), ("message", "C0SUPPORT")]
    assert events_of(sandbox, other) == theirs
    assert {d.payload["api_app_id"] for d in sandbox.deliveries if d.app is other} == {other.id}
    assert len({d.payload["event_id"] for d in sandbox.deliveries}) == len(sandbox.deliveries)


def test_each_app_gets_only_events_it_subscribed_to(sandbox: Sandbox, other: App) -> None:
    """An app without the subscription or the scope gets no event, whatever the other may have."""
    other.manifest["settings"]["event_subscriptions"]["bot_events"].remove("user_change")
    sandbox.deactivate("dan")
    assert [d.app for d in sandbox.deliveries] == [sandbox.world.app]
    other.manifest["oauth_config"]["scopes"]["bot"].remove("channels:history")
    sandbox.person("ana").say("random", "hello")
    assert events_of(sandbox, other) == []


def test_only_apps_in_the_channel_get_join_events(sandbox: Sandbox, other: App) -> None:
    """Apps outside the channel get none."""
    sandbox.join("gus", "random")
    joined = [d.app for d in sandbox.deliveries if d.event["type"] == "member_joined_channel"]
    assert joined == [other]


def test_a_bots_message_shows_its_ids_to_others(
    sandbox: Sandbox, client: WebClient, their_client: WebClient, other: App
) -> None:
    """A bot's message shows its ids to the others, who can answer but not change it."""
    ts = client.chat_postMessage(channel="C0SUPPORT", text=f"<@{other.bot_user}> rain?")["ts"]
    seen = next(
        d.event for d in sandbox.deliveries if d.app is other and d.event["type"] == "app_mention"
    )
    assert (seen["user"], seen["app_id"]) == (sandbox.bot_user_id, sandbox.world.app.id)
    with pytest.raises(SlackApiError) as refused:
        their_client.chat_update(channel="C0SUPPORT", ts=ts, text="mine now")
    assert code(refused) == "cant_update_message"
    their_client.chat_postMessage(channel="C0SUPPORT", text="no rain", thread_ts=ts)
    found = client.conversations_replies(channel="C0SUPPORT", ts=ts)["messages"]
    assert [m["bot_id"] for m in found] == [sandbox.world.app.bot_id, other.bot_id]


def test_each_app_has_its_own_dm_with_a_person(
    sandbox: Sandbox, client: WebClient, their_client: WebClient, other: App
) -> None:
    """Each app has a DM of its own with a person, in which the other is not."""
    ana = sandbox.person("ana")
    mine = client.conversations_open(users=ana.id)["channel"]["id"]
    its = their_client.conversations_open(users=ana.id)["channel"]["id"]
    assert mine == ana.dm_channel
    assert mine != its
    their_client.chat_postMessage(channel=ana.id, text="sunny")
    assert [m["text"] for m in ana.messages(its)] == ["sunny"]
    assert ana.messages(mine) == []
    with pytest.raises(SlackApiError) as refused:
        client.conversations_history(channel=its)
    assert code(refused) == "channel_not_found"
    ana.say(its, "thanks")
    assert events_of(sandbox, sandbox.world.app) == []


def test_clicks_go_to_the_owner(
    sandbox: Sandbox,
    their_client: WebClient,
    client: WebClient,
    theirs: HandApp,
    app: HandApp,
    other: App,
) -> None:
    """A click, its trigger and its modal belong to the app that posted the message."""
    ts = str(
        their_client.chat_postMessage(channel="C0RANDOM", text="x", blocks=[buttons("go")])["ts"]
    )
    theirs.take()
    sandbox.person("ana").click("random", ts, "go")
    payload = theirs.take()["payload"]
    assert payload["api_app_id"] == other.id == theirs.hello["connection_info"]["app_id"]
    with pytest.raises(SlackApiError) as refused:
        client.views_open(trigger_id=payload["trigger_id"], view=modal())
    assert code(refused) == "invalid_trigger_id"
    view = their_client.views_open(
        trigger_id=payload["trigger_id"], view=modal(notify_on_close=True)
    )["view"]
    assert (view["app_id"], view["bot_id"]) == (other.id, other.bot_id)
    with pytest.raises(SlackApiError) as refused:
        client.views_update(view_id=view["id"], view=modal())
    assert code(refused) == "not_found"
    sandbox.person("ana").close_view()
    assert theirs.take()["payload"]["type"] == "view_closed"
    assert [d.app for d in sandbox.deliveries if d.kind == "interactive"] == [other, other]


def test_each_app_has_its_own_sockets(sandbox: Sandbox, app: HandApp, other: App) -> None:
    """Payloads for an app without a socket wait, though the other app has open sockets."""
    sandbox.person("ana").say("random", "anybody?")
    [sent] = sandbox.deliveries
    assert (sent.app, sent.attempts) == (other, 0)
    connected = HandApp(sandbox, other)
    assert connected.take()["payload"]["event"]["text"] == "anybody?"
    assert (sent.wait(), sandbox.connections) == ("acked", 2)
    connected.close()


@pytest.mark.parametrize(
    ("remove", "error"),
    [
        (lambda sandbox, app: sandbox.uninstall(app), "token_revoked"),
        (
            lambda sandbox, app: app.manifest["oauth_config"]["scopes"]["bot"].remove("users:read"),
            "missing_scope",
        ),
    ],
)
def test_removing_one_app_leaves_the_other(
    sandbox: Sandbox,
    client: WebClient,
    their_client: WebClient,
    other: App,
    remove: Callable[[Sandbox, App], None],
    error: str,
) -> None:
    """An app that is removed, or lacks a scope, is refused alone."""
    remove(sandbox, other)
    with pytest.raises(SlackApiError) as refused:
        their_client.users_info(user="UANA00001")
    assert code(refused) == error
    assert client.users_info(user="UANA00001")["ok"]
    assert {call.app_id for call in sandbox.requests} == {other.id, sandbox.world.app.id}


def test_a_bot_invited_later_gets_the_missed_mention(sandbox: Sandbox, other: App) -> None:
    """Each invited bot gets the mention of itself that it missed."""
    ana = sandbox.person("ana")
    ana.say("general", "@weather are you there?")
    assert events_of(sandbox, other) == []
    sandbox.invite_bot("general", other)
    assert ("app_mention", "C0GENERAL") in events_of(sandbox, other)
    assert ("app_mention", "C0GENERAL") not in events_of(sandbox, sandbox.world.app)
