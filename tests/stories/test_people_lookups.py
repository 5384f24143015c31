"""Looking people up delays nobody else, and a crowd costs no more than a few people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from slack_sandbox.workspace.people import Person
from storage.states import CallStatus
from tests.stories.fakes import FakeTools
from tests.stories.harness import SUPPORT, Harness
from tests.stories.steps import arrived, ask, ask_for, forget_people, menu, statuses, told

POLICY = """
[defaults]
approvers = ["@shop-leads"]
deadline = "1h"

[[rule]]
tool = "put"
verdict = "ask"
approvers = ["channel"]
deadline = "10m"

[[rule]]
tool = "wipe"
verdict = "ask"
approvers = ["channel"]
post_to = "#support"
"""
CROWD = 300  # people; far more than users.info answers in a minute


@pytest.fixture(scope="module")
def lookups_harness(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harness]:
    """A bot whose policy lets a channel's members decide."""
    harness = Harness(tmp_path_factory.mktemp("lookups"), FakeTools().tools, POLICY)
    yield harness
    harness.close()


@pytest.fixture
def harness(lookups_harness: Harness) -> Iterator[Harness]:
    """That bot, at rest and with no look-ups cached."""
    forget_people(lookups_harness)
    yield lookups_harness
    lookups_harness.slack.rates.enabled = False
    lookups_harness.reset()


def count_requests(harness: Harness, since: int) -> Counter[str]:
    """Count the bot's calls of each method after the first `since` requests."""
    return Counter(each.method for each in harness.slack.requests[since:])


def test_a_slow_look_up_delays_only_its_own_click(harness: Harness) -> None:
    """While Dan is being looked up, Ana's click is decided and a deadline falls. Dan's click is
    handled afterwards.
    """
    late, _ = ask_for(harness, "expires", "put")
    mine, card = ask_for(harness, "ana decides")
    harness.settle()
    forget_people(harness)
    hold = harness.slack.faults.hold("users.info", person="dan")
    dan = harness.person("dan").click(SUPPORT, card["ts"], "approve")
    assert dan.wait() == "acked"
    assert hold.arrived.wait(30)
    harness.person("ana").click(SUPPORT, card["ts"], "approve", seen=card)
    harness.slack.wait(lambda: statuses(harness, mine) == [CallStatus.SUCCEEDED])
    harness.clock.advance(700)
    harness.slack.wait(lambda: statuses(harness, late) == [CallStatus.EXPIRED])
    hold.release()
    assert "approved this" in told(harness, "dan", SUPPORT, mine, "<@UANA00001>")


def test_clicks_of_one_person_in_a_thread_keep_their_order(harness: Harness) -> None:
    """A second click of a person who is being looked up waits for the first one."""
    thread = ask(harness, ("note", {"text": "twice"}))
    card = harness.card(SUPPORT, thread)
    harness.settle()
    forget_people(harness)
    hold = harness.slack.faults.hold("users.info", person="ana")
    ana = harness.person("ana")
    ana.click(SUPPORT, card["ts"], "approve", seen=card)
    assert hold.arrived.wait(30)
    # this one needs no look-up
    assert menu(harness, "ana", card, "cancel_run").wait() == "acked"
    hold.release()
    harness.said(SUPPORT, thread, "That is all.")
    arrived(harness)
    assert statuses(harness, thread) == [CallStatus.SUCCEEDED]
    told(harness, "ana", SUPPORT, thread, "who asked for this, can cancel it")


@pytest.mark.parametrize("tool", ["put", "wipe"])
def test_a_channel_of_hundreds_is_asked_within_slacks_limits(harness: Harness, tool: str) -> None:
    """A card for a channel's members takes few look-ups, and so does the click of one of them. A
    guest is told when they click.
    """
    world = harness.slack.world
    crowd = [Person(f"m{n}", f"UM{n:07}", f"Member {n}") for n in range(CROWD)]
    with world.lock:
        world.people |= {each.name: each for each in crowd}
        world.by_id |= {each.id: each for each in crowd}
        world.channels[SUPPORT].members += [each.id for each in crowd]
    forget_people(harness)
    harness.slack.rates.enabled = True
    before = len(harness.slack.requests)
    thread = ask(harness, (tool, {"text": "crowd"}))
    place = thread if tool == "put" else None
    card = harness.card(SUPPORT, place, "m5")
    harness.person("gus").click(SUPPORT, card["ts"], "approve", seen=card)
    told(harness, "gus", SUPPORT, place or card["ts"], "only full members of this workspace")
    harness.person("m299").click(SUPPORT, card["ts"], "approve", seen=card)
    harness.slack.wait(lambda: statuses(harness, thread) == [CallStatus.SUCCEEDED])
    found = count_requests(harness, before)
    assert found["users.info"] < 20
    assert found["conversations.members"] + found["conversations.list"] < 5
    assert found["users.list"] == 0
    with world.lock:
        world.channels[SUPPORT].members = [
            user for user in world.channels[SUPPORT].members if not user.startswith("UM")
        ]


def test_people_of_an_enterprise_grid_decide_in_their_workspaces(harness: Harness) -> None:
    """Slack lists the workspaces beside the account."""
    people = harness.slack.people
    people["ben"].grid_teams = people["ana"].grid_teams = ("T0FIRST00", "T0SANDBOX")
    people["cleo"].grid_teams = ("T0FIRST00",)
    forget_people(harness)
    try:
        thread = ask(harness, ("note", {"text": "grid"}))
        card = harness.card(SUPPORT, thread)
        harness.person("cleo").click(SUPPORT, card["ts"], "approve")
        told(harness, "cleo", SUPPORT, thread, "only full members of this workspace")
        harness.person("ana").click(SUPPORT, card["ts"], "approve")
        harness.said(SUPPORT, thread, "That is all.")
    finally:
        for name in ("ana", "ben", "cleo"):
            people[name].grid_teams = ()
        forget_people(harness)
    assert statuses(harness, thread) == [CallStatus.SUCCEEDED]
