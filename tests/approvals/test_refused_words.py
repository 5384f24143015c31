"""What somebody is told whose click changes nothing: why not, who may, and who was first."""

from __future__ import annotations

from datetime import timedelta

import pytest

from bot.approvals.permissions import MAX_PEOPLE_NAMED
from bot.cards import sentences
from bot.cards.slack_text import user_mention
from bot.policy.authority import Denial, Person
from bot.policy.gates import Approvers
from storage.decisions import (
    DeadlinePassed,
    EarlierDecision,
    MissingCall,
    RepeatedVote,
    StaleRevision,
    UndecidableOutcome,
)
from storage.models import Call
from storage.states import CallStatus, CallVerb
from storage.store import Store
from tests.approvals.world import World, gate_of, voted
from tests.runs.fakes import ANA, BEN, CLEO, DAN
from tests.storage.builders import ALLOWED, AT, HOUR, TEAM

C, V = CallStatus, CallVerb


@pytest.fixture
def world(store: Store) -> World:
    """Nothing is asked yet."""
    return World(store)


def told(world: World, why: str, call: Call, verb: CallVerb = CallVerb.APPROVE) -> str:
    """What they are told who may not for this reason."""
    return world.permissions.refusal_sentence(Denial(why), call, verb)


def test_each_reason_has_its_words(world: World) -> None:
    """Why somebody may not is said as it is; to whom others are named, those who may."""
    call = world.asked(gate_of([ANA], [DAN])).call()
    who = user_mention(ANA)
    assert told(world, "own_request", call) == sentences.OWN_REQUEST_REPLY
    assert told(world, "own_edit", call) == sentences.OWN_EDIT_REPLY
    assert told(world, "lookup", call) == sentences.LOOKUP_FAILED_REPLY
    assert told(world, "not_yet", call) == sentences.not_your_stage_reply(who)
    assert told(world, "enough", call) == sentences.stage_already_approved_reply(who)
    assert "only full members of this workspace" in told(world, "stranger", call)
    assert told(world, "requester_gone", call) == sentences.REQUESTER_GONE_REPLY
    assert told(world, "not_approver", call) == sentences.not_an_approver_reply(who)
    assert told(world, "not_approver", call, V.EDIT) == sentences.NOT_AN_EDITOR_REPLY


def test_who_may_is_who_is_left(world: World) -> None:
    """Neither who asked nor who has voted; those of the step that is open, and nobody where policy
    asks nobody.
    """
    both = gate_of([ANA, BEN, CLEO], [DAN])
    assert user_mention(CLEO) in told(world, "not_approver", world.asked(both).call())
    begun = world.asked(
        both.model_copy(update={"stages": (both.stages[0].model_copy(update={"quorum": 2}),)}),
        votes=[voted(ANA)],
    )
    found = told(world, "not_approver", begun.call())
    assert found == sentences.not_an_approver_reply(user_mention(CLEO))
    alone = gate_of([ANA])
    alone = alone.model_copy(update={"stages": (alone.stages[0].model_copy(update={"quorum": 2}),)})
    left = told(world, "not_approver", world.asked(alone, votes=[voted(ANA)]).call())
    assert left == "You cannot decide this one, and at the moment nobody else can."  # not: no list
    second = world.asked(both, votes=[voted(ANA)])
    assert told(world, "not_yet", second.call()) == sentences.not_your_stage_reply(
        user_mention(DAN)
    )
    nobody = told(world, "not_approver", world.asked(ALLOWED).call())
    assert nobody == sentences.not_an_approver_reply("")


@pytest.mark.parametrize("more", [0, 1])
def test_of_many_some_are_named(world: World, more: int) -> None:
    """Ten are named, and that there are more only where there are."""
    people = [f"UMANY{number:04}" for number in range(10 + more)]
    world.directory.known |= {each: Person(each, TEAM, each) for each in people}
    found = told(world, "not_approver", world.asked(gate_of(people)).call())
    assert [each for each in people if user_mention(each) in found] == people[:10]
    assert ("and others" in found) is bool(more)
    assert MAX_PEOPLE_NAMED == 10


def test_who_may_where_nobody_is_named(world: World) -> None:
    """Of a channel nobody is named; where Slack does not answer, the policy's own list is."""
    call = world.asked(gate_of(Approvers(channel=True))).call()
    assert "the other members of <#C0SUPPORT" in told(world, "not_approver", call)
    call = world.asked(gate_of(Approvers(users=(ANA,), groups=("shop-leads",)))).call()
    world.directory.down = True
    found = told(world, "not_approver", call)
    assert found == sentences.not_an_approver_reply(f"{user_mention(ANA)}, @shop-leads")


def test_who_came_too_late_hears_by_whom(world: World) -> None:
    """The first who voted is named, whoever followed; one's own click is told as that."""
    made = world.asked(
        gate_of([ANA, CLEO]), C.APPROVED, votes=[voted(ANA), voted(CLEO, V.REJECT)], decided_at=AT
    )
    lost, decided = world.permissions.too_late_sentence, EarlierDecision(made.call())
    assert lost(decided, DAN) == sentences.already_decided_reply(ANA, "approve", AT)
    assert lost(decided, ANA) == sentences.repeated_click_reply("approve")
    over = world.asked(gate_of([ANA]), C.CANCELLED).call()
    assert lost(EarlierDecision(over), DAN) == sentences.already_decided_reply("", "cancel", None)


def test_what_else_is_in_the_way(world: World) -> None:
    """The clock, an older card, one's own vote, or that of who stands in."""
    call = world.asked(gate_of([ANA])).call()
    expired = world.asked(gate_of([ANA]), C.EXPIRED, deadline=AT - timedelta(hours=1)).call()
    gone: UndecidableOutcome = MissingCall()
    found = [
        world.permissions.too_late_sentence(each, DAN)
        for each in (
            EarlierDecision(expired),
            DeadlinePassed(call),
            RepeatedVote(call, V.APPROVE, ANA),
            RepeatedVote(call, V.REJECT, DAN),
            StaleRevision(call),
            gone,
        )
    ]
    assert found == [
        sentences.decision_too_late_reply(AT - HOUR),
        sentences.decision_too_late_reply(call.deadline),
        sentences.vote_shared_with_delegate_reply(ANA, "approve"),
        sentences.repeated_click_reply("reject"),
        sentences.OUTDATED_CARD_REPLY,
        sentences.OUTDATED_CARD_REPLY,
    ]
