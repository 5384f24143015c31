"""Global and message shortcuts: their payloads, where they work, and for whom."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from slack_bolt import App, Respond

from sandbox.tests.builders import Json, modal, section
from sandbox.tests.harness import BoltHarness, bolt_harness
from sandbox.tests.recordings import differences, fixture

TICKET = {
    "name": "Make a ticket",
    "type": "message",
    "callback_id": "ticket",
    "description": "From a message.",
}
DEAF = {
    "name": "Nobody home",
    "type": "global",
    "callback_id": "deaf",
    "description": "Never answered.",
}


def listen(bolt: App) -> None:
    """Make the message shortcut answer at its response_url."""

    @bolt.message_shortcut("ticket")
    def ticket(ack: object, respond: Respond) -> None:
        assert callable(ack)
        ack()
        respond("ticket made", replace_original=False)


@pytest.fixture(scope="module")
def running() -> Iterator[BoltHarness]:
    """A harness that all tests of this module share; its app has the shortcuts."""
    with bolt_harness(listen, shortcuts=[TICKET, DEAF]) as made:
        yield made


@pytest.fixture
def harness(running: BoltHarness) -> BoltHarness:
    """The shared harness, without the bodies of earlier tests."""
    return running.forget_bodies()


def without_grid(found: list[str]) -> list[str]:
    """The differences apart from those of big organisations."""
    return [each for each in found if "/enterprise" not in each]


def test_a_global_shortcut_opens_a_modal(harness: BoltHarness) -> None:
    """A global shortcut has the keys of the recorded one, no channel and no response_url.

    Its trigger opens a modal.
    """
    assert harness.ana.shortcut("form").wait() == "acked"
    body = harness.wait_for_body("shortcut")
    recorded = fixture("bolt_payloads.json")["shortcut.global_shortcut_body"]
    assert without_grid(differences(recorded, body)) == []
    assert without_grid(differences(body, recorded)) == ["/is_enterprise_install: unknown"]
    assert (body["callback_id"], body["user"]["id"]) == ("form", "UANA00001")
    harness.client.views_open(trigger_id=body["trigger_id"], view=modal("opened"))
    view = harness.ana.view()
    assert view is not None
    assert view["callback_id"] == "opened"
    harness.ana.close_view()


def test_a_message_shortcut_carries_its_message(harness: BoltHarness) -> None:
    """A message shortcut carries channel and message, and its response_url answers there."""
    ts = harness.ana.say("support", "the printer is on fire")
    assert harness.ana.message_shortcut("support", ts, "ticket").wait() == "acked"
    body = harness.wait_for_body("message_action")
    recorded = fixture("bolt_payloads.json")["shortcut.message_shortcut_body"]
    recorded["message"]["blocks"] = []  # the recorded message has another text
    assert without_grid(differences(recorded, body)) == []
    inventory: Json = fixture("slack/MessageShortcutPayload.json")
    extra = [d for d in without_grid(differences(body, inventory)) if not d.startswith("/message/")]
    assert extra == ["/user/username: unknown"]
    assert (body["message_ts"], body["message"]["text"], body["channel"]["name"]) == (
        ts,
        "the printer is on fire",
        "support",
    )
    harness.sandbox.wait(
        lambda: [m for m in harness.ana.everything("support") if m["text"] == "ticket made"]
    )


def test_message_shortcuts_work_in_threads_and_on_app_messages(harness: BoltHarness) -> None:
    """Message shortcuts work in threads and on what apps posted."""
    root = harness.ana.say("support", "root")
    reply = harness.post(section("reply"), thread_ts=root)
    harness.ana.message_shortcut("support", reply, "ticket").wait()
    message = harness.wait_for_body("message_action")["message"]
    assert (message["ts"], message["thread_ts"], message["app_id"]) == (
        reply,
        root,
        harness.sandbox.world.app.id,
    )


def test_shortcuts_are_not_for_people_of_other_companies(harness: BoltHarness) -> None:
    """People of other companies have no shortcuts.

    Unknown names, other kinds and ephemeral messages are refused.
    """
    eve, ts = harness.sandbox.person("eve"), harness.ana.say("partners", "hello")
    with pytest.raises(ValueError, match="no global shortcut 'form' for this person"):
        eve.shortcut("form")
    with pytest.raises(ValueError, match="no message shortcut 'ticket'"):
        eve.message_shortcut("partners", ts, "ticket")
    with pytest.raises(ValueError, match="no message shortcut 'form'"):
        harness.ana.message_shortcut("partners", ts, "form")
    psst = harness.client.chat_postEphemeral(channel="C0SUPPORT", user=harness.ana.id, text="x")[
        "message_ts"
    ]
    with pytest.raises(ValueError, match="only one person sees"):
        harness.ana.message_shortcut("support", str(psst), "ticket")
    with pytest.raises(ValueError, match="sees no message"):
        harness.ana.message_shortcut("support", "1.0", "ticket")


def test_an_unhandled_shortcut_times_out(harness: BoltHarness) -> None:
    """It is not sent again."""
    harness.sandbox.world.ack_seconds = 0.2
    try:
        delivery = harness.ana.shortcut("deaf")
        assert (delivery.wait(), delivery.attempts) == ("timeout", 1)
    finally:
        harness.sandbox.world.ack_seconds = 3.0
