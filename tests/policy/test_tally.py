"""What votes come to, over random gates and ballots."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from bot.policy.gates import Allow, Approvers, Ask, Deny, Gate, Stage
from bot.policy.tally import Ballot, Tally, tally_ballots
from tests.policy.builders import ASKED, PEOPLE, asks, ballots, make_ballot, votes

FINANCE, OPS = Approvers(groups=("finance",)), Approvers(groups=("ops",))
THREE = Ask(
    rule="r", stages=(Stage(approvers=OPS), Stage(approvers=OPS), Stage(approvers=OPS)), veto=2
)


def _list_prefixes(cast: list[Ballot]) -> Iterator[list[Ballot]]:
    return (cast[:length] for length in range(len(cast) + 1))


def _list_counted_people(standing: Tally) -> list[str]:
    return [*standing.rejected, *(person for people in standing.approved for person in people)]


def _approve_gate(gate: Ask) -> list[Ballot]:
    """Exactly the votes that approve a gate, by different people for each stage."""
    return [
        make_ballot(f"{stage}.{n}", stage)
        for stage, each in enumerate(gate.stages)
        for n in range(each.quorum)
    ]


@given(asks, ballots)
def test_each_person_counts_once_over_all_stages(gate: Ask, cast: list[Ballot]) -> None:
    """Approvals and rejections are counted together, and only people who voted count."""
    for some in _list_prefixes(cast):
        counted = _list_counted_people(tally_ballots(gate, some))
        assert len(counted) == len(set(counted))
        assert set(counted) <= {each.person for each in some}


@given(asks, ballots)
def test_an_approval_counts_only_in_its_own_open_stage(gate: Ask, cast: list[Ballot]) -> None:
    """No stage holds more than its quorum or opens too early; only a rejection after an approval
    leaves a gap.
    """
    for some in _list_prefixes(cast):
        found = tally_ballots(gate, some)
        for stage, people in enumerate(found.approved):
            assert len(people) <= gate.stages[stage].quorum
            assert {(each, "approve", stage) for each in people} <= {
                (b.person, b.verb, b.stage) for b in some
            }
            assert (
                not people
                or found.rejected
                or all(len(found.approved[s]) == gate.stages[s].quorum for s in range(stage))
            )
        assert {(each, "reject") for each in found.rejected} <= {(b.person, b.verb) for b in some}


@given(asks, ballots)
def test_approved_means_every_quorum_and_rejected_the_veto(gate: Ask, cast: list[Ballot]) -> None:
    """No call is both, and an open one is neither."""
    found = tally_ballots(gate, cast)
    full = all(
        len(people) == stage.quorum
        for people, stage in zip(found.approved, gate.stages, strict=True)
    )
    assert found.outcome == (
        "approved" if full else "rejected" if len(found.rejected) >= gate.veto else "open"
    )
    assert not (full and len(found.rejected) >= gate.veto)
    assert len(found.rejected) <= gate.veto
    if found.outcome == "approved":
        assert len({each.person for each in cast}) >= sum(stage.quorum for stage in gate.stages)


@given(asks, ballots)
def test_votes_after_the_outcome_change_nothing(gate: Ask, cast: list[Ballot]) -> None:
    """The outcome may be an approval or a rejection."""
    ended = None
    for some in _list_prefixes(cast):
        found = tally_ballots(gate, some)
        assert ended in (None, found)
        ended = found if found.outcome != "open" else None


@given(asks, ballots, ballots, st.data())
def test_just_enough_approvals_approve_among_useless_votes(
    gate: Ask, cast: list[Ballot], more: list[Ballot], data: Any
) -> None:
    """Further votes never make it open again."""
    useless = [replace(each, verb="abstain", person="A") for each in more] + [
        replace(each, stage=9, verb="approve") for each in cast
    ]
    needed = _approve_gate(gate)
    for each in useless:
        needed.insert(data.draw(st.integers(0, len(needed))), each)
    assert tally_ballots(gate, needed).outcome == "approved"
    assert tally_ballots(gate, needed + cast + more) == tally_ballots(gate, needed)
    assert tally_ballots(gate, _approve_gate(gate)[:-1]).outcome == "open"


@given(asks, votes, st.randoms(use_true_random=False))
def test_the_order_of_votes_within_a_stage_does_not_matter(
    gate: Ask, cast: list[Ballot], random: Any
) -> None:
    """Each person has one vote here."""
    cast = sorted((replace(each, verb="approve") for each in cast), key=lambda each: each.stage)
    mixed = sorted(random.sample(cast, len(cast)), key=lambda each: each.stage)
    one, other = tally_ballots(gate, cast), tally_ballots(gate, mixed)
    assert (one.outcome, one.stage, one.needed) == (other.outcome, other.stage, other.needed)
    rejecting = [replace(each, verb="reject") for each in mixed]
    assert tally_ballots(gate, rejecting).outcome == (
        "rejected" if len(cast) >= gate.veto else "open"
    )


@given(asks, votes, st.integers(0, 10**6))
def test_votes_count_in_the_order_of_their_rows(gate: Ask, cast: list[Ballot], after: int) -> None:
    """They do even if they are stored at one moment, or by a clock that went back."""
    same = [replace(each, at=ASKED + timedelta(microseconds=after)) for each in cast]
    back = [replace(each, at=ASKED - timedelta(seconds=n)) for n, each in enumerate(cast)]
    assert tally_ballots(gate, cast) == tally_ballots(gate, same) == tally_ballots(gate, back)


@given(asks, ballots)
@example(THREE, [make_ballot("A", 0), make_ballot("B", 1), make_ballot("A", 1, "reject")])
def test_the_needed_number_of_new_people_completes_the_stage(gate: Ask, cast: list[Ballot]) -> None:
    """One person less does not, and after the outcome nobody is needed."""
    found = tally_ballots(gate, cast)
    assert (found.needed == 0) is (found.outcome != "open")
    if found.outcome == "open":
        assert found.needed == gate.stages[found.stage].quorum - len(found.approved[found.stage])
        fresh = [make_ballot(f"new{n}", found.stage) for n in range(found.needed)]
        short = tally_ballots(gate, cast + fresh[:-1])
        assert (short.outcome, short.stage, short.needed) == ("open", found.stage, 1)
        on = tally_ballots(gate, cast + fresh)
        assert (on.outcome == "approved") is (found.stage == len(gate.stages) - 1)
        # approvals of later stages, given before an earlier one was taken back, still count
        there = [len(people) for people in found.approved]
        lacking = [each.quorum - has for each, has in zip(gate.stages, there, strict=True)]
        then = [stage for stage in range(found.stage + 1, len(lacking)) if lacking[stage]]
        assert on.outcome == "approved" or (on.stage, on.needed) == (then[0], lacking[then[0]])


@given(asks, ballots)
def test_a_veto_needs_that_many_different_people(gate: Ask, cast: list[Ballot]) -> None:
    """One person's many rejections count once, and the people need not be in a stage."""
    once = [make_ballot("A", each.stage, "reject") for each in cast]
    assert tally_ballots(gate, once).outcome == ("rejected" if once and gate.veto == 1 else "open")
    many = [make_ballot(person, 0, "reject") for person in PEOPLE[: gate.veto]]
    assert tally_ballots(gate, many).outcome == "rejected"
    assert tally_ballots(gate, many[:-1] + _approve_gate(gate)).outcome == "approved"


def test_a_vote_for_a_stage_before_it_opens_does_not_count() -> None:
    """Its person can still vote there later."""
    gate = Ask(rule="r", stages=(Stage(approvers=FINANCE, quorum=2), Stage(approvers=OPS)), veto=2)
    early = [make_ballot("C", 1)]
    assert tally_ballots(gate, early) == Tally("open", 0, ((), ()), (), 2)
    half = [*early, make_ballot("A", 0), make_ballot("A", 0), make_ballot("D", 0, "reject")]
    assert tally_ballots(gate, half) == Tally("open", 0, (("A",), ()), ("D",), 1)
    second = [*half, make_ballot("B", 0), make_ballot("A", 1), make_ballot("D", 1)]
    assert tally_ballots(gate, second) == Tally("open", 1, (("A", "B"), ()), ("D",), 1)
    assert tally_ballots(gate, [*second, make_ballot("F", 0)]) == tally_ballots(
        gate, second
    )  # too late for the first stage, and not in the second
    assert tally_ballots(gate, [*second, make_ballot("C", 1)]) == Tally(
        "approved", 1, (("A", "B"), ("C",)), ("D",), 0
    )
    assert tally_ballots(gate, [*second, make_ballot("E", 0, "reject")]) == Tally(
        "rejected", 1, (("A", "B"), ()), ("D", "E"), 0
    )


def test_a_gate_needs_a_stage_a_quorum_a_veto_and_a_deadline() -> None:
    """So no gate is met without votes."""
    for wrong in (
        {"stages": ()},
        {"veto": 0},
        {"deadline": 0},
        {"stages": ({"approvers": {}, "quorum": 0},)},
    ):
        with pytest.raises(ValidationError):
            Ask.model_validate({"rule": "r", "stages": ({"approvers": {}},), **wrong})


@given(asks)
def test_gates_of_all_kinds_round_trip_through_json(gate: Ask) -> None:
    """Unknown fields and verdicts are refused."""
    kinds: TypeAdapter[Any] = TypeAdapter(Gate)
    for each in (gate, Allow(rule="a"), Deny(rule="d", reason="no")):
        assert kinds.validate_json(kinds.dump_json(each)) == each
        assert kinds.validate_python(kinds.dump_python(each, mode="json")) == each
        with pytest.raises(ValidationError):
            kinds.validate_python({**kinds.dump_python(each), "more": 1})
    with pytest.raises(ValidationError):
        kinds.validate_python({**gate.model_dump(), "verdict": "maybe"})


@given(asks)
def test_a_gates_approvers_are_those_of_all_stages_once(gate: Ask) -> None:
    """People and groups keep their order."""
    found = gate.approvers
    for key in ("users", "groups"):
        named = [name for stage in gate.stages for name in getattr(stage.approvers, key)]
        assert list(getattr(found, key)) == list(dict.fromkeys(named))
    assert found.channel is any(stage.approvers.channel for stage in gate.stages)
    assert found.requester is any(stage.approvers.requester for stage in gate.stages)
