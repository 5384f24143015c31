"""What a person is told whose click changes nothing: why, who may decide, and who was first."""

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
from tests.approvals.world import World, make_gate, make_vote
from tests.runs.fakes import ANA, BEN, CLEO, DAN
from tests.storage.builders import ALLOWED, AT, HOUR, TEAM

C, V = CallStatus, CallVerb


@pytest.fixture
def world(store: Store) -> World:
    """A world without calls."""
    return World(store)


def get_refusal(world: World, why: str, call: Call, verb: CallVerb = CallVerb.APPROVE) -> str:
    """What people are told who may not decide, for this reason."""
    return world.permissions.refusal_sentence(Denial(why), call, verb)


def test_each_reason_for_a_refusal_has_its_own_sentence(world: World) -> None:
    """Some of them name the people who may decide."""
    call = world.add_calls(make_gate([ANA], [DAN])).call()
    who = user_mention(ANA)
    assert get_refusal(world, "own_request", call) == sentences.OWN_REQUEST_REPLY
    assert get_refusal(world, "own_edit", call) == sentences.OWN_EDIT_REPLY
    assert get_refusal(world, "lookup", call) == sentences.LOOKUP_FAILED_REPLY
    assert get_refusal(world, "not_yet", call) == sentences.not_your_stage_reply(who)
    assert get_refusal(world, "enough", call) == sentences.stage_already_approved_reply(who)
    assert "only full members of this workspace" in get_refusal(world, "stranger", call)
    assert get_refusal(world, "requester_gone", call) == sentences.REQUESTER_GONE_REPLY
    assert get_refusal(world, "not_approver", call) == sentences.not_an_approver_reply(who)
    assert get_refusal(world, "not_approver", call, V.EDIT) == sentences.NOT_AN_EDITOR_REPLY


def test_a_refusal_names_the_people_who_can_still_decide(world: World) -> None:
    """The requester and people who have voted are not named, nor those of later stages."""
    both = make_gate([ANA, BEN, CLEO], [DAN])
    assert user_mention(CLEO) in get_refusal(world, "not_approver", world.add_calls(both).call())
    begun = world.add_calls(
        both.model_copy(update={"stages": (both.stages[0].model_copy(update={"quorum": 2}),)}),
        votes=[make_vote(ANA)],
    )
    found = get_refusal(world, "not_approver", begun.call())
    assert found == sentences.not_an_approver_reply(user_mention(CLEO))
    alone = make_gate([ANA])
    alone = alone.model_copy(update={"stages": (alone.stages[0].model_copy(update={"quorum": 2}),)})
    left = get_refusal(world, "not_approver", world.add_calls(alone, votes=[make_vote(ANA)]).call())
    assert (
        left == "You cannot decide this one, and at the moment nobody else can approve it."
    )  # without a list of names
    second = world.add_calls(both, votes=[make_vote(ANA)])
    assert get_refusal(world, "not_yet", second.call()) == sentences.not_your_stage_reply(
        user_mention(DAN)
    )
    nobody = get_refusal(world, "not_approver", world.add_calls(ALLOWED).call())
    assert nobody == sentences.not_an_approver_reply("")


@pytest.mark.parametrize("more", [0, 1])
def test_a_refusal_names_at_most_ten_people(world: World, more: int) -> None:
    """It says that there are more only if there are."""
    people = [f"UMANY{number:04}" for number in range(10 + more)]
    world.directory.known |= {each: Person(each, TEAM, each) for each in people}
    found = get_refusal(world, "not_approver", world.add_calls(make_gate(people)).call())
    assert [each for each in people if user_mention(each) in found] == people[:10]
    assert ("and others" in found) is bool(more)
    assert MAX_PEOPLE_NAMED == 10


def test_a_refusal_names_the_channel_or_the_policys_own_list(world: World) -> None:
    """The list is named while Slack does not answer."""
    call = world.add_calls(make_gate(Approvers(channel=True))).call()
    assert "the other members of <#C0SUPPORT" in get_refusal(world, "not_approver", call)
    call = world.add_calls(make_gate(Approvers(users=(ANA,), groups=("shop-leads",)))).call()
    world.directory.down = True
    found = get_refusal(world, "not_approver", call)
    assert found == sentences.not_an_approver_reply(f"{user_mention(ANA)}, @shop-leads")


def test_a_late_click_is_told_who_decided_first(world: World) -> None:
    """A second click of the same person is told as such."""
    made = world.add_calls(
        make_gate([ANA, CLEO]),
        C.APPROVED,
        votes=[make_vote(ANA), make_vote(CLEO, V.REJECT)],
        decided_at=AT,
    )
    lost, decided = world.permissions.too_late_sentence, EarlierDecision(made.call())
    assert lost(decided, DAN) == sentences.already_decided_reply(ANA, "approve", AT)
    assert lost(decided, ANA) == sentences.repeated_click_reply("approve")
    over = world.add_calls(make_gate([ANA]), C.CANCELLED).call()
    assert lost(EarlierDecision(over), DAN) == sentences.already_decided_reply("", "cancel", None)


def test_deadlines_older_cards_and_repeated_votes_have_sentences(world: World) -> None:
    """A vote that a delegate repeats has one, too."""
    call = world.add_calls(make_gate([ANA])).call()
    expired = world.add_calls(make_gate([ANA]), C.EXPIRED, deadline=AT - timedelta(hours=1)).call()
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
