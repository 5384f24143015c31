"""The card's menu beside deciding: withdrawing one call, and sending the whole plan back."""

from __future__ import annotations

from collections.abc import Callable

from bot.demo.model_server import Turn
from storage.states import CallStatus
from tests.stories.fakes import FakeTools
from tests.stories.harness import SUPPORT, Harness
from tests.stories.steps import arrived, ask, menu, now_at, on_top, told

C = CallStatus


def test_only_the_requester_withdraws_a_call(harness: Harness, fakes: FakeTools) -> None:
    """Nobody else can, and the rest of the plan goes on."""
    thread = ask(harness, ("note", {"text": "keep"}), ("note", {"text": "drop"}))
    card = harness.card(SUPPORT, thread)
    [_, block, _] = [  # the last menu is about the whole request
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


def test_a_plan_that_is_sent_back_is_replaced(harness: Harness, fakes: FakeTools) -> None:
    """Model and thread are told the approver's words. A plan can be sent back only so often."""
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
        if number < rounds:
            harness.said(SUPPORT, thread, f"Ana Ruiz sent the plan back: “smaller {number}”")
    told(harness, "ana", SUPPORT, thread, f"sent back {rounds} times")
    assert [call.status for call in harness.calls_in(thread)] == [C.SUPERSEDED] * rounds + [
        C.PENDING
    ]
    assert '"smaller 2"' in harness.outputs()[-1]["output"]
    assert sum(count for (name, text), count in fakes.ran.items() if text.startswith("try")) == 0


def test_a_former_approver_cannot_send_a_plan_back(harness: Harness, fakes: FakeTools) -> None:
    """Dan opened the dialog while he was an approver."""
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


def test_the_requester_settles_an_allowed_calls_unknown_outcome(
    own_harness: Callable[..., Harness],
) -> None:
    """The policy had allowed the call."""
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
