"""Slash commands, from what a person types to what they see, with a real Bolt app."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from slack_bolt import App, Respond

from sandbox.tests.builders import Json, modal, section
from sandbox.tests.harness import BoltHarness, bolt_harness, run_over_http
from sandbox.tests.recordings import differences, fixture
from slack_sandbox.server import Sandbox
from slack_sandbox.workspace.records import Delivery

Ack = Callable[..., None]


def command(name: str, **extra: object) -> Json:
    """A command as manifests list it."""
    return {"command": name, "description": f"It is {name}.", "usage_hint": "[what]", **extra}


def listen(bolt: App) -> None:
    """One command per kind of answer."""
    bolt.command("/quiet")(lambda ack: ack())
    bolt.command("/plain")(lambda ack: ack("only you"))
    bolt.command("/loud")(lambda ack: ack(text="all of you", response_type="in_channel"))
    bolt.command("/drawn")(lambda ack: ack(blocks=[section("*drawn*")], text="drawn"))
    bolt.command("/attached")(
        lambda ack: ack(attachments=[{"text": "an attachment", "color": "#ff0000"}])
    )
    bolt.command("/broken")(lambda ack: ack(blocks=[{"type": "nonsense"}]))
    bolt.command("/escaped")(lambda ack: ack())

    @bolt.command("/later")
    def later(ack: Ack, respond: Respond) -> None:
        ack()
        respond("at last")


@pytest.fixture(scope="module")
def running() -> Iterator[BoltHarness]:
    """A harness that all tests of this module share; its app has the commands."""
    names = ("/quiet", "/plain", "/loud", "/drawn", "/attached", "/broken", "/later", "/deaf")
    commands = [*map(command, names), command("/escaped", should_escape=True)]
    with bolt_harness(listen, slash_commands=commands) as made:
        yield made


@pytest.fixture
def harness(running: BoltHarness) -> BoltHarness:
    """The shared harness, without the bodies of earlier tests."""
    return running.forget_bodies()


def sent(harness: BoltHarness, line: str, channel: str = "support") -> Delivery:
    """The delivery of a command that is one."""
    delivery = harness.ana.command(channel, line)
    assert isinstance(delivery, Delivery)
    return delivery


def latest(harness: BoltHarness, name: str = "ana") -> Json:
    """The last message that this person sees in #support."""
    return harness.sandbox.person(name).everything("support")[-1]


def test_a_commands_body_has_slacks_keys(harness: BoltHarness) -> None:
    """A command's body has the keys and types of Slack's, with the person and the place."""
    assert sent(harness, "/quiet  a <b> & @ben ").wait() == "acked"
    body = harness.wait_for_body("/quiet")
    theirs = fixture("slack/SlashCommandPayload.json")
    assert [d for d in differences(theirs, body) if "/enterprise" not in d] == [
        "/is_enterprise_install: boolean instead of string"
    ]
    assert [d for d in differences(body, theirs) if "unknown" in d] == []
    assert (body["command"], body["text"]) == ("/quiet", "a <b> & @ben")
    assert (body["user_id"], body["user_name"]) == ("UANA00001", "ana")
    assert (body["channel_id"], body["channel_name"]) == ("C0SUPPORT", "support")
    assert body["is_enterprise_install"] == "false"
    envelope = harness.sandbox.deliveries[-1]
    assert (envelope.kind, envelope.accepts_response_payload) == ("slash_commands", True)
    sent(harness, "/quiet", "finance-approvals").wait()
    assert harness.wait_for_body("/quiet")["channel_name"] == "privategroup"


def test_should_escape_turns_names_into_tokens(harness: BoltHarness) -> None:
    """should_escape turns names and links into tokens; a private channel's name stays out."""
    sent(
        harness, "/escaped @ben #support #finance-approvals @shop-leads http://x.example a<b"
    ).wait()
    assert harness.wait_for_body("/escaped")["text"] == (
        "<@UBEN00001> <#C0SUPPORT|support> <#C0FINANCE|> <!subteam^S0LEADS> <http://x.example> "
        "a&lt;b"
    )


def test_an_answer_in_the_acknowledgement_is_shown(harness: BoltHarness) -> None:
    """An answer with the acknowledgement is for the person, or the channel where it says so."""
    before = latest(harness)["ts"] if harness.ana.everything("support") else ""
    sent(harness, "/quiet").wait()
    assert not harness.ana.everything("support") or latest(harness)["ts"] == before
    sent(harness, "/plain").wait()
    seen = latest(harness)
    assert (seen["text"], seen["is_ephemeral"], seen["user"]) == (
        "only you",
        True,
        harness.sandbox.bot_user_id,
    )
    assert all(m["text"] != "only you" for m in harness.sandbox.person("ben").everything("support"))
    sent(harness, "/loud").wait()
    assert latest(harness, "ben")["text"] == "all of you"
    sent(harness, "/drawn").wait()
    assert latest(harness)["blocks"][0]["text"]["text"] == "*drawn*"
    sent(harness, "/attached").wait()
    assert latest(harness)["attachments"][0]["text"] == "an attachment"


def test_a_commands_response_url_posts_in_private(harness: BoltHarness) -> None:
    """The response_url of a command posts where it was typed, for the person alone."""
    sent(harness, "/later")
    seen = harness.sandbox.wait(
        lambda: [m for m in harness.ana.everything("support") if m["text"] == "at last"]
    )[0]
    assert seen["is_ephemeral"] is True


def test_a_wrong_answer_to_a_command_shows_an_error(harness: BoltHarness) -> None:
    """Bad blocks in the acknowledgement are not shown: the person sees an error alone."""
    sent(harness, "/broken").wait()
    notice = latest(harness)
    assert (notice["user"], notice["is_ephemeral"]) == ("USLACKBOT", True)
    assert notice["text"] == '/broken failed with the error "invalid_blocks"'


def test_an_unacknowledged_command_shows_operation_timeout(harness: BoltHarness) -> None:
    """A command that is not acknowledged in time shows operation_timeout."""
    harness.sandbox.world.ack_seconds = 0.2
    try:
        assert sent(harness, "/deaf").wait() == "timeout"
    finally:
        harness.sandbox.world.ack_seconds = 3.0
    assert latest(harness)["text"] == '/deaf failed with the error "operation_timeout"'
    assert latest(harness)["is_ephemeral"] is True


@pytest.mark.parametrize(
    ("name", "channel", "line", "threaded", "says"),
    [
        ("ana", "support", "/nothing at all", False, "/nothing is not a valid command."),
        ("ana", "support", "/quiet", True, "/quiet is not supported in threads. Sorry!"),
        # a person of another company
        ("eve", "partners", "/quiet", False, "/quiet is not a valid command."),
    ],
)
def test_a_command_in_a_wrong_place_never_reaches_the_app(
    harness: BoltHarness, name: str, channel: str, line: str, threaded: bool, says: str
) -> None:
    """Unknown commands, commands in threads and those of partners never reach the app."""
    who = harness.sandbox.person(name)
    root = who.say(channel, "root") if threaded else None
    before = [d for d in harness.sandbox.deliveries if d.kind == "slash_commands"]
    assert who.command(channel, line, root) == says
    seen = who.everything(channel)[-1]
    assert (seen["text"], seen["is_ephemeral"], seen.get("thread_ts")) == (says, True, root)
    assert [d for d in harness.sandbox.deliveries if d.kind == "slash_commands"] == before


def test_commands_work_only_for_channel_members(harness: BoltHarness) -> None:
    """Somebody who is not in a channel types no command there."""
    with pytest.raises(ValueError, match="cannot post"):
        harness.sandbox.person("gus").command("general", "/quiet")


def test_a_command_opens_a_modal(harness: BoltHarness) -> None:
    """A command opens a modal."""
    sent(harness, "/quiet")
    harness.client.views_open(
        trigger_id=harness.wait_for_body("/quiet")["trigger_id"], view=modal("of a command")
    )
    view = harness.ana.view()
    assert view is not None
    assert view["callback_id"] == "of a command"
    harness.ana.close_view()


def test_a_command_without_a_connected_app_fails(manifest: Json) -> None:
    """Without a connection the person sees that the command could not be delivered."""
    manifest["features"]["slash_commands"] = [command("/far")]
    with Sandbox(manifest) as sandbox:
        ana = sandbox.person("ana")
        ana.command("support", "/far")
        assert (
            sandbox.wait(lambda: ana.everything("support"))[-1]["text"]
            == '/far failed with the error "dispatch_failed"'
        )


def test_the_last_installed_app_gets_a_command(manifest: Json) -> None:
    """Of two apps with one command the last installed gets it, then the other.

    Without the scope there is none.
    """
    manifest["features"]["slash_commands"] = [command("/shared")]
    with Sandbox(manifest) as sandbox:
        late = sandbox.install(
            {"features": manifest["features"], "oauth_config": {"scopes": {"bot": ["commands"]}}}
        )
        sandbox.install({"features": manifest["features"]})
        ana = sandbox.person("ana")

        def taker() -> str:
            delivery = ana.command("support", "/shared")
            assert isinstance(delivery, Delivery)
            return delivery.app.id

        assert taker() == late.id
        sandbox.uninstall(late)
        assert taker() == sandbox.world.app.id


def test_a_command_over_http_is_a_form(manifest: Json) -> None:
    """Over HTTP a command is a form at its own URL, and the body of the answer is shown."""

    def weather(bolt: App) -> None:
        bolt.command("/weather")(lambda ack, command: ack(f"sun over {command['text']}"))

    with run_over_http(weather, manifest) as (sandbox, app_server):
        ana = sandbox.person("ana")
        delivery = ana.command("support", "/weather the sea")
        assert isinstance(delivery, Delivery)
        assert delivery.wait() == "acked"
        assert ana.everything("support")[-1]["text"] == "sun over the sea"
        form = app_server.requests[-1].form
        assert (form["command"], form["is_enterprise_install"]) == ("/weather", "false")
        assert set(form) == set(delivery.payload)
