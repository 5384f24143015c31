"""One step after the other: whose turn it is, who is told, and that nobody stands for two steps."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from storage.models import Message
from storage.states import CallStatus
from tests.stories.kit import Kit
from tests.stories.world import (
    SUPPORT,
    World,
    action_ids,
    arrived,
    ask,
    now_at,
    open_modal,
    reject,
    showing,
    told,
    typed,
    words,
)

C = CallStatus
TURN = "your approval comes next"
POLICY = """
[defaults]
stages = [{approvers = ["@shop-leads"]}, {approvers = ["UDAN00001"]}]

[[rule]]
tool = "put"
verdict = "ask"
post_to = "approvers"

[[rule]]
tool = "async_note"
verdict = "ask"
stages = [{approvers = ["@shop-leads"]}, {approvers = ["@shop-leads"]}]
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[World, Kit]]:
    """A world where first a shop lead and then Dan approve."""
    kit = Kit()
    world = World(tmp_path_factory.mktemp("stages"), kit.tools, POLICY)
    yield world, kit
    world.close()


@pytest.fixture
def world(made: tuple[World, Kit]) -> Iterator[World]:
    """It, at rest."""
    yield made[0]
    made[0].reset()


@pytest.fixture
def kit(made: tuple[World, Kit]) -> Kit:
    """Its tools, and what they did."""
    return made[1]


def vote(world: World, who: str, card: dict[str, Any], channel: str = SUPPORT) -> dict[str, Any]:
    """Approve; returns the card as it stands when the vote has been dealt with."""
    world.person(who).click(channel, card["ts"], "approve")
    arrived(world)
    return now_at(world, channel, card["ts"], who)


def statuses(world: World, thread: str) -> list[CallStatus]:
    return [call.status for call in world.calls_in(thread)]


def cards_of(world: World, who: str, text: str) -> list[dict[str, Any]]:
    """The cards about `text` among this person's direct messages."""
    dm = world.person(who).dm_channel
    return [
        m for m in world.person(who).messages(dm) if text in words(m) and "approve" in action_ids(m)
    ]


def test_first_one_then_the_other(world: World, kit: Kit) -> None:
    """Stage two may not approve early and is told whose turn it is.

    Then it is told that its turn has come.
    """
    thread = ask(world, ("note", {"text": "in order"}))
    card = world.card(SUPPORT, thread)
    assert "Step 1 of 2  ·  1 approval needed in this step" in words(card)
    vote(world, "dan", card)
    sentence = told(world, "dan", SUPPORT, thread, "It is not your turn")
    assert "<@UANA00001>, <@UCLEO0001>" in sentence
    assert not showing(world, SUPPORT, thread, TURN)
    drawn = vote(world, "ana", card)
    assert "Step 2 of 2  ·  ✅ <@UANA00001>  ·  1 more approval needed in this step" in words(drawn)
    assert "➡️ <@UDAN00001>: your approval comes next" in words(world.said(SUPPORT, thread, TURN))
    assert statuses(world, thread) == [C.PENDING]
    vote(world, "dan", drawn)
    world.said(SUPPORT, thread, "That is all.")
    assert (statuses(world, thread), kit.did("note", "in order")) == ([C.SUCCEEDED], 1)
    assert "Approved by <@UANA00001>, <@UDAN00001>" in world.outputs()[0]["output"]


def test_a_later_stage_may_say_no_early(world: World, kit: Kit) -> None:
    """A no needs no turn: it ends the call before the first stage has looked."""
    thread = ask(world, ("note", {"text": "early no"}))
    reject(world, "dan", SUPPORT, world.card(SUPPORT, thread), "never")
    world.said(SUPPORT, thread, "That is all.")
    assert (statuses(world, thread), kit.did("note", "early no")) == ([C.REJECTED], 0)


def test_an_earlier_stage_cannot_take_it_back_by_voting_again(world: World, kit: Kit) -> None:
    """Once the second step is open, people of the first are told they are no approvers of this
    step.
    """
    thread = ask(world, ("note", {"text": "again"}))
    card = vote(world, "ana", world.card(SUPPORT, thread))
    vote(world, "cleo", card)
    told(world, "cleo", SUPPORT, thread, "It is not your turn")
    assert statuses(world, thread) == [C.PENDING]
    reject(world, "cleo", SUPPORT, card, "on second thoughts")
    world.said(SUPPORT, thread, "That is all.")
    assert (statuses(world, thread), kit.did("note", "again")) == ([C.REJECTED], 0)


def test_in_direct_messages(world: World, kit: Kit) -> None:
    """With post_to = "approvers" the second step's people get their card when, and only when, it is
    their turn.
    """
    thread = ask(world, ("put", {"text": "privately"}))
    dms = {who: world.person(who).dm_channel for who in ("ana", "cleo", "dan")}
    card = world.slack.wait(lambda: cards_of(world, "ana", "privately"))[0]
    world.settle()
    assert [len(cards_of(world, who, "privately")) for who in dms] == [1, 1, 0]
    vote(world, "ana", card, dms["ana"])
    [theirs] = world.slack.wait(lambda: cards_of(world, "dan", "privately"))
    assert "Step 2 of 2" in words(theirs)
    vote(world, "dan", theirs, dms["dan"])
    world.said(SUPPORT, thread, "That is all.")
    world.settle()
    assert (statuses(world, thread), kit.did("put", "privately")) == ([C.SUCCEEDED], 1)
    # all copies are decided now (S12)
    assert not any(cards_of(world, who, "privately") for who in dms)


def test_nobody_stands_for_two_steps(world: World, kit: Kit) -> None:
    """Both steps name the same group: it takes two of its people (A08)."""
    thread = ask(world, ("async_note", {"text": "four eyes"}))
    card = vote(world, "ana", world.card(SUPPORT, thread))
    world.said(SUPPORT, thread, TURN)
    vote(world, "ana", card)
    told(world, "ana", SUPPORT, thread, "You already approved this")
    assert statuses(world, thread) == [C.PENDING]
    vote(world, "cleo", card)
    world.said(SUPPORT, thread, "That is all.")
    assert kit.did("async_note", "four eyes") == 1


def test_too_few_for_both_steps(world: World, kit: Kit) -> None:
    """One of the group's two people asks, so one person is left for two steps: refused, with the
    number.
    """
    thread = ask(world, ("async_note", {"text": "alone"}), who="ana")
    world.said(
        SUPPORT, thread, "it needs 2 people to approve it, and 1 too few can be reached", "ana"
    )
    world.said(SUPPORT, thread, "That is all.", "ana")
    assert (statuses(world, thread), kit.did("async_note", "alone")) == ([C.REFUSED], 0)


def test_an_edit_goes_back_to_the_first_step(world: World, kit: Kit) -> None:
    """Dan edits when it is his turn: the first step's approval was for something else (B09)."""
    thread = ask(world, ("note", {"text": "was"}))
    card = vote(world, "ana", world.card(SUPPORT, thread))
    open_modal(world, "ben", SUPPORT, card, "edit")
    world.person("ben").submit(typed(text="is"))
    arrived(world)
    drawn = now_at(world, SUPPORT, card["ts"])
    assert "Step 1 of 2" in words(drawn)
    vote(world, "dan", drawn)
    told(world, "dan", SUPPORT, thread, "It is not your turn")
    for who in ("cleo", "dan"):
        assert kit.did("note", "is") == 0
        vote(world, who, drawn)
    world.said(SUPPORT, thread, "That is all.")
    assert (kit.did("note", "was"), kit.did("note", "is")) == (0, 1)


def test_a_restart_before_the_next_step_is_told(world: World, kit: Kit) -> None:
    """Told once: the vote, a restart and many looks later there is one line for the second step
    (T08).
    """
    thread = ask(world, ("note", {"text": "told once"}))
    card = vote(world, "ana", world.card(SUPPORT, thread))
    world.said(SUPPORT, thread, TURN)
    world.restart()
    world.clock.advance(600)
    world.settle()
    assert len(showing(world, SUPPORT, thread, TURN)) == 1
    [call] = world.calls_in(thread)
    assert len([row for row in world.all(Message) if row.key.startswith(f"nudge:{call.id}")]) == 1
    vote(world, "dan", card)
    world.said(SUPPORT, thread, "That is all.")
    assert kit.did("note", "told once") == 1


def test_the_deadline_falls_in_the_second_step(world: World, kit: Kit) -> None:
    """All steps share one deadline: the first step's yes does not carry it over (T04)."""
    thread = ask(world, ("note", {"text": "late"}))
    card = world.card(SUPPORT, thread)
    world.clock.advance(3000)
    vote(world, "ana", card)
    world.clock.advance(700)
    world.said(SUPPORT, thread, "That is all.")
    assert (statuses(world, thread), kit.did("note", "late")) == ([C.EXPIRED], 0)


def test_approve_all_counts_where_it_may(world: World, kit: Kit) -> None:
    """One click on two calls, one in each step: it counts for the one, and of the other it is told
    why not (P06).
    """
    thread = ask(world, ("note", {"text": "ahead"}), ("note", {"text": "behind"}))
    card = vote(world, "ana", world.card(SUPPORT, thread))
    assert "Step 2 of 2" in words(card)
    assert "Step 1 of 2" in words(card)
    for who, button in (("dan", "approve_all"), ("cleo", "approve")):
        world.person(who).click(SUPPORT, card["ts"], button)
        arrived(world)
        assert statuses(world, thread) == [C.APPROVED, C.PENDING]
    told(world, "dan", SUPPORT, thread, "It is not your turn")
    vote(world, "dan", card)
    world.said(SUPPORT, thread, "That is all.")
    assert (kit.did("note", "ahead"), kit.did("note", "behind")) == (1, 1)
