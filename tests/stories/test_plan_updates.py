"""How often the cards of a long plan are drawn again: those that a decision changed, no others."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

from tests.stories.fakes import FakeTools
from tests.stories.harness import SUPPORT, Harness
from tests.stories.messages import action_ids, value_of
from tests.stories.steps import ask, now_at

CALLS = 20


def updates(harness: Harness) -> int:
    """How many times Slack was asked to draw a message again."""
    return sum(call.method == "chat.update" for call in harness.slack.requests)


def cards(harness: Harness, thread: str) -> list[dict[str, Any]]:
    """The plan's cards with buttons, as they stand."""
    return [each for each in harness.thread(SUPPORT, thread) if "approve" in action_ids(each)]


def has(harness: Harness, ts: str, left: int) -> bool:
    """Whether so many calls of that card can still be approved."""
    return action_ids(now_at(harness, SUPPORT, ts)).count("approve") == left


def test_a_vote_draws_its_own_card_alone(own_harness: Any) -> None:
    """Of a plan of twenty on four cards each vote changes one card, and so does the end of a call.

    The buttons of the other cards stay good, and nothing is posted beside the answer.
    """
    fakes = FakeTools()
    harness = own_harness(fakes.tools)
    thread = ask(harness, *(("note", {"text": f"n{n}"}) for n in range(CALLS)))
    harness.slack.wait(lambda: len(cards(harness, thread)) == 4)
    harness.settle()
    shown, before = cards(harness, thread), updates(harness)
    for card in shown[:-1]:
        for left in range(4, -1, -1):
            drawn = now_at(harness, SUPPORT, card["ts"])
            value = value_of(drawn, "approve")
            harness.person("ana").click(SUPPORT, card["ts"], "approve", value=value, seen=drawn)
            harness.slack.wait(partial(has, harness, card["ts"], left))
            harness.settle()
    assert updates(harness) - before == 15
    last = shown[-1]  # as it was drawn before any vote
    harness.person("ana").click(SUPPORT, last["ts"], "approve_all", seen=last)
    harness.said(SUPPORT, thread, "That is all.")
    harness.settle()
    assert [fakes.did("note", f"n{n}") for n in range(CALLS)] == [1] * CALLS
    # what ends while a card is being drawn is drawn with the next
    assert updates(harness) - before <= 15 + 1 + CALLS
    mine = [m for m in harness.thread(SUPPORT, thread) if m.get("bot_id")]
    assert len([m for m in mine if not m.get("is_ephemeral")]) == len(shown) + 1
    assert "Done" in json.dumps([now_at(harness, SUPPORT, each["ts"]) for each in shown])
