"""The events that the app gets, and how typed text reaches it."""

from __future__ import annotations

import pytest
from slack_sdk import WebClient

from sandbox.tests.builders import Json
from slack_sandbox.server import Sandbox


def sent(sandbox: Sandbox) -> list[tuple[str, str | None]]:
    """Type and subtype of every event so far."""
    return [(d.event["type"], d.event.get("subtype")) for d in sandbox.deliveries]


def test_a_mention_comes_as_two_events(sandbox: Sandbox) -> None:
    """A mention in a channel is an app_mention and a message, with one ts and two event ids."""
    ts = sandbox.person("ben").say("support", "@bot refund 1042")
    assert sent(sandbox) == [("app_mention", None), ("message", None)]
    mention, message = (d for d in sandbox.deliveries)
    assert mention.event["ts"] == message.event["ts"] == ts
    assert mention.payload["event_id"] != message.payload["event_id"]
    assert mention.event["text"] == "<@UBOT00001> refund 1042"
    assert "channel_type" not in mention.event


def test_an_edited_mention_comes_again(sandbox: Sandbox) -> None:
    """An edit that leaves or adds a mention sends app_mention with `edited` and the old ts."""
    ts = sandbox.person("ben").say("support", "refund 1042")
    sandbox.person("ben").edit("support", ts, "@bot refund 1042")
    assert sent(sandbox)[1:] == [("app_mention", None), ("message", "message_changed")]
    mention = sandbox.deliveries[1].event
    assert (mention["ts"], mention["edited"]["user"]) == (ts, "UBEN00001")
    sandbox.person("ben").edit("support", ts, "refund 1043")
    assert sent(sandbox)[3:] == [("message", "message_changed")]


def test_a_mention_in_a_dm_is_one_event(sandbox: Sandbox) -> None:
    """A mention in a DM is a message.im and nothing else."""
    sandbox.person("ben").dm("@bot hello")
    assert sent(sandbox) == [("message", None)]
    assert sandbox.deliveries[0].event["channel_type"] == "im"


def test_only_subscribed_events_are_sent(sandbox: Sandbox, manifest: Json) -> None:
    """Events that the manifest does not list, or lacks the scope for, are not sent."""
    manifest["settings"]["event_subscriptions"]["bot_events"].remove("message.channels")
    sandbox.person("ben").say("support", "@bot hello")
    assert sent(sandbox) == [("app_mention", None)]
    manifest["oauth_config"]["scopes"]["bot"].remove("app_mentions:read")
    sandbox.person("ben").say("support", "@bot hello")
    assert len(sandbox.deliveries) == 1


def test_channels_without_the_bot_send_no_events(sandbox: Sandbox) -> None:
    """A mention made there is sent when the bot is invited."""
    sandbox.person("ben").say("random", "@bot hello")
    assert sent(sandbox) == []
    sandbox.invite_bot("random")
    assert ("app_mention", None) in sent(sandbox)
    assert (
        next(d for d in sandbox.deliveries if d.event["type"] == "app_mention").event["text"]
        == "<@UBOT00001> hello"
    )


def test_a_bot_gets_events_of_its_own_messages(sandbox: Sandbox, client: WebClient) -> None:
    """The bot's own posts, changes and deletions come back as events, ephemeral ones never."""
    ts = str(client.chat_postMessage(channel="C0SUPPORT", text="<@UBOT00001> x")["ts"])
    client.chat_update(channel="C0SUPPORT", ts=ts, text="y")
    client.chat_delete(channel="C0SUPPORT", ts=ts)
    client.chat_postEphemeral(channel="C0SUPPORT", user="UANA00001", text="x")
    assert sent(sandbox) == [
        ("message", None),
        ("message", "message_changed"),
        ("message", "message_deleted"),
    ]
    echo, changed, deleted = (d.event for d in sandbox.deliveries)
    assert (echo["bot_id"], echo["user"]) == ("BBOT00001", "UBOT00001")
    assert (changed["previous_message"]["text"], changed["message"]["text"]) == (
        "<@UBOT00001> x",
        "y",
    )
    assert deleted["deleted_ts"] == ts


@pytest.mark.parametrize(
    ("typed", "stored"),
    [
        ("5 < 6 & 7", "5 &lt; 6 &amp; 7"),
        (
            "ask @ana and @shop-leads in #general",
            "ask <@UANA00001> and <!subteam^S0LEADS> in <#C0GENERAL|general>",
        ),
        ("mail x.y@example.org now", "mail <mailto:x.y@example.org|x.y@example.org> now"),
        ("see https://example.org/a?b=1&c=2.", "see <https://example.org/a?b=1&amp;c=2>."),
        ("<@UANA00001> @nobody-here", "<@UANA00001> @nobody-here"),
    ],
)
def test_typed_text_is_escaped_and_linked(sandbox: Sandbox, typed: str, stored: str) -> None:
    """The result is as in Slack."""
    sandbox.person("ben").say("support", typed)
    event = sandbox.deliveries[0].event
    assert event["text"] == stored
    assert event["blocks"][0]["type"] == "rich_text"


def test_joins_leaves_groups_and_accounts_have_their_events(sandbox: Sandbox) -> None:
    """So do changes of channels."""
    sandbox.join("dan", "partners")
    sandbox.leave("dan", "support")
    sandbox.set_group("shop-leads", ["ana", "dan"])
    sandbox.deactivate("ana")
    sandbox.archive("general")
    sandbox.kick_bot("support")
    names = [name for name, subtype in sent(sandbox) if not subtype]
    assert names == [
        "member_joined_channel",
        "member_left_channel",
        "subteam_members_changed",
        "subteam_updated",
        "user_change",
        "channel_archive",
        "member_left_channel",
        "channel_left",
    ]
    changed = next(
        d.event for d in sandbox.deliveries if d.event["type"] == "subteam_members_changed"
    )
    assert (changed["added_users"], changed["removed_users"]) == (["UDAN00001"], ["UCLEO0001"])
    assert (
        next(d.event for d in sandbox.deliveries if d.event["type"] == "user_change")["user"][
            "deleted"
        ]
        is True
    )


def test_a_partners_message_names_the_shared_channel(sandbox: Sandbox) -> None:
    """A message of another company's person says so, and that the channel is shared."""
    sandbox.person("eve").say("partners", "@bot hello")
    mention = sandbox.deliveries[0]
    assert mention.payload["is_ext_shared_channel"] is True
    assert {mention.event[k] for k in ("team", "user_team", "source_team")} == {"T0OTHERCO"}
    assert mention.payload["authorizations"][0]["team_id"] == "T0SANDBOX"


def test_apps_get_an_event_for_a_message_deleted_by_an_admin(
    sandbox: Sandbox, client: WebClient
) -> None:
    """The message is gone."""
    ts = str(client.chat_postMessage(channel="C0SUPPORT", text="x")["ts"])
    sandbox.delete_message("support", ts)
    assert sandbox.person("ana").messages("support") == []
    assert sent(sandbox)[-1] == ("message", "message_deleted")


def test_a_removed_app_gets_an_event_and_loses_its_token(
    sandbox: Sandbox, client: WebClient, manifest: Json
) -> None:
    """The app gets app_uninstalled, and its token is refused."""
    sandbox.uninstall()
    assert [name for name, _ in sent(sandbox)] == ["tokens_revoked", "app_uninstalled"]
    with pytest.raises(Exception, match="token_revoked"):
        client.auth_test()


def test_people_post_only_where_they_are_members(sandbox: Sandbox) -> None:
    """People post where they are members and see private channels only from inside."""
    with pytest.raises(ValueError, match="does not see"):
        sandbox.person("ben").say("finance-approvals", "x")
    with pytest.raises(ValueError, match="cannot post"):
        sandbox.person("gus").say("general", "x")
    with pytest.raises(ValueError, match="cannot post"):
        sandbox.person("zoe").dm("x")
    with pytest.raises(ValueError, match="no channel"):
        sandbox.person("ana").say("nowhere", "x")


def test_people_are_notified_of_dms_and_mentions(sandbox: Sandbox, client: WebClient) -> None:
    """People are notified of DMs and of mentions of them or their groups, not of changes."""
    blocks = [
        {"type": "section", "text": {"type": "mrkdwn", "text": "<!subteam^S0FINANCE> please"}}
    ]
    ts = str(
        client.chat_postMessage(channel="C0SUPPORT", text="for <@UDAN00001>", blocks=blocks)["ts"]
    )
    client.chat_update(channel="C0SUPPORT", ts=ts, text="<@UBEN00001>")
    client.chat_postMessage(channel="UANA00001", text="in private")
    assert [n["text"] for n in sandbox.person("cleo").notifications()] == ["for <@UDAN00001>"]
    assert [n["text"] for n in sandbox.person("ana").notifications()] == ["in private"]
    assert sandbox.person("dan").notifications() == sandbox.person("ben").notifications() == []


def test_an_unsuccessful_wait_shows_what_there_was(sandbox: Sandbox, client: WebClient) -> None:
    """A wait that ends without success shows what there was."""
    client.chat_postMessage(channel="C0SUPPORT", text="here I am")
    with pytest.raises(TimeoutError, match="here I am"):
        sandbox.wait(lambda: None, timeout=0.05)
