"""What the card's menu does beside deciding: withdraw one call, send the whole plan back."""

from __future__ import annotations

from collections.abc import Callable

from bot.demo.model_server import Turn
from storage.states import CallStatus
from tests.stories.fakes import FakeTools
from tests.stories.harness import SUPPORT, Harness
from tests.stories.steps import arrived, ask, menu, now_at, on_top, told

C = CallStatus


def test_who_asked_withdraws_one_call(harness: Harness, fakes: FakeTools) -> None:
    """Who asked takes one call back; nobody else can; the rest of the plan goes on."""
    thread = ask(harness, ("note", {"text": "keep"}), ("note", {"text": "drop"}))
    card = harness.card(SUPPORT, thread)
    [_, block, _] = [  # the last one is about the whole request
        b for b in card["blocks"] if "more" in [e.get("action_id") for e in b.get("elements", [])]
    ]
    drop = block["elements"][-1]["options"][-1]
    harness.person("ana").click(
        SUPPORT, card["ts"], "more", block["block_id"], selected=drop, seen=card
    )
    told(harness, "ana", SUPPORT, thread, "can withdraw it")
    harness.person("ben").click(
        SUPPORT, card["ts"], "more", block["block_id"], selected=drop, seen=card
    )
    harness.said(SUPPORT, thread, "withdrew")
    harness.person("ana").click(
        SUPPORT, card["ts"], "approve", seen=now_at(harness, SUPPORT, card["ts"])
    )
    harness.said(SUPPORT, thread, "That is all.")
    assert [call.status for call in harness.calls_in(thread)] == [C.SUCCEEDED, C.CANCELLED]
    assert (fakes.did("note", "keep"), fakes.did("note", "drop")) == (1, 0)


def test_a_plan_sent_back_is_remade(harness: Harness, fakes: FakeTools) -> None:
    """The whole plan dies, the model hears the words, one new plan stands in its place.

    Within a cap.
    """
    rounds = harness.app.core.settings.max_rounds
    harness.planner.script(
        *(Turn(calls=(("note", {"text": f"try {n}"}),)) for n in range(rounds + 1)),
        Turn(text="Well."),
    )
    thread = harness.person("ben").say(SUPPORT, "@bot try")
    for number in range(rounds + 1):
        harness.slack.wait(lambda number=number: len(harness.calls_in(thread)) == number + 1)
        harness.settle()
        card = harness.card(SUPPORT, thread)
        menu(harness, "ana", card, "send_back")
        harness.slack.wait(harness.person("ana").view)
        outcome = harness.person("ana").submit({"words": {"text": {"value": f"smaller {number}"}}})
        assert outcome["outcome"] == "closed"
    told(harness, "ana", SUPPORT, thread, f"sent back {rounds} times")
    assert [call.status for call in harness.calls_in(thread)] == [C.SUPERSEDED] * rounds + [
        C.PENDING
    ]
    assert '"smaller 2"' in harness.outputs()[-1]["output"]
    assert sum(count for (name, text), count in fakes.ran.items() if text.startswith("try")) == 0


def test_who_may_send_back(harness: Harness, fakes: FakeTools) -> None:
    """An approver or who asked; nobody else."""
    thread = ask(harness, ("note", {"text": "mine"}))
    card = harness.card(SUPPORT, thread)
    harness.slack.set_group("shop-leads", ["ana", "cleo", "dan"])
    arrived(harness)
    menu(harness, "dan", card, "send_back")
    harness.slack.wait(harness.person("dan").view)
    harness.slack.set_group("shop-leads", ["ana", "cleo"])
    arrived(harness)
    harness.person("dan").submit({"words": {"text": {"value": "no"}}})
    assert "cannot decide" in on_top(harness, "dan")
    harness.settle()
    assert [call.status for call in harness.calls_in(thread)] == [C.PENDING]


def test_an_unasked_call_of_which_nobody_knows(own_harness: Callable[..., Harness]) -> None:
    """Policy let it run, and its end is lost: who asked gets a card, and says what became of it."""
    fakes = FakeTools()
    harness = own_harness(
        fakes.tools,
        '[defaults]\napprovers = ["@shop-leads"]\n[[rule]]\ntool = "lose"\nverdict = "allow"\n',
    )
    thread = ask(harness, ("lose", {"text": "unasked"}))
    card = harness.card(SUPPORT, thread, "ben", having="resolve_done")
    harness.person("ana").click(SUPPORT, card["ts"], "resolve_done")
    told(harness, "ana", SUPPORT, thread, "You cannot decide this one")
    harness.person("ben").click(SUPPORT, card["ts"], "resolve_done")
    harness.said(SUPPORT, thread, "That is all.")
    harness.settle()
    [call] = harness.calls_in(thread)
    assert (call.status, fakes.did("lose", "unasked")) == (C.SUCCEEDED, 1)
    assert "DID happen" in harness.outputs()[0]["output"]
