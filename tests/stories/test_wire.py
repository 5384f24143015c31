"""Slack's deliveries: repeated, late or over a broken connection, each is handled once."""

from __future__ import annotations

import copy
import sqlite3
import subprocess
import sys
from typing import Any

import pytest
from sqlalchemy import text

from bot.demo.model_server import Turn
from slack_sandbox.workspace import events
from slack_sandbox.workspace.records import Delivery as Sent
from storage.models import Delivery, Run
from storage.states import CallStatus
from tests.stories.fakes import FakeTools
from tests.stories.harness import SUPPORT, Harness
from tests.stories.messages import button, having
from tests.stories.steps import (
    arrived,
    ask,
    ask_for,
    chat,
    forget_people,
    menu,
    showing,
    told,
    took,
)

C = CallStatus
LOCK_SCRIPT = """
import sqlite3, sys
db = sqlite3.connect(sys.argv[1], isolation_level=None)
db.execute("BEGIN IMMEDIATE")
print("locked", flush=True)
sys.stdin.read()
db.execute("ROLLBACK")
"""


def list_deliveries(harness: Harness, ts: str) -> list[Sent]:
    """Return the deliveries of this message."""
    return [
        d for d in harness.slack.deliveries if d.event.get("ts") == ts and not d.event.get("bot_id")
    ]


def _get_newest_socket_id(harness: Harness) -> int:
    return max(d.socket_id or 0 for d in harness.slack.deliveries)


def count_requests_with(harness: Harness, part: str) -> int:
    """Count the requests to the model whose newest item has this text."""
    return sum(part in str(request["input"][-1]) for request in harness.planner.requests)


def test_a_mention_comes_as_two_events_and_is_one_request(harness: Harness) -> None:
    """`app_mention` and `message` are deliveries of one message: one run, one turn, one answer."""
    harness.planner.script(Turn(text="Once is enough."))
    thread = harness.person("ben").say(SUPPORT, "@bot double delivery")
    harness.said(SUPPORT, thread, "Once is enough.")
    arrived(harness)
    assert sorted(d.event["type"] for d in list_deliveries(harness, thread)) == [
        "app_mention",
        "message",
    ]
    assert len(harness.all(Run, Run.thread_ts == thread)) == 1
    assert count_requests_with(harness, "double delivery") == 1
    assert len(showing(harness, SUPPORT, thread, "Once is enough.")) == 1


@pytest.mark.parametrize("subtype", ["file_share", "thread_broadcast"])
def test_a_mention_with_a_file_or_broadcast_is_one_request(harness: Harness, subtype: str) -> None:
    """A message with a subtype is the same as its `app_mention`; its thread can go on."""
    root = harness.person("ana").say(SUPPORT, "Something to look at")
    harness.planner.script(Turn(text="I have seen it."), Turn(text="Gladly."))
    slack = harness.slack.world
    with slack.lock:
        ts, place = slack.next_ts(), slack.channel(SUPPORT)
        body: dict[str, Any] = {
            "user": "UBEN00001",
            "text": "<@UBOT00001> look here",
            "ts": ts,
            "event_ts": ts,
        }
        body["channel"] = SUPPORT
        body |= {"files": [{"name": "mug.png"}]} if subtype == "file_share" else {"thread_ts": root}
        events.emit(slack, slack.app, {**body, "type": "app_mention"}, place)
        more = {"type": "message", "subtype": subtype, "channel_type": "channel"}
        events.emit(slack, slack.app, {**body, **more}, place, subscription="message.channels")
    harness.slack.wait(lambda: count_requests_with(harness, "look here"))
    arrived(harness)
    assert str(harness.planner.requests[-1]["input"]).count("look here") == 1
    assert len(harness.all(Run, Run.thread_ts == body.get("thread_ts", ts))) == 1
    if subtype == "file_share":
        assert "mug.png" in str(harness.planner.requests[-1]["input"])
        with slack.lock:
            later = {
                **body,
                "thread_ts": ts,
                "ts": slack.next_ts(),
                "text": "and once more",
                "type": "message",
            }
            events.emit(
                slack,
                slack.app,
                {**later, "channel_type": "channel"},
                place,
                subscription="message.channels",
            )
        harness.slack.wait(lambda: count_requests_with(harness, "and once more"))


def test_an_event_repeated_after_a_lost_acknowledgement_counts_once(
    harness: Harness, fakes: FakeTools
) -> None:
    """A message and a click."""
    harness.slack.faults.lose_ack("events_api", person="ben", match=having("acknowledged late"))
    thread, card = ask_for(harness, "acknowledged late")
    harness.planner.script(Turn(text="That is all."))
    harness.slack.wait(lambda: all(d.ok for d in list_deliveries(harness, thread)))
    assert max(d.attempts for d in list_deliveries(harness, thread)) > 1
    harness.slack.faults.lose_ack("interactive", match=having(card["ts"]))
    first = harness.person("ana").click(SUPPORT, card["ts"], "approve")
    harness.slack.redeliver(first)
    harness.said(SUPPORT, thread, "That is all.")
    arrived(harness)
    assert fakes.did("note", "acknowledged late") == 1
    assert len(harness.all(Run, Run.thread_ts == thread)) == 1


def test_events_repeated_after_a_restart_do_nothing(harness: Harness, fakes: FakeTools) -> None:
    """A message and a click that were handled before the restart."""
    thread = ask(harness, ("note", {"text": "came before"}))
    card = harness.card(SUPPORT, thread)
    click = harness.person("ana").click(SUPPORT, card["ts"], "approve")
    harness.said(SUPPORT, thread, "That is all.")
    arrived(harness)
    harness.restart()
    harness.slack.wait(
        lambda: harness.slack.connections <= 1
    )  # until the old socket, if any, is closed
    before = len(harness.thread(SUPPORT, thread)), len(harness.planner.requests)
    for delivery in [*list_deliveries(harness, thread), click]:
        assert harness.slack.redeliver(delivery).wait() == "acked"
    arrived(harness)
    assert (len(harness.thread(SUPPORT, thread)), len(harness.planner.requests)) == before
    assert fakes.did("note", "came before") == 1


@pytest.mark.socket
@pytest.mark.parametrize("how", ["disconnect", "refresh"])
def test_the_bot_makes_a_new_connection_when_slack_asks_for_it(harness: Harness, how: str) -> None:
    """Also when Slack only warns. A message that comes meanwhile is answered once."""
    chat(harness, "Before.")
    arrived(harness)
    before = _get_newest_socket_id(harness)
    getattr(harness.slack.faults, how)()
    thread = chat(harness, f"Said during the {how}.")
    harness.said(SUPPORT, thread, f"Said during the {how}.")
    later = chat(harness, f"Said after the {how}.")
    harness.said(SUPPORT, later, f"Said after the {how}.")
    while _get_newest_socket_id(harness) <= before:  # two in a row are replaced more slowly
        harness.said(SUPPORT, chat(harness, "Are you there?"), "Are you there?")
    assert len(showing(harness, SUPPORT, thread, f"Said during the {how}.")) == 1


@pytest.mark.socket
def test_the_bot_reconnects_when_its_connection_is_cut(harness: Harness) -> None:
    """A message that comes meanwhile is answered."""
    ended = len(harness.slack.closed)
    harness.slack.faults.cut()
    harness.slack.wait(lambda: len(harness.slack.closed) > ended)
    thread = chat(harness, "Nobody heard this at first.")
    # the bot may have a new socket before anybody looks
    harness.slack.wait(lambda: harness.slack.connections, timeout=30)
    harness.said(SUPPORT, thread, "Nobody heard this at first.")


def test_events_of_another_workspace_are_dropped(harness: Harness) -> None:
    """A message is acknowledged but not stored, and a click decides nothing."""
    thread = ask(harness, ("note", {"text": "another team"}))
    card = harness.card(SUPPORT, thread)
    harness.settle()
    rows, asked = len(harness.all(Delivery)), len(harness.planner.requests)
    message = copy.deepcopy(list_deliveries(harness, thread)[0].payload) | {
        "team_id": "T0OTHERCO",
        "context_team_id": "T0OTHERCO",
        "authorizations": [{"team_id": "T0OTHERCO", "user_id": "U0OTHER", "is_bot": True}],
        "event_id": "Ev0OTHER",
    }
    message["event"] |= {"ts": harness.slack.world.next_ts(), "user": "UANA00001"}
    assert (
        harness.slack.redeliver(Sent("events_api", message, harness.slack.world.app)).wait()
        == "acked"
    )
    click = copy.deepcopy(menu(harness, "ana", card, "cancel_run").payload)
    arrived(harness)
    click["team"]["id"], click["actions"][0]["action_ts"] = "T0OTHERCO", "1.000001"
    click["actions"] = [button(card, "approve", click)]
    assert harness.slack.forge(click).wait() == "acked"
    arrived(harness)
    assert len(harness.all(Delivery)) == rows + 2  # the clicks
    assert len(harness.planner.requests) == asked
    assert harness.calls_in(thread)[0].status is C.PENDING


def test_a_message_whose_sender_cannot_be_looked_up_is_tried_again(harness: Harness) -> None:
    """Slack fails the look-up twice; after that the message is answered."""
    forget_people(harness)
    ben = {"user": "UBEN00001"}
    harness.slack.faults.fail(
        "users.info", times=2, match=lambda args: args.get("user") == ben["user"]
    )
    thread = chat(harness, "Found you.")
    harness.slack.wait(
        lambda: [d for d in harness.all(Delivery, Delivery.thread_ts == thread) if d.attempts]
    )
    harness.clock.advance(31)
    harness.said(SUPPORT, thread, "Found you.")
    [row] = harness.all(Delivery, Delivery.thread_ts == thread)
    assert (row.status, row.attempts) in (("done", 1), ("done", 2))


def test_a_delivery_that_always_fails_is_set_aside(harness: Harness, fakes: FakeTools) -> None:
    """A click on a corrupt call fails alone; others are decided, and its person is told."""
    broken, card = ask_for(harness, "corrupt")
    fine, other = ask_for(harness, "not corrupt")
    harness.planner.script(Turn(text="That is all."))
    harness.settle()
    [call] = harness.calls_in(broken)
    with harness.app.core.store.write() as tx:
        tx.execute(text("UPDATE call SET gate = '{' WHERE id = :id"), {"id": call.id})
    harness.person("ana").click(SUPPORT, card["ts"], "approve")
    harness.person("ana").click(SUPPORT, other["ts"], "approve")
    harness.said(SUPPORT, fine, "That is all.")
    for _ in range(5):
        harness.settle()
        harness.clock.advance(31)
    assert "could not act on this" in told(harness, "ana", SUPPORT, broken, "could not act on this")
    assert harness.calls_in(broken)[0].status is C.PENDING
    assert (fakes.did("note", "corrupt"), fakes.did("note", "not corrupt")) == (0, 1)
    with harness.app.core.store.write() as tx:
        tx.execute(
            text("UPDATE call SET gate = :gate WHERE id = :id"), {"id": call.id, "gate": call.gate}
        )


@pytest.mark.file
def test_a_click_is_acknowledged_once_another_processs_lock_ends(
    harness: Harness, fakes: FakeTools
) -> None:
    """It is not acknowledged before it is stored, and then within three seconds."""
    thread = ask(harness, ("note", {"text": "behind a lock"}))
    card = harness.card(SUPPORT, thread)
    harness.settle()
    path = str(harness.folder / "countersign.db")
    with subprocess.Popen(
        [sys.executable, "-c", LOCK_SCRIPT, path], stdin=-1, stdout=-1, text=True
    ) as locker:
        assert locker.stdout is not None
        assert locker.stdout.readline() == "locked\n"
        click = harness.person("ana").click(SUPPORT, card["ts"], "approve")
        with pytest.raises(TimeoutError):  # not stored yet, so not acknowledged
            click.wait(1.0)
        with sqlite3.connect(path) as reader:
            assert reader.execute(
                "SELECT count(*) FROM delivery WHERE status = 'new'"
            ).fetchone() == (0,)
        locker.communicate("")
    assert click.wait() == "acked"
    assert took(click) < 3
    harness.said(SUPPORT, thread, "That is all.")
    assert fakes.did("note", "behind a lock") == 1
