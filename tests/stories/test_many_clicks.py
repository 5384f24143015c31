"""Fifty clicks at once."""

from __future__ import annotations

import functools
from typing import Any

from bot.demo.model_server import Turn
from storage.states import CallStatus
from tests.stories.fakes import FakeTools
from tests.stories.harness import SUPPORT, Harness
from tests.stories.messages import words
from tests.stories.steps import forget_people, took

C = CallStatus


def test_fifty_clicks_are_acknowledged_and_decided(harness: Harness, fakes: FakeTools) -> None:
    """Slack is slow to say who the people are."""
    cards: list[tuple[dict[str, Any], str, str]] = []  # card, thread, person who clicks
    for who, approver, count in (("ben", "ana", 20), ("dan", "cleo", 20), ("ana", "cleo", 10)):
        harness.planner.script(Turn(calls=[("note", {"text": f"{who} {n}"}) for n in range(count)]))
        thread = harness.person(who).say(SUPPORT, "@bot very many")
        harness.slack.wait(functools.partial(_has_cards, harness, thread, count // 5))
        cards += [(card, thread, approver) for card in _list_cards(harness, thread)]
    harness.planner.script(*[Turn(text="All of them.")] * 3)
    harness.settle()
    forget_people(harness)
    slow = harness.slack.faults.hold("usergroups.list")
    clicks = [
        harness.person(approver).click(SUPPORT, card["ts"], "approve", value=value)
        for card, _, approver in cards
        for value in _list_button_values(card)
    ]
    assert [click.wait() for click in clicks] == ["acked"] * 50
    assert max(took(click) for click in clicks) < 3
    threads = {thread for _, thread, _ in cards}
    assert {call.status for thread in threads for call in harness.calls_in(thread)} == {C.PENDING}
    slow.release()
    for thread in threads:
        harness.said(SUPPORT, thread, "All of them.")
    assert [fakes.did("note", f"ben {n}") for n in range(20)] == [1] * 20
    assert {call.status for thread in threads for call in harness.calls_in(thread)} == {C.SUCCEEDED}


def _has_cards(harness: Harness, thread: str, count: int) -> bool:
    return len(_list_cards(harness, thread)) == count


def _list_cards(harness: Harness, thread: str) -> list[dict[str, Any]]:
    return [m for m in harness.thread(SUPPORT, thread, "ana") if '"approve"' in words(m)]


def _list_button_values(card: dict[str, Any]) -> list[str]:
    return [
        e["value"]
        for b in card["blocks"]
        for e in b.get("elements", [])
        if e.get("action_id") == "approve"
    ]
