"""Plans of several calls: decided one by one or together, and the order they run in."""

from __future__ import annotations

import json
from typing import Any

import pytest

from bot.demo.model_server import Turn
from storage.models import Audit, Message, Vote
from storage.states import CallStatus
from tests.stories.fakes import FakeTools
from tests.stories.harness import SUPPORT, Harness
from tests.stories.messages import action_ids, value_of, words
from tests.stories.steps import arrived, ask, now_at, open_modal, reject, told, typed


def build_note(text: str) -> tuple[str, dict[str, str]]:
    return ("note", {"text": text})


def statuses(harness: Harness, thread: str) -> list[str]:
    return [str(call.status) for call in harness.calls_in(thread)]


def wait_for_statuses(harness: Harness, thread: str, *expected: str) -> None:
    """Wait until the calls of the thread have these statuses."""
    harness.slack.wait(lambda: statuses(harness, thread) == list(expected))
    arrived(harness)


def test_calls_of_one_plan_can_be_decided_differently(harness: Harness, fakes: FakeTools) -> None:
    """Approved, edited and approved, rejected: one output each, in the model's order."""
    thread = ask(harness, build_note("one"), build_note("two"), build_note("three"))
    card = harness.card(SUPPORT, thread)
    harness.settle()
    reject(harness, "ana", SUPPORT, card, "not three", nth=2)
    wait_for_statuses(harness, thread, "pending", "pending", "rejected")
    open_modal(harness, "ana", SUPPORT, card, "edit", 1)
    harness.person("ana").submit(typed(text="two and a half"))
    harness.said(SUPPORT, thread, "✏️")
    harness.settle()
    drawn = now_at(harness, SUPPORT, card["ts"])
    harness.person("cleo").click(
        SUPPORT, card["ts"], "approve", value=value_of(drawn, "approve", 1)
    )
    wait_for_statuses(harness, thread, "pending", "approved", "rejected")
    assert not fakes.did("note", "two and a half")
    harness.person("cleo").click(
        SUPPORT, card["ts"], "approve", value=value_of(drawn, "approve", 0), seen=drawn
    )
    harness.said(SUPPORT, thread, "That is all.")
    harness.settle()

    calls = harness.calls_in(thread)
    outputs = harness.outputs()
    assert [o["call_id"] for o in outputs] == [c.provider_id for c in calls]
    assert [o["output"].split(".")[0].split(" ")[0] for o in outputs] == [
        "SUCCEEDED",
        "SUCCEEDED",
        "REJECTED",
    ]
    assert "two and a half" in outputs[1]["output"]
    assert "not three" in outputs[2]["output"]
    assert [fakes.did("note", text) for text in ("one", "two", "two and a half", "three")] == [
        1,
        0,
        1,
        0,
    ]


def test_a_plan_runs_in_order_and_stops_at_a_failure(harness: Harness, fakes: FakeTools) -> None:
    """After a failed call the rest is cancelled, and the model is told why."""
    thread = ask(harness, build_note("before"), ("refuse", {"text": "x"}), build_note("after"))
    card = harness.card(SUPPORT, thread)
    harness.settle()
    harness.person("ana").click(SUPPORT, card["ts"], "approve_all")
    harness.said(SUPPORT, thread, "That is all.")
    harness.settle()
    assert statuses(harness, thread) == ["succeeded", "failed", "cancelled"]
    assert "an earlier step of the plan failed" in harness.outputs()[2]["output"]
    assert (fakes.did("note", "before"), fakes.did("note", "after")) == (1, 0)


def test_reads_of_a_plan_run_before_the_rest_is_decided(harness: Harness, fakes: FakeTools) -> None:
    """They do not run again when the rest is decided."""
    thread = ask(
        harness,
        ("peek", {"text": "mixed"}),
        build_note("mixed"),
        ("peek", {"text": "mixed too"}),
    )
    card = harness.card(SUPPORT, thread)
    wait_for_statuses(harness, thread, "succeeded", "pending", "succeeded")
    assert (fakes.did("peek", "mixed"), fakes.did("peek", "mixed too")) == (1, 1)
    harness.person("ana").click(SUPPORT, card["ts"], "approve")
    harness.said(SUPPORT, thread, "That is all.")
    harness.settle()
    assert (
        fakes.did("peek", "mixed"),
        fakes.did("peek", "mixed too"),
        fakes.did("note", "mixed"),
    ) == (
        1,
        1,
        1,
    )
    assert [o["call_id"] for o in harness.outputs()] == [
        c.provider_id for c in harness.calls_in(thread)
    ]


def test_a_partly_decided_plan_survives_a_restart(harness: Harness, fakes: FakeTools) -> None:
    """The rest is decided on the same card, and each call runs once."""
    thread = ask(harness, build_note("early"), build_note("late"))
    card = harness.card(SUPPORT, thread)
    harness.person("ana").click(SUPPORT, card["ts"], "approve", value=value_of(card, "approve", 0))
    wait_for_statuses(harness, thread, "approved", "pending")
    harness.restart()
    assert not fakes.did("note", "early")
    harness.person("ana").click(SUPPORT, card["ts"], "approve")
    harness.said(SUPPORT, thread, "That is all.")
    harness.settle()
    assert statuses(harness, thread) == ["succeeded", "succeeded"]
    assert (fakes.did("note", "early"), fakes.did("note", "late")) == (1, 1)


def test_two_people_decide_calls_of_one_card_at_once(harness: Harness, fakes: FakeTools) -> None:
    """Both votes count, and the card shows both people."""
    thread = ask(harness, build_note("left"), build_note("right"))
    card = harness.card(SUPPORT, thread)
    for nth, name in enumerate(("ana", "cleo")):
        harness.person(name).click(
            SUPPORT, card["ts"], "approve", value=value_of(card, "approve", nth), seen=card
        )
    harness.said(SUPPORT, thread, "That is all.")
    harness.settle()
    assert [
        row.person
        for c in harness.calls_in(thread)
        for row in harness.all(Vote, Vote.call_id == c.id)
    ] == [
        "UANA00001",
        "UCLEO0001",
    ]
    drawn = words(now_at(harness, SUPPORT, card["ts"]))
    assert "UANA00001" in drawn
    assert "UCLEO0001" in drawn
    assert '"button"' not in drawn
    assert (fakes.did("note", "left"), fakes.did("note", "right")) == (1, 1)


@pytest.mark.parametrize("verb", ["approve", "reject"])
def test_deciding_all_records_each_call(harness: Harness, fakes: FakeTools, verb: str) -> None:
    """One vote, one audit row and one digest for each call."""
    thread = ask(
        harness,
        build_note(f"{verb} a"),
        build_note(f"{verb} b"),
        build_note(f"{verb} c"),
    )
    card = harness.card(SUPPORT, thread)
    harness.settle()
    if verb == "approve":
        harness.person("ana").click(SUPPORT, card["ts"], "approve_all")
    else:
        view = open_modal(harness, "ana", SUPPORT, card, "reject_all")
        assert f"{verb} b" in json.dumps(view["blocks"], ensure_ascii=False)
        chosen = view["blocks"][1]["element"]["options"][0]
        assert (
            harness.person("ana").submit({"reason": {"preset": {"selected_option": chosen}}})[
                "outcome"
            ]
            == "closed"
        )
    harness.said(SUPPORT, thread, "That is all.")
    harness.settle()

    calls = harness.calls_in(thread)
    votes = [row for c in calls for row in harness.all(Vote, Vote.call_id == c.id)]
    assert [(v.verb, v.person, v.digest) for v in votes] == [
        (verb, "UANA00001", c.digest) for c in calls
    ]
    event = "call.approved" if verb == "approve" else "call.rejected"
    rows = [
        row
        for c in calls
        for row in harness.all(Audit, Audit.call_id == c.id, Audit.event == event)
    ]
    assert [json.loads(row.data)["digest"] for row in rows] == [c.digest for c in calls]
    assert len({c.digest for c in calls}) == 3
    assert [fakes.did("note", f"{verb} {x}") for x in "abc"] == [int(verb == "approve")] * 3


def test_approve_all_is_refused_for_a_changed_plan(harness: Harness, fakes: FakeTools) -> None:
    """One call was edited after the card was seen; on the new card all can be approved."""
    thread = ask(harness, build_note("p"), build_note("q"))
    card = harness.card(SUPPORT, thread)
    open_modal(harness, "ben", SUPPORT, card, "edit", 1)
    harness.person("ben").submit(typed(text="q2"))
    harness.said(SUPPORT, thread, "✏️")
    harness.settle()
    harness.person("ana").click(SUPPORT, card["ts"], "approve_all", seen=card)
    told(harness, "ana", SUPPORT, thread, "This was out of date")
    assert statuses(harness, thread) == ["pending", "pending"]
    person = harness.person("cleo")
    person.click(SUPPORT, card["ts"], "reject_all", value=value_of(card, "reject_all"), seen=card)
    told(harness, "cleo", SUPPORT, thread, "This was out of date")
    assert person.view() is None
    harness.person("ana").click(SUPPORT, card["ts"], "approve_all")
    harness.said(SUPPORT, thread, "That is all.")
    harness.settle()
    assert [fakes.did("note", text) for text in ("p", "q", "q2")] == [1, 0, 1]


def test_approve_all_leaves_calls_that_the_voter_edited(harness: Harness, fakes: FakeTools) -> None:
    """The edited call waits for somebody else; the other one is approved."""
    thread = ask(harness, build_note("r"), build_note("s"))
    card = harness.card(SUPPORT, thread)
    open_modal(harness, "ana", SUPPORT, card, "edit", 0)
    harness.person("ana").submit(typed(text="r2"))
    harness.said(SUPPORT, thread, "✏️")
    harness.settle()
    harness.person("ana").click(SUPPORT, card["ts"], "approve_all")
    told(harness, "ana", SUPPORT, thread, "You edited this, so somebody else has to approve it.")
    wait_for_statuses(harness, thread, "pending", "approved")
    harness.person("cleo").click(SUPPORT, card["ts"], "approve")
    harness.said(SUPPORT, thread, "That is all.")
    assert [fakes.did("note", text) for text in ("r2", "s")] == [1, 1]


def test_calls_proposed_later_get_a_new_card(harness: Harness, fakes: FakeTools) -> None:
    """Approving a plan covers its calls only, even if the same call is proposed again."""
    harness.planner.script(
        Turn(calls=[build_note("plan 1"), build_note("plan 1b")]),
        Turn(calls=[build_note("plan 2"), build_note("plan 1")]),
    )
    harness.planner.script(Turn(text="Both done."))
    thread = harness.person("ben").say(SUPPORT, "@bot two plans")
    first = harness.card(SUPPORT, thread)
    harness.settle()
    harness.person("ana").click(SUPPORT, first["ts"], "approve_all")
    second = harness.said(SUPPORT, thread, "plan 2")
    harness.settle()
    assert second["ts"] != first["ts"]
    assert statuses(harness, thread) == ["succeeded", "succeeded", "pending", "pending"]
    harness.person("ana").click(SUPPORT, first["ts"], "approve_all", seen=first)
    told(harness, "ana", SUPPORT, thread, "This was out of date")
    assert fakes.did("note", "plan 2") == 0
    assert fakes.did("note", "plan 1") == 1
    harness.person("ana").click(SUPPORT, second["ts"], "approve_all")
    harness.said(SUPPORT, thread, "Both done.")
    assert (fakes.did("note", "plan 2"), fakes.did("note", "plan 1")) == (1, 2)


def test_a_long_plan_is_split_over_several_cards(harness: Harness, fakes: FakeTools) -> None:
    """Twelve calls are shown on three numbered cards, each of which decides its own calls."""
    texts = [f"many {n}" for n in range(12)]
    thread = ask(harness, *map(build_note, texts))
    harness.card(SUPPORT, thread)
    harness.settle()
    cards = [m for m in harness.thread(SUPPORT, thread) if "approve_all" in action_ids(m)]
    assert [action_ids(card).count("approve") for card in cards] == [5, 5, 2]
    assert [f"Part {n} of 3" in words(card) for n, card in enumerate(cards, 1)] == [True] * 3
    assert all(text in "".join(map(words, cards)) for text in texts)
    harness.person("ana").click(SUPPORT, cards[1]["ts"], "approve_all")
    wait_for_statuses(harness, thread, *["pending"] * 5, *["approved"] * 5, *["pending"] * 2)
    for nth in (0, 2):
        harness.person("ana").click(SUPPORT, cards[nth]["ts"], "approve_all")
        arrived(harness)
    harness.said(SUPPORT, thread, "That is all.")
    harness.settle()
    assert [fakes.did("note", text) for text in texts] == [1] * 12
    assert [o["call_id"] for o in harness.outputs()] == [
        c.provider_id for c in harness.calls_in(thread)
    ]
    assert not [m for m in harness.thread(SUPPORT, thread) if "approve" in action_ids(m)]


def test_calls_decided_in_different_channels_get_separate_cards(harness: Harness) -> None:
    """The finance channel decides about one call of the plan."""
    cancel: tuple[str, dict[str, Any]] = (
        "cancel_order",
        {"order_id": 1043, "reason": "changed their mind"},
    )
    thread = ask(harness, build_note("here"), cancel)
    card = harness.card(SUPPORT, thread)
    harness.settle()
    assert action_ids(card).count("approve") == 1
    messages = harness.all(
        Message, Message.run_id == harness.run_in(thread).id, Message.kind == "card"
    )
    assert sorted(m.channel for m in messages) == ["C0FINANCE", "C0SUPPORT"]
    harness.person("ana").click(SUPPORT, card["ts"], "approve")
    wait_for_statuses(harness, thread, "approved", "pending")
    assert [c.status for c in harness.calls_in(thread)] == [CallStatus.APPROVED, CallStatus.PENDING]
