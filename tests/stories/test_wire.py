"""Slack's way in: what comes twice, late, in a burst or over a broken line is dealt with once.

Nothing is lost.
"""

from __future__ import annotations

import copy
import functools
import sqlite3
import subprocess
import sys
from typing import Any

import pytest
from sqlalchemy import text

from bot.sandbox.workspace import events
from bot.sandbox.workspace.records import Delivery as Sent
from bot.slack.directory import SlackDirectory
from storage.models import Delivery, Run
from storage.states import CallStatus
from tests.stories.kit import Kit
from tests.stories.test_time import ask as ask_one
from tests.stories.world import (
    SUPPORT,
    Turn,
    World,
    arrived,
    ask,
    chat,
    showing,
    told,
    words,
)

C = CallStatus
LOCKER = """
import sqlite3, sys
db = sqlite3.connect(sys.argv[1], isolation_level=None)
db.execute("BEGIN IMMEDIATE")
print("locked", flush=True)
sys.stdin.read()
db.execute("ROLLBACK")
"""


def sent_for(world: World, ts: str) -> list[Sent]:
    """The deliveries of that message."""
    return [
        d for d in world.slack.deliveries if d.event.get("ts") == ts and not d.event.get("bot_id")
    ]


def _newest_socket(world: World) -> int:
    return max(d.socket_id or 0 for d in world.slack.deliveries)


def asked_with(world: World, part: str) -> int:
    """In how many model requests this text is the newest item."""
    return sum(part in str(request["input"][-1]) for request in world.planner.requests)


def test_a_mention_comes_as_two_events_and_is_one_request(world: World) -> None:
    """app_mention and message are two deliveries of one message: one run, one model turn, one
    answer.
    """
    world.planner.script(Turn(text="Once is enough."))
    thread = world.person("ben").say(SUPPORT, "@bot double delivery")
    world.said(SUPPORT, thread, "Once is enough.")
    arrived(world)
    assert sorted(d.event["type"] for d in sent_for(world, thread)) == ["app_mention", "message"]
    assert len(world.all(Run, Run.thread_ts == thread)) == 1
    assert asked_with(world, "double delivery") == 1
    assert len(showing(world, SUPPORT, thread, "Once is enough.")) == 1


@pytest.mark.parametrize("subtype", ["file_share", "thread_broadcast"])
def test_a_mention_with_a_file_or_sent_to_the_channel_is_one_request(
    world: World, subtype: str
) -> None:
    """A message with a subtype is the same message as its app_mention, and a thread it begins can
    go on.
    """
    root = world.person("ana").say(SUPPORT, "Something to look at")
    world.planner.script(Turn(text="I have seen it."), Turn(text="Gladly."))
    slack = world.slack.world
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
    world.slack.wait(lambda: asked_with(world, "look here"))
    arrived(world)
    assert str(world.planner.requests[-1]["input"]).count("look here") == 1
    assert len(world.all(Run, Run.thread_ts == body.get("thread_ts", ts))) == 1
    if subtype == "file_share":
        assert "mug.png" in str(world.planner.requests[-1]["input"])
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
        world.slack.wait(lambda: asked_with(world, "and once more"))


def test_a_lost_acknowledgement_brings_the_same_event_again(world: World, kit: Kit) -> None:
    """Slack did not hear the acknowledgement and delivers again, with the same event id: dealt with
    once (X03).
    """
    arrived(world)
    world.slack.faults.lose_ack("events_api")
    thread = ask(world, ("note", {"text": "acknowledged late"}))
    card = world.card(SUPPORT, thread)
    world.slack.wait(lambda: all(d.ok for d in sent_for(world, thread)))
    assert sorted(d.attempts for d in sent_for(world, thread)) == [1, 2]
    world.slack.faults.lose_ack("interactive")
    first = world.person("ana").click(SUPPORT, card["ts"], "approve")
    world.slack.redeliver(first)
    world.said(SUPPORT, thread, "That is all.")
    arrived(world)
    assert kit.did("note", "acknowledged late") == 1
    assert len(world.all(Run, Run.thread_ts == thread)) == 1


def test_redelivered_after_a_restart(world: World, kit: Kit) -> None:
    """Message and click come once more to the next life of the process: nothing happens again
    (X03).
    """
    thread = ask(world, ("note", {"text": "came before"}))
    card = world.card(SUPPORT, thread)
    click = world.person("ana").click(SUPPORT, card["ts"], "approve")
    world.said(SUPPORT, thread, "That is all.")
    arrived(world)
    world.restart()
    world.slack.wait(lambda: world.slack.connections == 1)  # the old socket is gone
    before = len(world.thread(SUPPORT, thread)), len(world.planner.requests)
    for delivery in [*sent_for(world, thread), click]:
        assert world.slack.redeliver(delivery).wait() == "acked"
    arrived(world)
    assert (len(world.thread(SUPPORT, thread)), len(world.planner.requests)) == before
    assert kit.did("note", "came before") == 1


@pytest.mark.parametrize("how", ["disconnect", "refresh"])
def test_the_socket_is_to_be_changed(world: World, how: str) -> None:
    """Slack warns, or asks for a new connection: the bot makes one, and what is said meanwhile is
    answered once.
    """
    chat(world, "Before.")
    arrived(world)
    before = _newest_socket(world)
    getattr(world.slack.faults, how)()
    thread = chat(world, f"Said during the {how}.")
    world.said(SUPPORT, thread, f"Said during the {how}.")
    later = chat(world, f"Said after the {how}.")
    world.said(SUPPORT, later, f"Said after the {how}.")
    world.slack.wait(lambda: _newest_socket(world) > before)
    assert len(showing(world, SUPPORT, thread, f"Said during the {how}.")) == 1


def test_the_line_goes_dead(world: World) -> None:
    """Every socket is gone without a word: a new one is made by itself, and what was said meanwhile
    is answered.
    """
    world.slack.faults.cut()
    world.slack.wait(lambda: world.slack.connections == 0)
    thread = chat(world, "Nobody heard this at first.")
    world.slack.wait(lambda: world.slack.connections, timeout=20)
    world.said(SUPPORT, thread, "Nobody heard this at first.")


def test_another_workspace_is_not_heard(world: World) -> None:
    """The same message and the same click, said to come from another team: acknowledged, dropped,
    not stored (A04).
    """
    thread = ask(world, ("note", {"text": "another team"}))
    card = world.card(SUPPORT, thread)
    world.settle()
    rows, asked = len(world.all(Delivery)), len(world.planner.requests)
    message = copy.deepcopy(sent_for(world, thread)[0].payload) | {
        "team_id": "T0OTHERCO",
        "event_id": "Ev0OTHER",
    }
    message["event"] |= {"ts": world.slack.world.next_ts(), "user": "UANA00001"}
    assert (
        world.slack.redeliver(Sent("events_api", message, world.slack.world.app)).wait() == "acked"
    )
    click = copy.deepcopy(world.person("ana").click(SUPPORT, card["ts"], "cancel_run").payload)
    arrived(world)
    click["team"]["id"], click["actions"][0]["action_ts"] = "T0OTHERCO", "1.000001"
    click["actions"][0] |= {"action_id": "approve", "value": _value(card)}
    assert world.slack.forge(click).wait() == "acked"
    arrived(world)
    assert len(world.all(Delivery)) == rows + 1  # the genuine click alone
    assert len(world.planner.requests) == asked
    assert world.calls_in(thread)[0].status is C.PENDING


def test_a_sender_who_could_not_be_looked_up(world: World) -> None:
    """Slack does not say who wrote: the message is tried again, not lost, and others need not wait
    for it (A03).
    """
    _forget(world)
    ben = {"user": "UBEN00001"}
    world.slack.faults.fail(
        "users.info", times=2, match=lambda args: args.get("user") == ben["user"]
    )
    thread = chat(world, "Found you.")
    world.slack.wait(
        lambda: [d for d in world.all(Delivery, Delivery.thread_ts == thread) if d.attempts]
    )
    world.clock.advance(31)
    world.said(SUPPORT, thread, "Found you.")
    [row] = world.all(Delivery, Delivery.thread_ts == thread)
    assert (row.status, row.attempts) in (("done", 1), ("done", 2))


def test_a_delivery_that_always_breaks_is_set_aside(world: World, kit: Kit) -> None:
    """A corrupt call breaks the click on it alone: others are decided.

    In the end its person is told (D06).
    """
    broken, card = ask_one(world, "corrupt")
    fine, other = ask_one(world, "not corrupt")
    world.planner.script(Turn(text="That is all."))
    world.settle()
    [call] = world.calls_in(broken)
    with world.app.core.store.write() as tx:
        tx.execute(text("UPDATE call SET gate = '{' WHERE id = :id"), {"id": call.id})
    world.person("ana").click(SUPPORT, card["ts"], "approve")
    world.person("ana").click(SUPPORT, other["ts"], "approve")
    world.said(SUPPORT, fine, "That is all.")
    for _ in range(5):
        world.settle()
        world.clock.advance(31)
    assert "could not act on this" in told(world, "ana", SUPPORT, broken, "could not act on this")
    assert world.calls_in(broken)[0].status is C.PENDING
    assert (kit.did("note", "corrupt"), kit.did("note", "not corrupt")) == (0, 1)
    with world.app.core.store.write() as tx:
        tx.execute(
            text("UPDATE call SET gate = :gate WHERE id = :id"), {"id": call.id, "gate": call.gate}
        )


def test_acknowledged_while_another_process_writes(world: World, kit: Kit) -> None:
    """The database is locked by another process for a second: waited for, stored, acknowledged in
    time (S01, D02).
    """
    thread = ask(world, ("note", {"text": "behind a lock"}))
    card = world.card(SUPPORT, thread)
    world.settle()
    path = str(world.folder / "countersign.db")
    with subprocess.Popen(
        [sys.executable, "-c", LOCKER, path], stdin=-1, stdout=-1, text=True
    ) as locker:
        assert locker.stdout is not None
        assert locker.stdout.readline() == "locked\n"
        click = world.person("ana").click(SUPPORT, card["ts"], "approve")
        with pytest.raises(TimeoutError):  # nothing is acknowledged that is not stored
            click.wait(1.0)
        with sqlite3.connect(path) as reader:
            assert reader.execute(
                "SELECT count(*) FROM delivery WHERE status = 'new'"
            ).fetchone() == (0,)
        locker.communicate("")
    assert click.wait() == "acked"
    assert took(click) < 3
    world.said(SUPPORT, thread, "That is all.")
    assert kit.did("note", "behind a lock") == 1


def test_fifty_clicks_at_once(world: World, kit: Kit) -> None:
    """Fifty clicks by two people while Slack is slow to say who they are: acknowledged in time, all
    decided (S01).
    """
    cards: list[tuple[dict[str, Any], str, str]] = []  # card, its thread, who clicks on it
    for who, approver, count in (("ben", "ana", 20), ("dan", "cleo", 20), ("ana", "cleo", 10)):
        world.planner.script(Turn(calls=[("note", {"text": f"{who} {n}"}) for n in range(count)]))
        thread = world.person(who).say(SUPPORT, "@bot very many")
        world.slack.wait(functools.partial(_has_cards, world, thread, count // 5))
        cards += [(card, thread, approver) for card in _cards(world, thread)]
    world.planner.script(*[Turn(text="All of them.")] * 3)
    world.settle()
    _forget(world)
    slow = world.slack.faults.hold("usergroups.users.list")
    clicks = [
        world.person(approver).click(SUPPORT, card["ts"], "approve", value=value)
        for card, _, approver in cards
        for value in _values(card)
    ]
    assert [click.wait() for click in clicks] == ["acked"] * 50
    assert max(took(click) for click in clicks) < 3
    threads = {thread for _, thread, _ in cards}
    assert {call.status for thread in threads for call in world.calls_in(thread)} == {C.PENDING}
    slow.release()
    for thread in threads:
        world.said(SUPPORT, thread, "All of them.")
    assert [kit.did("note", f"ben {n}") for n in range(20)] == [1] * 20
    assert {call.status for thread in threads for call in world.calls_in(thread)} == {C.SUCCEEDED}


def took(delivery: Sent) -> float:
    """Seconds from sending to acknowledgement."""
    assert delivery.sent_at is not None
    assert delivery.acked_at is not None
    return delivery.acked_at - delivery.sent_at


def _has_cards(world: World, thread: str, count: int) -> bool:
    return len(_cards(world, thread)) == count


def _forget(world: World) -> None:
    """Who people are has to be looked up again."""
    assert isinstance(world.app.core.directory, SlackDirectory)
    world.app.core.directory.forget()


def _cards(world: World, thread: str) -> list[dict[str, Any]]:
    return [m for m in world.thread(SUPPORT, thread, "ana") if '"approve"' in words(m)]


def _values(card: dict[str, Any]) -> list[str]:
    return [
        e["value"]
        for b in card["blocks"]
        for e in b.get("elements", [])
        if e.get("action_id") == "approve"
    ]


def _value(card: dict[str, Any]) -> str:
    return _values(card)[0]
