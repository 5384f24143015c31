"""What the card's menu does beside deciding: withdraw one call, send the whole plan back."""

from __future__ import annotations

from collections.abc import Callable

from bot.sandbox.openai.server import Turn
from storage.states import CallStatus
from tests.stories.kit import Kit
from tests.stories.world import SUPPORT, World, ask, menu, now_at, told

C = CallStatus


def test_withdraw(world: World, kit: Kit) -> None:
    """Who asked takes one call back; nobody else can; the rest of the plan goes on."""
    thread = ask(world, ("note", {"text": "keep"}), ("note", {"text": "drop"}))
    card = world.card(SUPPORT, thread)
    [_, block] = [
        b for b in card["blocks"] if "more" in [e.get("action_id") for e in b.get("elements", [])]
    ]
    drop = block["elements"][-1]["options"][-1]
    world.person("ana").click(
        SUPPORT, card["ts"], "more", block["block_id"], selected=drop, seen=card
    )
    told(world, "ana", SUPPORT, thread, "can withdraw it")
    world.person("ben").click(
        SUPPORT, card["ts"], "more", block["block_id"], selected=drop, seen=card
    )
    world.said(SUPPORT, thread, "withdrew")
    world.person("ana").click(
        SUPPORT, card["ts"], "approve", seen=now_at(world, SUPPORT, card["ts"])
    )
    world.said(SUPPORT, thread, "That is all.")
    assert [call.status for call in world.calls_in(thread)] == [C.SUCCEEDED, C.CANCELLED]
    assert (kit.did("note", "keep"), kit.did("note", "drop")) == (1, 0)


def test_sent_back(world: World, kit: Kit) -> None:
    """The whole plan dies, the model hears the words, one new plan stands in its place.

    Within a cap (P09).
    """
    rounds = world.app.core.settings.max_rounds
    world.planner.script(
        *(Turn(calls=(("note", {"text": f"try {n}"}),)) for n in range(rounds + 1)),
        Turn(text="Well."),
    )
    thread = world.person("ben").say(SUPPORT, "@bot try")
    for number in range(rounds + 1):
        world.slack.wait(lambda number=number: len(world.calls_in(thread)) == number + 1)
        world.settle()
        card = world.card(SUPPORT, thread)
        menu(world, "ana", card, "send_back")
        world.slack.wait(world.person("ana").view)
        outcome = world.person("ana").submit({"words": {"text": {"value": f"smaller {number}"}}})
        assert outcome["outcome"] == "closed"
    told(world, "ana", SUPPORT, thread, f"sent back {rounds} times")
    assert [call.status for call in world.calls_in(thread)] == [C.SUPERSEDED] * rounds + [C.PENDING]
    assert '"smaller 2"' in world.outputs()[-1]["output"]
    assert sum(count for (name, text), count in kit.ran.items() if text.startswith("try")) == 0


def test_who_may_send_back(world: World, kit: Kit) -> None:
    """An approver or who asked; nobody else."""
    thread = ask(world, ("note", {"text": "mine"}))
    card = world.card(SUPPORT, thread)
    menu(world, "dan", card, "send_back")
    world.slack.wait(world.person("dan").view)
    outcome = world.person("dan").submit({"words": {"text": {"value": "no"}}})
    assert "cannot decide" in outcome["errors"]["words"]
    world.settle()
    assert [call.status for call in world.calls_in(thread)] == [C.PENDING]


def test_an_unasked_call_of_which_nobody_knows(own_world: Callable[..., World]) -> None:
    """Policy let it run, and its end is lost: who asked gets a card, and says what became of it."""
    kit = Kit()
    world = own_world(
        kit.tools,
        '[defaults]\napprovers = ["@shop-leads"]\n[[rule]]\ntool = "lose"\nverdict = "allow"\n',
    )
    thread = ask(world, ("lose", {"text": "unasked"}))
    card = world.card(SUPPORT, thread, "ben", having="resolve_done")
    world.person("ana").click(SUPPORT, card["ts"], "resolve_done")
    told(world, "ana", SUPPORT, thread, "You cannot decide this one")
    world.person("ben").click(SUPPORT, card["ts"], "resolve_done")
    world.said(SUPPORT, thread, "That is all.")
    world.settle()
    [call] = world.calls_in(thread)
    assert (call.status, kit.did("lose", "unasked")) == (C.SUCCEEDED, 1)
    assert "DID happen" in world.outputs()[0]["output"]
