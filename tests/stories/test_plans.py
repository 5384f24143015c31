"""Several calls in one plan: decided one by one or together, by one person or two, over a restart."""

from __future__ import annotations

import json
from typing import Any

import pytest

from storage.models import Audit, Message, Vote
from storage.states import CallStatus
from tests.stories.kit import Kit
from tests.stories.world import (
    SUPPORT,
    Turn,
    World,
    action_ids,
    arrived,
    ask,
    now_at,
    open_modal,
    reject,
    told,
    typed,
    value_of,
    words,
)


def note(text: str) -> tuple[str, dict[str, str]]:
    return ("note", {"text": text})


def statuses(world: World, thread: str) -> list[str]:
    return [str(call.status) for call in world.calls_in(thread)]


def until(world: World, thread: str, *expected: str) -> None:
    """Wait until the calls of the thread have come to this."""
    world.slack.wait(lambda: statuses(world, thread) == list(expected))
    arrived(world)


def test_several_calls_decided_differently(world: World, kit: Kit) -> None:
    """Approved, edited and approved, rejected: one output each, in the model's order, truthful
    (P01, L01, L04).
    """
    thread = ask(world, note("one"), note("two"), note("three"))
    card = world.card(SUPPORT, thread)
    world.settle()
    reject(world, "ana", SUPPORT, card, "not three", nth=2)
    until(world, thread, "pending", "pending", "rejected")
    open_modal(world, "ana", SUPPORT, card, "edit", 1)
    world.person("ana").submit(typed(text="two and a half"))
    world.said(SUPPORT, thread, "✏️")
    world.settle()
    drawn = now_at(world, SUPPORT, card["ts"])
    world.person("cleo").click(SUPPORT, card["ts"], "approve", value=value_of(drawn, "approve", 1))
    until(world, thread, "pending", "approved", "rejected")
    assert not kit.did("note", "two and a half")
    world.person("cleo").click(
        SUPPORT, card["ts"], "approve", value=value_of(drawn, "approve", 0), seen=drawn
    )
    world.said(SUPPORT, thread, "That is all.")
    world.settle()

    calls = world.calls_in(thread)
    outputs = world.outputs()
    assert [o["call_id"] for o in outputs] == [c.provider_id for c in calls]
    assert [o["output"].split(".")[0].split(" ")[0] for o in outputs] == [
        "SUCCEEDED",
        "SUCCEEDED",
        "REJECTED",
    ]
    assert "two and a half" in outputs[1]["output"]
    assert "not three" in outputs[2]["output"]
    assert [kit.did("note", text) for text in ("one", "two", "two and a half", "three")] == [
        1,
        0,
        1,
        0,
    ]


def test_the_plan_runs_in_order_and_stops_at_a_failure(world: World, kit: Kit) -> None:
    """After a failed step the rest is cancelled, and the model is told why (L01, X12)."""
    thread = ask(world, note("before"), ("refuse", {"text": "x"}), note("after"))
    card = world.card(SUPPORT, thread)
    world.settle()
    world.person("ana").click(SUPPORT, card["ts"], "approve_all")
    world.said(SUPPORT, thread, "That is all.")
    world.settle()
    assert statuses(world, thread) == ["succeeded", "failed", "cancelled"]
    assert "an earlier step of the plan failed" in world.outputs()[2]["output"]
    assert (kit.did("note", "before"), kit.did("note", "after")) == (1, 0)


def test_gated_and_ungated_together(world: World, kit: Kit) -> None:
    """What only reads runs at once, and not again when the rest is decided (P02)."""
    thread = ask(world, ("peek", {"text": "mixed"}), note("mixed"), ("peek", {"text": "mixed too"}))
    card = world.card(SUPPORT, thread)
    until(world, thread, "succeeded", "pending", "succeeded")
    assert (kit.did("peek", "mixed"), kit.did("peek", "mixed too")) == (1, 1)
    world.person("ana").click(SUPPORT, card["ts"], "approve")
    world.said(SUPPORT, thread, "That is all.")
    world.settle()
    assert (kit.did("peek", "mixed"), kit.did("peek", "mixed too"), kit.did("note", "mixed")) == (
        1,
        1,
        1,
    )
    assert [o["call_id"] for o in world.outputs()] == [
        c.provider_id for c in world.calls_in(thread)
    ]


def test_partly_decided_then_a_restart(world: World, kit: Kit) -> None:
    """What was decided stays so, the rest is clickable on the same card, and all runs once (P03,
    S09).
    """
    thread = ask(world, note("early"), note("late"))
    card = world.card(SUPPORT, thread)
    world.person("ana").click(SUPPORT, card["ts"], "approve", value=value_of(card, "approve", 0))
    until(world, thread, "approved", "pending")
    world.restart()
    assert not kit.did("note", "early")
    world.person("ana").click(SUPPORT, card["ts"], "approve")
    world.said(SUPPORT, thread, "That is all.")
    world.settle()
    assert statuses(world, thread) == ["succeeded", "succeeded"]
    assert (kit.did("note", "early"), kit.did("note", "late")) == (1, 1)


def test_two_people_decide_two_calls_of_one_card_at_once(world: World, kit: Kit) -> None:
    """Both count, each is told in the thread, and the card shows both (P04)."""
    thread = ask(world, note("left"), note("right"))
    card = world.card(SUPPORT, thread)
    for nth, name in enumerate(("ana", "cleo")):
        world.person(name).click(
            SUPPORT, card["ts"], "approve", value=value_of(card, "approve", nth), seen=card
        )
    world.said(SUPPORT, thread, "That is all.")
    world.settle()
    assert [
        row.person for c in world.calls_in(thread) for row in world.all(Vote, Vote.call_id == c.id)
    ] == [
        "UANA00001",
        "UCLEO0001",
    ]
    drawn = words(now_at(world, SUPPORT, card["ts"]))
    assert "UANA00001" in drawn
    assert "UCLEO0001" in drawn
    assert '"button"' not in drawn
    assert (kit.did("note", "left"), kit.did("note", "right")) == (1, 1)


@pytest.mark.parametrize("verb", ["approve", "reject"])
def test_all_at_once_leaves_a_row_for_each(world: World, kit: Kit, verb: str) -> None:
    """Approve all and reject all: one vote, one audit row and one digest for each call (P16)."""
    thread = ask(world, note(f"{verb} a"), note(f"{verb} b"), note(f"{verb} c"))
    card = world.card(SUPPORT, thread)
    world.settle()
    if verb == "approve":
        world.person("ana").click(SUPPORT, card["ts"], "approve_all")
    else:
        view = open_modal(world, "ana", SUPPORT, card, "reject_all")
        assert f"{verb} b" in json.dumps(view["blocks"], ensure_ascii=False)
        chosen = view["blocks"][1]["element"]["options"][0]
        assert (
            world.person("ana").submit({"reason": {"preset": {"selected_option": chosen}}})[
                "outcome"
            ]
            == "closed"
        )
    world.said(SUPPORT, thread, "That is all.")
    world.settle()

    calls = world.calls_in(thread)
    votes = [row for c in calls for row in world.all(Vote, Vote.call_id == c.id)]
    assert [(v.verb, v.person, v.digest) for v in votes] == [
        (verb, "UANA00001", c.digest) for c in calls
    ]
    event = "call.approved" if verb == "approve" else "call.rejected"
    rows = [
        row for c in calls for row in world.all(Audit, Audit.call_id == c.id, Audit.event == event)
    ]
    assert [json.loads(row.data)["digest"] for row in rows] == [c.digest for c in calls]
    assert len({c.digest for c in calls}) == 3
    assert [kit.did("note", f"{verb} {x}") for x in "abc"] == [int(verb == "approve")] * 3


def test_approve_all_after_the_plan_changed_is_stale(world: World, kit: Kit) -> None:
    """One call was edited since: approving all of what one saw before is refused.

    All of what is there now is not.
    """
    thread = ask(world, note("p"), note("q"))
    card = world.card(SUPPORT, thread)
    open_modal(world, "ben", SUPPORT, card, "edit", 1)
    world.person("ben").submit(typed(text="q2"))
    world.said(SUPPORT, thread, "✏️")
    world.settle()
    world.person("ana").click(SUPPORT, card["ts"], "approve_all", seen=card)
    told(world, "ana", SUPPORT, thread, "This card was out of date")
    assert statuses(world, thread) == ["pending", "pending"]
    person = world.person("cleo")
    person.click(SUPPORT, card["ts"], "reject_all", value=value_of(card, "reject_all"), seen=card)
    told(world, "cleo", SUPPORT, thread, "This card was out of date")
    assert person.view() is None
    world.person("ana").click(SUPPORT, card["ts"], "approve_all")
    world.said(SUPPORT, thread, "That is all.")
    world.settle()
    assert [kit.did("note", text) for text in ("p", "q", "q2")] == [1, 0, 1]


def test_approve_all_that_counts_for_some_only(world: World, kit: Kit) -> None:
    """What the voter edited themself is left for others, and does not lose its neighbours (P06,
    A10).
    """
    thread = ask(world, note("r"), note("s"))
    card = world.card(SUPPORT, thread)
    open_modal(world, "ana", SUPPORT, card, "edit", 0)
    world.person("ana").submit(typed(text="r2"))
    world.said(SUPPORT, thread, "✏️")
    world.settle()
    world.person("ana").click(SUPPORT, card["ts"], "approve_all")
    told(world, "ana", SUPPORT, thread, "You edited this, so somebody else has to approve it.")
    until(world, thread, "pending", "approved")
    world.person("cleo").click(SUPPORT, card["ts"], "approve")
    world.said(SUPPORT, thread, "That is all.")
    assert [kit.did("note", text) for text in ("r2", "s")] == [1, 1]


def test_what_the_model_adds_later_is_asked_again(world: World, kit: Kit) -> None:
    """Approving a plan covers its calls only: the next turn's calls get a card of their own (P08)."""
    world.planner.script(
        Turn(calls=[note("plan 1"), note("plan 1b")]), Turn(calls=[note("plan 2"), note("plan 1")])
    )
    world.planner.script(Turn(text="Both done."))
    thread = world.person("ben").say(SUPPORT, "@bot two plans")
    first = world.card(SUPPORT, thread)
    world.settle()
    world.person("ana").click(SUPPORT, first["ts"], "approve_all")
    second = world.said(SUPPORT, thread, "plan 2")
    world.settle()
    assert second["ts"] != first["ts"]
    assert statuses(world, thread) == ["succeeded", "succeeded", "pending", "pending"]
    world.person("ana").click(SUPPORT, first["ts"], "approve_all", seen=first)
    told(world, "ana", SUPPORT, thread, "This card was out of date")
    assert kit.did("note", "plan 2") == 0
    assert kit.did("note", "plan 1") == 1
    world.person("ana").click(SUPPORT, second["ts"], "approve_all")
    world.said(SUPPORT, thread, "Both done.")
    assert (kit.did("note", "plan 2"), kit.did("note", "plan 1")) == (1, 2)


def test_more_calls_than_a_message_holds(world: World, kit: Kit) -> None:
    """Twelve calls stand on three cards that say so.

    None is left out, and each card decides its own (P14).
    """
    texts = [f"many {n}" for n in range(12)]
    thread = ask(world, *map(note, texts))
    world.card(SUPPORT, thread)
    world.settle()
    cards = [m for m in world.thread(SUPPORT, thread) if "approve_all" in action_ids(m)]
    assert [action_ids(card).count("approve") for card in cards] == [5, 5, 2]
    assert [f"Part {n} of 3" in words(card) for n, card in enumerate(cards, 1)] == [True] * 3
    assert all(text in "".join(map(words, cards)) for text in texts)
    world.person("ana").click(SUPPORT, cards[1]["ts"], "approve_all")
    until(world, thread, *["pending"] * 5, *["approved"] * 5, *["pending"] * 2)
    for nth in (0, 2):
        world.person("ana").click(SUPPORT, cards[nth]["ts"], "approve_all")
        arrived(world)
    world.said(SUPPORT, thread, "That is all.")
    world.settle()
    assert [kit.did("note", text) for text in texts] == [1] * 12
    assert [o["call_id"] for o in world.outputs()] == [
        c.provider_id for c in world.calls_in(thread)
    ]
    assert not [m for m in world.thread(SUPPORT, thread) if "approve" in action_ids(m)]


def test_two_routes_two_cards(world: World) -> None:
    """Calls of one plan that other people decide stand on cards of their own, each where it belongs
    (P01).
    """
    cancel: tuple[str, dict[str, Any]] = (
        "cancel_order",
        {"order_id": 1043, "reason": "changed their mind"},
    )
    thread = ask(world, note("here"), cancel)
    card = world.card(SUPPORT, thread)
    world.settle()
    assert action_ids(card).count("approve") == 1
    messages = world.all(Message, Message.run_id == world.run_in(thread).id, Message.kind == "card")
    assert sorted(m.channel for m in messages) == ["C0FINANCE", "C0SUPPORT"]
    world.person("ana").click(SUPPORT, card["ts"], "approve")
    until(world, thread, "approved", "pending")
    assert [c.status for c in world.calls_in(thread)] == [CallStatus.APPROVED, CallStatus.PENDING]
