"""All approvers of a waiting call leave the company or their group; its requester is told."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.stories.fakes import FakeTools
from tests.stories.harness import SUPPORT, Harness
from tests.stories.messages import words
from tests.stories.steps import all_sent, arrived, ask, forget_people, later, showing

POLICY = """
[defaults]
approvers = ["@shop-leads"]
deadline = "2h"
reminders = ["30m", "1h"]

[[rule]]
name = "directors"
tool = "wipe"
verdict = "ask"
silent = ["UDAN00001"]
"""
STUCK = "at the moment nobody can approve this"


@pytest.fixture(autouse=True)
def leads_restored(harness: Harness) -> Iterator[None]:
    """Ana and Cleo are the group's members again after a story."""
    yield
    for name in ("ana", "cleo"):
        harness.slack.people[name].deleted = False
    harness.slack.set_group("shop-leads", ["ana", "cleo"])
    arrived(harness)
    forget_people(harness)


@pytest.mark.parametrize("way", ["deactivated", "out of the group"])
def test_the_requester_is_told_once_that_nobody_can_approve(harness: Harness, way: str) -> None:
    """With the first reminder, which names nobody."""
    thread = ask(harness, ("note", {"text": way}))
    harness.card(SUPPORT, thread)
    harness.settle()
    if way == "deactivated":
        for name in ("ana", "cleo"):
            harness.slack.deactivate(name)
    else:
        harness.slack.set_group("shop-leads", [])
    arrived(harness)
    for _ in range(2):
        later(harness, 1850)
        all_sent(harness)
    [told] = showing(harness, SUPPORT, thread, STUCK)
    assert f"<@UBEN00001>: {STUCK}: Write “{way}”" in words(told)
    assert not showing(harness, SUPPORT, thread, "still waiting for a decision")


def test_somebody_who_is_not_notified_can_still_approve(harness: Harness, fakes: FakeTools) -> None:
    """Then the requester is not told that nobody can."""
    thread = ask(harness, ("wipe", {"text": "by Dan"}))
    card = harness.card(SUPPORT, thread, "dan")
    harness.settle()
    harness.slack.set_group("shop-leads", [])
    arrived(harness)
    later(harness, 1850)
    all_sent(harness)
    assert not showing(harness, SUPPORT, thread, STUCK)
    harness.person("dan").click(SUPPORT, card["ts"], "approve")
    harness.said(SUPPORT, thread, "That is all.")
    assert fakes.did("wipe", "by Dan") == 1
