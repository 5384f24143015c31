"""Stages in any order: each group decides when it likes, and no person counts for two of them."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from bot.policy.authority import _count_largest_shortage
from bot.policy.evaluation import parse
from bot.policy.gates import Approvers, Ask, Stage, combine_gates
from bot.policy.tally import Ballot, tally_ballots
from storage.states import CallVerb
from tests.policy.builders import ASKED, asks, make_facts

unordered = asks.map(lambda gate: gate.model_copy(update={"any_order": True, "veto": 1}))
FINANCE, LEGAL = (Stage(approvers=Approvers(groups=(name,))) for name in ("finance", "legal"))
BOTH = Ask(rule="r", stages=(FINANCE, LEGAL), any_order=True)


def make_approval(person: str, *stages: int) -> Ballot:
    """An approval that may count in these stages."""
    return Ballot(person, CallVerb.APPROVE, stages[0], ASKED, stages[1:])


def make_rejection(person: str) -> Ballot:
    """A rejection."""
    return Ballot(person, CallVerb.REJECT, 0, ASKED)


@st.composite
def elections(draw: Any) -> tuple[Ask, list[Ballot]]:
    """A gate without an order, and approvals of people who may decide in some of its stages."""
    gate = draw(unordered)
    some = st.lists(st.integers(0, len(gate.stages) - 1), min_size=1, max_size=3, unique=True)
    able = draw(st.lists(some, max_size=10))
    return gate, [make_approval(f"P{number}", *stages) for number, stages in enumerate(able)]


@given(elections())
def test_approved_exactly_if_the_approvers_can_fill_all_stages(
    election: tuple[Ask, list[Ballot]],
) -> None:
    """Each of them fills one place in one stage."""
    gate, cast = election
    able = [
        frozenset(each.person for each in cast if at in (each.stage, *each.also))
        for at in range(len(gate.stages))
    ]
    found = tally_ballots(gate, cast)
    assert (found.outcome == "approved") == (_count_largest_shortage(gate, able) <= 0)
    assert (found.needed == 0) == (found.outcome == "approved")


@given(elections(), st.randoms(use_true_random=False))
def test_the_order_of_votes_does_not_change_the_outcome(
    election: tuple[Ask, list[Ballot]], random: Any
) -> None:
    """It does not change how many are needed, and where, either."""
    gate, cast = election
    shuffled = list(cast)
    random.shuffle(shuffled)
    one, other = tally_ballots(gate, cast), tally_ballots(gate, shuffled)
    assert (one.outcome, one.needed, one.open_stages) == (
        other.outcome,
        other.needed,
        other.open_stages,
    )


@given(elections())
def test_each_person_counts_in_one_stage_where_they_may(election: tuple[Ask, list[Ballot]]) -> None:
    """No stage holds more than its quorum."""
    gate, cast = election
    may = {each.person: {each.stage, *each.also} for each in cast}
    found = tally_ballots(gate, cast)
    counted = [person for people in found.approved for person in people]
    assert len(counted) == len(set(counted)) == gate.required_approvers - found.needed
    for at, people in enumerate(found.approved):
        assert len(people) <= gate.stages[at].quorum
        assert all(at in may[person] for person in people)


@given(elections())
def test_a_new_approver_helps_only_in_an_open_stage(election: tuple[Ask, list[Ballot]]) -> None:
    """The new approver may decide in that stage alone."""
    gate, cast = election
    before = tally_ballots(gate, cast)
    for at in range(len(gate.stages)):
        after = tally_ballots(gate, [*cast, make_approval("NEW", at)])
        assert (after.needed < before.needed) == (at in before.open_stages)


@given(elections())
def test_a_rejection_takes_that_persons_approval_back(election: tuple[Ask, list[Ballot]]) -> None:
    """A veto of one also rejects the call."""
    gate, cast = election
    before = tally_ballots(gate, cast[:1])
    if cast and before.outcome == "open":
        found = tally_ballots(gate, [cast[0], make_rejection(cast[0].person)])
        assert (found.outcome, found.rejected) == ("rejected", (cast[0].person,))
        patient = gate.model_copy(update={"veto": 2})
        assert (
            tally_ballots(patient, [cast[0], make_rejection(cast[0].person)]).needed
            == gate.required_approvers
        )


def test_an_approver_of_both_groups_makes_room_for_another() -> None:
    """Ana of both groups approves first; then one more of either group is enough."""
    for other in (0, 1):
        assert (
            tally_ballots(BOTH, [make_approval("ana", 0, 1), make_approval("ben", other)]).outcome
            == "approved"
        )
    assert tally_ballots(BOTH, [make_approval("ana", 0, 1)]).open_stages == (0, 1)
    assert tally_ballots(BOTH, [make_approval("ben", 0)]).open_stages == (1,)
    assert tally_ballots(BOTH, [make_approval("ben", 0), make_approval("dan", 0)]).needed == 1


def test_votes_after_the_outcome_do_not_count() -> None:
    """Approved stays approved, and rejected stays rejected."""
    met = [make_approval("ana", 0), make_approval("ben", 1)]
    assert tally_ballots(BOTH, [*met, make_rejection("ana")]).outcome == "approved"
    assert tally_ballots(BOTH, [make_rejection("dan"), *met]).outcome == "rejected"


def test_after_the_outcome_nobody_more_is_needed() -> None:
    """An approved gate stands at its last stage, a rejected one at the first."""
    approved = tally_ballots(BOTH, [make_approval("ana", 0), make_approval("ben", 1)])
    rejected = tally_ballots(BOTH, [make_approval("ana", 0), make_rejection("dan")])
    assert (approved.asked_stages, approved.needed) == ((1,), 0)
    assert (rejected.asked_stages, rejected.needed) == ((0,), 0)


@given(unordered, asks)
def test_combining_gates_keeps_an_order_if_either_has_one(gate: Ask, other: Ask) -> None:
    """Combining twice changes nothing."""
    assert not combine_gates(gate, other).any_order or gate == other
    assert not combine_gates(other, gate).any_order or gate == other
    free = other.model_copy(update={"any_order": True})
    both = combine_gates(gate, free)
    assert both.any_order
    assert combine_gates(both, free) == both
    assert not gate.counts_votes_like(gate.model_copy(update={"any_order": False}))


def test_any_order_may_stand_in_a_rule_or_the_defaults() -> None:
    """It may come before or after the stages."""
    stages = 'stages = [{approvers = ["@finance"]}, {approvers = ["@legal"]}]\n'
    for text in (
        f"[defaults]\n{stages}any_order = true\n",
        f"[defaults]\nany_order = true\n{stages}",
    ):
        assert parse(text).get_gate(make_facts()) == BOTH.model_copy(update={"rule": "default"})
