"""What becomes of messages that are not for the bot, and of requests whose message changes."""

from __future__ import annotations

from storage.models import Audit, Delivery
from storage.states import CallStatus, DeliveryKind, RunStatus
from tests.stories.harness import SUPPORT, Harness
from tests.stories.messages import action_ids
from tests.stories.steps import arrived, ask, now_at, statuses


def kept(harness: Harness, text: str) -> list[Delivery]:
    """The messages that the inbox keeps and that have this text anywhere."""
    found: list[Delivery] = harness.all(Delivery, Delivery.kind == DeliveryKind.MESSAGE)
    return [row for row in found if text in row.body]


def test_what_is_not_for_the_bot_is_not_kept(harness: Harness) -> None:
    """Talk among people leaves no words behind, in the channel or in a request's thread.

    The request's own stay.
    """
    thread = ask(harness, ("note", {"text": "kept"}))
    harness.card(SUPPORT, thread)
    ana = harness.person("ana")
    alone = ana.say(SUPPORT, "my private plum cake")
    reply = ana.say(SUPPORT, "my private plum jam", thread_ts=thread)
    ana.edit(SUPPORT, alone, "my private plum tart")
    ana.delete(SUPPORT, reply)
    arrived(harness)
    assert not kept(harness, "plum")
    assert not kept(harness, '"bot_id"')
    assert kept(harness, "please")
    assert not harness.all(Delivery, Delivery.key.endswith(alone))  # type: ignore[attr-defined] # a column
    [seen] = harness.all(Delivery, Delivery.key.endswith(reply))  # type: ignore[attr-defined] # a column
    assert (seen.body, seen.note) == ("{}", "not addressed to the bot")


def test_an_edited_request_says_so(harness: Harness) -> None:
    """The thread reads the new words, as plain text; what is asked stays as it was.

    Other changes to the message, and to other messages, say nothing.
    """
    thread = ask(harness, ("note", {"text": "first"}))
    card = harness.card(SUPPORT, thread)
    ben = harness.person("ben")
    ben.edit(SUPPORT, thread, "@bot please")
    arrived(harness)
    assert "edited the request" not in str(harness.thread(SUPPORT, thread))
    ben.edit(SUPPORT, thread, "@bot write <b> instead")
    line = harness.said(SUPPORT, thread, "edited the request after this was asked")
    assert "“write &lt;b&gt; instead”" in str(line)
    assert "approve" in action_ids(now_at(harness, SUPPORT, card["ts"]))
    run = harness.run_in(thread)
    [row] = harness.all(Audit, Audit.run_id == run.id, Audit.event == "request.edited")
    assert row.actor == "UBEN00001"
    assert not kept(harness, "instead")


def test_a_deleted_request_is_withdrawn(harness: Harness) -> None:
    """Its card closes, nothing runs, thread and audit say why; whether it had replies or not."""
    thread = ask(harness, ("note", {"text": "gone"}))
    card = harness.card(SUPPORT, thread)
    harness.person("ben").delete(SUPPORT, thread)
    harness.said(SUPPORT, thread, "The message was deleted, so the request is withdrawn")
    arrived(harness)
    assert "approve" not in action_ids(now_at(harness, SUPPORT, card["ts"]))
    assert statuses(harness, thread) == [CallStatus.CANCELLED]
    run = harness.run_in(thread)
    assert run.status is RunStatus.CANCELLED
    [row] = harness.all(Audit, Audit.run_id == run.id, Audit.event == "request.withdrawn")
    assert "deleted" in row.data

    hold = harness.planner.hold()
    alone = ask(harness, ("note", {"text": "unheard"}))
    assert hold.arrived.wait(20)
    with harness.slack.world.lock:  # before the bot has said anything in the thread
        harness.person("ben").delete(SUPPORT, alone)
    harness.slack.wait(lambda: harness.run_in(alone).status is RunStatus.CANCELLED)
    hold.release()
    arrived(harness)
    assert not harness.calls_in(alone)
