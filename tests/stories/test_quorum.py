"""Several people decide: each counts once, what is still needed is shown, and silence is no all the
same.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from storage.models import Vote
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
    told,
    typed,
    words,
)

C = CallStatus
POLICY = """
[defaults]
approvers = ["UANA00001", "UCLEO0001", "UDAN00001"]
quorum = 2

[[rule]]
tool = "put"
verdict = "ask"
veto = 2

[[rule]]
tool = "wipe"
verdict = "ask"
approvers = ["@finance"]
quorum = 2
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[World, Kit]]:
    """A world where two of three people approve."""
    kit = Kit()
    world = World(tmp_path_factory.mktemp("quorum"), kit.tools, POLICY)
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


def vote(world: World, who: str, card: dict[str, Any], **how: Any) -> dict[str, Any]:
    """Approve; returns the card as it stands when the vote has been dealt with."""
    world.person(who).click(SUPPORT, card["ts"], "approve", **how)
    arrived(world)
    return now_at(world, SUPPORT, card["ts"])


def statuses(world: World, thread: str) -> list[CallStatus]:
    return [call.status for call in world.calls_in(thread)]


def test_the_second_person_runs_it(world: World, kit: Kit) -> None:
    """The card counts down, one person twice counts once, and the model hears who approved (A08)."""
    thread = ask(world, ("note", {"text": "two"}))
    card = world.card(SUPPORT, thread)
    assert "2 approvals needed" in words(card)
    drawn = vote(world, "ana", card)
    assert "✅ <@UANA00001>  ·  1 more approval needed" in words(drawn)
    world.said(SUPPORT, thread, "✅ <@UANA00001> approved: Write “two” (1 more approval needed)")
    vote(world, "ana", drawn)
    told(world, "ana", SUPPORT, thread, "You already approved this")
    assert (statuses(world, thread), kit.did("note", "two")) == ([C.PENDING], 0)
    drawn = vote(world, "cleo", drawn)
    world.said(SUPPORT, thread, "That is all.")
    assert (statuses(world, thread), kit.did("note", "two")) == ([C.SUCCEEDED], 1)
    assert "Approved by <@UANA00001>, <@UCLEO0001>" in world.outputs()[0]["output"]
    [call] = world.calls_in(thread)
    assert [each for each in world.audit_of(call) if "vote" in each or "approved" in each] == [
        "call.vote.approve",
        "call.approved",
    ]


def test_both_count_in_the_same_second(world: World, kit: Kit) -> None:
    """Two people at once on the card as it was: both votes count, and it runs once (X02)."""
    thread = ask(world, ("note", {"text": "at once"}))
    card = world.card(SUPPORT, thread)
    with ThreadPoolExecutor(2) as pool:
        list(
            pool.map(
                lambda who: world.person(who).click(SUPPORT, card["ts"], "approve", seen=card),
                ("ana", "dan"),
            )
        )
    world.said(SUPPORT, thread, "That is all.")
    world.settle()
    [call] = world.calls_in(thread)
    assert {row.person for row in world.all(Vote, Vote.call_id == call.id)} == {
        "UANA00001",
        "UDAN00001",
    }
    assert kit.did("note", "at once") == 1


def test_one_vote_and_then_the_deadline(world: World, kit: Kit) -> None:
    """Half an approval is none: the clock denies, and says expired, not rejected (T04)."""
    thread = ask(world, ("note", {"text": "half"}))
    card = vote(world, "ana", world.card(SUPPORT, thread))
    world.clock.advance(3601)
    world.said(SUPPORT, thread, "That is all.")
    world.settle()
    assert (statuses(world, thread), kit.did("note", "half")) == ([C.EXPIRED], 0)
    assert world.outputs()[0]["output"].startswith("EXPIRED")
    vote(world, "cleo", card, seen=card)
    told(world, "cleo", SUPPORT, thread, "Too late")
    assert statuses(world, thread) == [C.EXPIRED]


def test_one_rejection_ends_it_whatever_the_quorum(world: World, kit: Kit) -> None:
    """Without `veto` a single no is enough, also after a yes."""
    thread = ask(world, ("note", {"text": "no"}))
    card = vote(world, "ana", world.card(SUPPORT, thread))
    assert reject(world, "dan", SUPPORT, card, "not today")["outcome"] == "closed"
    world.said(SUPPORT, thread, "That is all.")
    assert (statuses(world, thread), kit.did("note", "no")) == ([C.REJECTED], 0)


def test_a_veto_of_two(world: World, kit: Kit) -> None:
    """The first no leaves it open and is shown.

    The second ends it, and the model hears both reasons.
    """
    thread = ask(world, ("put", {"text": "veto"}))
    card = world.card(SUPPORT, thread)
    assert "2 rejections would end it" in words(card)
    reject(world, "ana", SUPPORT, card, "too dear")
    arrived(world)
    drawn = now_at(world, SUPPORT, card["ts"])
    assert statuses(world, thread) == [C.PENDING]
    assert "🚫 <@UANA00001>" in words(drawn)
    assert "1 more rejection would end it" in words(drawn)
    vote(world, "ana", drawn)
    told(world, "ana", SUPPORT, thread, "You already rejected this")
    reject(world, "dan", SUPPORT, drawn, "too late")
    world.said(SUPPORT, thread, "That is all.")
    assert statuses(world, thread) == [C.REJECTED]
    output = world.outputs()[0]["output"]
    assert "<@UANA00001>, <@UDAN00001>" in output
    assert "too dear" in output
    assert "too late" in output


def test_a_no_that_is_outvoted(world: World, kit: Kit) -> None:
    """Under a veto of two, two others can still approve after one no."""
    thread = ask(world, ("put", {"text": "outvoted"}))
    card = world.card(SUPPORT, thread)
    reject(world, "ana", SUPPORT, card, "hm")
    arrived(world)
    for who in ("cleo", "dan"):
        vote(world, who, card)
    world.said(SUPPORT, thread, "That is all.")
    assert (statuses(world, thread), kit.did("put", "outvoted")) == ([C.SUCCEEDED], 1)
    assert "Approved by <@UCLEO0001>, <@UDAN00001>" in world.outputs()[0]["output"]


def test_an_edit_drops_all_votes(world: World, kit: Kit) -> None:
    """The votes were for other arguments: older buttons are dead, and it takes two people anew
    (B09, B10).
    """
    thread = ask(world, ("note", {"text": "before"}))
    card = vote(world, "ana", world.card(SUPPORT, thread))
    open_modal(world, "ben", SUPPORT, card, "edit")
    assert world.person("ben").submit(typed(text="after"))["outcome"] == "closed"
    arrived(world)
    vote(world, "cleo", card, seen=card)
    told(world, "cleo", SUPPORT, thread, "out of date")
    drawn = now_at(world, SUPPORT, card["ts"])
    assert "2 approvals needed" in words(drawn)
    assert "✅" not in words(drawn)
    vote(world, "cleo", drawn)
    assert (
        statuses(world, thread),
        sum(kit.did("note", text) for text in ("before", "after")),
    ) == ([C.PENDING], 0)
    vote(world, "ana", drawn)
    world.said(SUPPORT, thread, "That is all.")
    assert (kit.did("note", "before"), kit.did("note", "after")) == (0, 1)


def test_an_editor_does_not_count(world: World, kit: Kit) -> None:
    """Who edited cannot be one of the two, though they are on the list (A10)."""
    thread = ask(world, ("note", {"text": "mine"}))
    card = world.card(SUPPORT, thread)
    open_modal(world, "dan", SUPPORT, card, "edit")
    world.person("dan").submit(typed(text="dan's"))
    arrived(world)
    vote(world, "dan", card)
    told(world, "dan", SUPPORT, thread, "You edited this")
    for who in ("ana", "cleo"):
        assert kit.did("note", "dan's") == 0
        vote(world, who, card)
    world.said(SUPPORT, thread, "That is all.")
    assert kit.did("note", "dan's") == 1


def test_a_restart_between_the_votes(world: World, kit: Kit) -> None:
    """The first vote is in the rows: after a restart the second one completes it on the same card
    (P03, S09).
    """
    thread = ask(world, ("note", {"text": "restart"}))
    card = vote(world, "ana", world.card(SUPPORT, thread))
    world.restart()
    vote(world, "ana", card)
    told(world, "ana", SUPPORT, thread, "You already approved this")
    assert statuses(world, thread) == [C.PENDING]
    vote(world, "cleo", card)
    world.said(SUPPORT, thread, "That is all.")
    assert (statuses(world, thread), kit.did("note", "restart")) == ([C.SUCCEEDED], 1)


def test_a_quorum_that_nobody_can_reach(world: World, kit: Kit) -> None:
    """The group has one member: nobody is asked, the thread and the model hear why, the run goes on
    (A08).
    """
    thread = ask(world, ("wipe", {"text": "unreachable"}))
    world.said(SUPPORT, thread, "it needs 2 people to approve it, and 1 too few can be reached")
    world.said(SUPPORT, thread, "That is all.")
    assert statuses(world, thread) == [C.REFUSED]
    assert world.outputs()[0]["output"].startswith(
        "REFUSED: this needs an approval, and it needs 2 people"
    )
    assert not [
        message for message in world.thread(SUPPORT, thread) if "approve" in action_ids(message)
    ]


def test_the_requester_leaves_too_few(world: World, kit: Kit) -> None:
    """Ana asks, so only Cleo and Dan are left; both are needed (A02, A08)."""
    thread = ask(world, ("note", {"text": "ana's"}), who="ana")
    card = world.card(SUPPORT, thread)
    vote(world, "ana", card)
    told(world, "ana", SUPPORT, thread, "your own request")
    for who in ("cleo", "dan"):
        assert statuses(world, thread) == [C.PENDING]
        vote(world, who, card)
    world.said(SUPPORT, thread, "That is all.")
    assert kit.did("note", "ana's") == 1


def test_approve_all(world: World, kit: Kit) -> None:
    """Approve all is one vote on each call.

    Who had voted on one is told, and each needs two people (P16).
    """
    thread = ask(world, ("note", {"text": "all 1"}), ("note", {"text": "all 2"}))
    card = vote(world, "ana", world.card(SUPPORT, thread))
    assert statuses(world, thread) == [C.PENDING, C.PENDING]
    world.person("ana").click(SUPPORT, card["ts"], "approve_all")
    arrived(world)
    told(world, "ana", SUPPORT, thread, "You already approved this")
    assert statuses(world, thread) == [C.PENDING, C.PENDING]
    drawn = now_at(world, SUPPORT, card["ts"])
    assert words(drawn).count("1 more approval needed") == 2
    world.person("cleo").click(SUPPORT, drawn["ts"], "approve_all")
    world.said(SUPPORT, thread, "That is all.")
    world.settle()
    assert statuses(world, thread) == [C.SUCCEEDED, C.SUCCEEDED]
    first, second = world.calls_in(thread)
    assert [world.audit_of(call).count("call.approved") for call in (first, second)] == [1, 1]
    assert len({row.digest for row in world.all(Vote) if row.call_id in (first.id, second.id)}) == 2
