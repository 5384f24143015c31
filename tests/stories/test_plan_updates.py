"""Which cards of a long plan a decision updates."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

from tests.stories.fakes import FakeTools
from tests.stories.harness import SUPPORT, Harness
from tests.stories.messages import action_ids, value_of
from tests.stories.steps import ask, now_at

CALLS = 20


def count_updates(harness: Harness) -> int:
    """Count the requests to Slack to update a message."""
    return sum(call.method == "chat.update" for call in harness.slack.requests)


def find_cards(harness: Harness, thread: str) -> list[dict[str, Any]]:
    """Return the plan's cards that still have buttons."""
    return [each for each in harness.thread(SUPPORT, thread) if "approve" in action_ids(each)]


def has_calls_left(harness: Harness, ts: str, left: int) -> bool:
    """Whether this many calls of that card can still be approved."""
    return action_ids(now_at(harness, SUPPORT, ts)).count("approve") == left


def test_a_vote_updates_only_its_own_card(own_harness: Any) -> None:
    """A plan of twenty calls on four cards: each vote updates one card, and so does a call's end.

    The buttons of the other cards still work, and only the answer is posted.
    """
    fakes = FakeTools()
    harness = own_harness(fakes.tools)
    thread = ask(harness, *(("note", {"text": f"n{n}"}) for n in range(CALLS)))
    harness.slack.wait(lambda: len(find_cards(harness, thread)) == 4)
    harness.settle()
    shown, before = find_cards(harness, thread), count_updates(harness)
    for card in shown[:-1]:
        for left in range(4, -1, -1):
            drawn = now_at(harness, SUPPORT, card["ts"])
            value = value_of(drawn, "approve")
            harness.person("ana").click(SUPPORT, card["ts"], "approve", value=value, seen=drawn)
            harness.slack.wait(partial(has_calls_left, harness, card["ts"], left))
            harness.settle()
    assert count_updates(harness) - before == 15
    last = shown[-1]  # as it was drawn before any vote
    harness.person("ana").click(SUPPORT, last["ts"], "approve_all", seen=last)
    harness.said(SUPPORT, thread, "That is all.")
    harness.settle()
    assert [fakes.did("note", f"n{n}") for n in range(CALLS)] == [1] * CALLS
    # calls that end during an update are drawn by the next one, and those that take long also as
    # they start
    assert count_updates(harness) - before <= 15 + 1 + 2 * CALLS
    mine = [m for m in harness.thread(SUPPORT, thread) if m.get("bot_id")]
    assert len([m for m in mine if not m.get("is_ephemeral")]) == len(shown) + 1
    assert "Done" in json.dumps([now_at(harness, SUPPORT, each["ts"]) for each in shown])
