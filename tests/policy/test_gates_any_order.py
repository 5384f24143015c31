"""Stages in any order: one of each group, whoever comes first, and nobody for two of them."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from bot.policy.authority import _count_largest_shortage
from bot.policy.evaluation import parse
from bot.policy.gates import Approvers, Ask, Stage, combine_gates
from bot.policy.tally import Ballot, tally_ballots
from storage.states import CallVerb
from tests.policy.builders import ASKED, asks, facts

unordered = asks.map(lambda gate: gate.model_copy(update={"any_order": True, "veto": 1}))
FINANCE, LEGAL = (Stage(approvers=Approvers(groups=(name,))) for name in ("finance", "legal"))
BOTH = Ask(rule="r", stages=(FINANCE, LEGAL), any_order=True)


def yes(person: str, *stages: int) -> Ballot:
    """An approval that may count in these stages."""
    return Ballot(person, CallVerb.APPROVE, stages[0], ASKED, stages[1:])


def no(person: str) -> Ballot:
    """A rejection."""
    return Ballot(person, CallVerb.REJECT, 0, ASKED)


@st.composite
def elections(draw: Any) -> tuple[Ask, list[Ballot]]:
    """A gate without an order, and people who approve, each able in some of its stages."""
    gate = draw(unordered)
    some = st.lists(st.integers(0, len(gate.stages) - 1), min_size=1, max_size=3, unique=True)
    able = draw(st.lists(some, max_size=10))
    return gate, [yes(f"P{number}", *stages) for number, stages in enumerate(able)]


@given(elections())
def test_it_is_met_when_everybody_finds_a_place(election: tuple[Ask, list[Ballot]]) -> None:
    """It is approved exactly when those who said yes can fill all stages, each in one of them."""
    gate, cast = election
    able = [
        frozenset(each.person for each in cast if at in (each.stage, *each.also))
        for at in range(len(gate.stages))
    ]
    found = tally_ballots(gate, cast)
    assert (found.outcome == "approved") == (_count_largest_shortage(gate, able) <= 0)
    assert (found.needed == 0) == (found.outcome == "approved")


@given(elections(), st.randoms(use_true_random=False))
def test_the_order_does_not_matter(election: tuple[Ask, list[Ballot]], random: Any) -> None:
    """Whoever comes first, the same people come to the same outcome and the same need."""
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
def test_nobody_counts_twice_or_where_they_may_not(election: tuple[Ask, list[Ballot]]) -> None:
    """Each counts in one stage, where they may, and no stage holds more than its quorum."""
    gate, cast = election
    may = {each.person: {each.stage, *each.also} for each in cast}
    found = tally_ballots(gate, cast)
    counted = [person for people in found.approved for person in people]
    assert len(counted) == len(set(counted)) == gate.required_approvers - found.needed
    for at, people in enumerate(found.approved):
        assert len(people) <= gate.stages[at].quorum
        assert all(at in may[person] for person in people)


@given(elections())
def test_one_more_counts_exactly_in_an_open_stage(election: tuple[Ask, list[Ballot]]) -> None:
    """Somebody new who may decide in one stage only helps where that stage is open."""
    gate, cast = election
    before = tally_ballots(gate, cast)
    for at in range(len(gate.stages)):
        after = tally_ballots(gate, [*cast, yes("NEW", at)])
        assert (after.needed < before.needed) == (at in before.open_stages)


@given(elections())
def test_a_change_of_mind_takes_a_yes_back(election: tuple[Ask, list[Ballot]]) -> None:
    """Who rejects before the end does not count any more, and one rejection ends it."""
    gate, cast = election
    before = tally_ballots(gate, cast[:1])
    if cast and before.outcome == "open":
        found = tally_ballots(gate, [cast[0], no(cast[0].person)])
        assert (found.outcome, found.rejected) == ("rejected", (cast[0].person,))
        patient = gate.model_copy(update={"veto": 2})
        assert (
            tally_ballots(patient, [cast[0], no(cast[0].person)]).needed == gate.required_approvers
        )


def test_who_may_in_both_makes_room() -> None:
    """Ana of both groups said yes first: then one more of either is enough."""
    for other in (0, 1):
        assert tally_ballots(BOTH, [yes("ana", 0, 1), yes("ben", other)]).outcome == "approved"
    assert tally_ballots(BOTH, [yes("ana", 0, 1)]).open_stages == (0, 1)
    assert tally_ballots(BOTH, [yes("ben", 0)]).open_stages == (1,)
    assert tally_ballots(BOTH, [yes("ben", 0), yes("dan", 0)]).needed == 1


def test_after_the_end_nothing_counts() -> None:
    """What is approved stays approved, and what is rejected stays rejected."""
    met = [yes("ana", 0), yes("ben", 1)]
    assert tally_ballots(BOTH, [*met, no("ana")]).outcome == "approved"
    assert tally_ballots(BOTH, [no("dan"), *met]).outcome == "rejected"


def test_where_it_stands_when_it_is_over() -> None:
    """Approved, it stands at its last stage; rejected, at the first; and nobody more is needed."""
    approved = tally_ballots(BOTH, [yes("ana", 0), yes("ben", 1)])
    rejected = tally_ballots(BOTH, [yes("ana", 0), no("dan")])
    assert (approved.asked_stages, approved.needed) == ((1,), 0)
    assert (rejected.asked_stages, rejected.needed) == ((0,), 0)


@given(unordered, asks)
def test_an_order_is_stricter_than_none(gate: Ask, other: Ask) -> None:
    """Where one of two gates has an order, both together have; the laws of `stricter` hold."""
    assert not combine_gates(gate, other).any_order or gate == other
    assert not combine_gates(other, gate).any_order or gate == other
    free = other.model_copy(update={"any_order": True})
    both = combine_gates(gate, free)
    assert both.any_order
    assert combine_gates(both, free) == both
    assert not gate.counts_votes_like(gate.model_copy(update={"any_order": False}))


def test_as_it_is_written() -> None:
    """`any_order` stands beside the stages, in a rule or in [defaults]."""
    stages = 'stages = [{approvers = ["@finance"]}, {approvers = ["@legal"]}]\n'
    for text in (
        f"[defaults]\n{stages}any_order = true\n",
        f"[defaults]\nany_order = true\n{stages}",
    ):
        assert parse(text).get_gate(facts()) == BOTH.model_copy(update={"rule": "default"})
