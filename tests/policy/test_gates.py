"""How far votes have come, over gates and ballots made up at random."""

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
from tests.policy.builders import ASKED, PEOPLE, asks, ballot, ballots, votes

FINANCE, OPS = Approvers(groups=("finance",)), Approvers(groups=("ops",))
THREE = Ask(
    rule="r", stages=(Stage(approvers=OPS), Stage(approvers=OPS), Stage(approvers=OPS)), veto=2
)


def _prefixes(cast: list[Ballot]) -> Iterator[list[Ballot]]:
    return (cast[:length] for length in range(len(cast) + 1))


def _counted(standing: Tally) -> list[str]:
    return [*standing.rejected, *(person for people in standing.approved for person in people)]


def _sequence(gate: Ask) -> list[Ballot]:
    """Just the votes that approve a gate, by people of its own kind each."""
    return [
        ballot(f"{stage}.{n}", stage)
        for stage, each in enumerate(gate.stages)
        for n in range(each.quorum)
    ]


@given(asks, ballots)
def test_a_person_counts_once(gate: Ask, cast: list[Ballot]) -> None:
    """Over all stages and both verbs nobody counts twice, and nobody counts who did not vote."""
    for some in _prefixes(cast):
        counted = _counted(tally_ballots(gate, some))
        assert len(counted) == len(set(counted))
        assert set(counted) <= {each.person for each in some}


@given(asks, ballots)
def test_a_vote_counts_where_it_was_let_through(gate: Ask, cast: list[Ballot]) -> None:
    """Who counts in a stage approved in that stage.

    A stage never holds more than its quorum, nor opens too early; only who rejects after
    an approval leaves a gap.
    """
    for some in _prefixes(cast):
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
def test_what_approved_and_rejected_mean(gate: Ask, cast: list[Ballot]) -> None:
    """Approved is every quorum met by distinct people, rejected is the veto met.

    Never both, and open is neither.
    """
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
def test_after_the_end_nothing_changes(gate: Ask, cast: list[Ballot]) -> None:
    """Whatever arrives after it was approved or rejected, everything stays as it was."""
    ended = None
    for some in _prefixes(cast):
        found = tally_ballots(gate, some)
        assert ended in (None, found)
        ended = found if found.outcome != "open" else None


@given(asks, ballots, ballots, st.data())
def test_the_end_comes_in_one_way(
    gate: Ask, cast: list[Ballot], more: list[Ballot], data: Any
) -> None:
    """Just enough votes approve whatever useless ones stand between.

    More of them never turn it back to open.
    """
    useless = [replace(each, verb="abstain", person="A") for each in more] + [
        replace(each, stage=9, verb="approve") for each in cast
    ]
    needed = _sequence(gate)
    for each in useless:
        needed.insert(data.draw(st.integers(0, len(needed))), each)
    assert tally_ballots(gate, needed).outcome == "approved"
    assert tally_ballots(gate, needed + cast + more) == tally_ballots(gate, needed)
    assert tally_ballots(gate, _sequence(gate)[:-1]).outcome == "open"


@given(asks, votes, st.randoms(use_true_random=False))
def test_the_order_within_a_stage(gate: Ask, cast: list[Ballot], random: Any) -> None:
    """Approvals of one stage may come in any order.

    With one row per person the outcome is the same.
    """
    cast = sorted((replace(each, verb="approve") for each in cast), key=lambda each: each.stage)
    mixed = sorted(random.sample(cast, len(cast)), key=lambda each: each.stage)
    one, other = tally_ballots(gate, cast), tally_ballots(gate, mixed)
    assert (one.outcome, one.stage, one.needed) == (other.outcome, other.stage, other.needed)
    rejecting = [replace(each, verb="reject") for each in mixed]
    assert tally_ballots(gate, rejecting).outcome == (
        "rejected" if len(cast) >= gate.veto else "open"
    )


@given(asks, votes, st.integers(0, 10**6))
def test_the_order_stored_is_what_counts(gate: Ask, cast: list[Ballot], after: int) -> None:
    """Votes stored at one moment, or by a clock that went back, count in their rows' order."""
    same = [replace(each, at=ASKED + timedelta(microseconds=after)) for each in cast]
    back = [replace(each, at=ASKED - timedelta(seconds=n)) for n, each in enumerate(cast)]
    assert tally_ballots(gate, cast) == tally_ballots(gate, same) == tally_ballots(gate, back)


@given(asks, ballots)
@example(THREE, [ballot("A", 0), ballot("B", 1), ballot("A", 1, "reject")])
def test_how_many_are_needed(gate: Ask, cast: list[Ballot]) -> None:
    """So many new people in the open stage bring it on, one less does not.

    When it has ended nobody is needed.
    """
    found = tally_ballots(gate, cast)
    assert (found.needed == 0) is (found.outcome != "open")
    if found.outcome == "open":
        assert found.needed == gate.stages[found.stage].quorum - len(found.approved[found.stage])
        fresh = [ballot(f"new{n}", found.stage) for n in range(found.needed)]
        short = tally_ballots(gate, cast + fresh[:-1])
        assert (short.outcome, short.stage, short.needed) == ("open", found.stage, 1)
        on = tally_ballots(gate, cast + fresh)
        assert (on.outcome == "approved") is (found.stage == len(gate.stages) - 1)
        # who has approved further on, before somebody took theirs back, still counts there
        there = [len(people) for people in found.approved]
        lacking = [each.quorum - has for each, has in zip(gate.stages, there, strict=True)]
        then = [stage for stage in range(found.stage + 1, len(lacking)) if lacking[stage]]
        assert on.outcome == "approved" or (on.stage, on.needed) == (then[0], lacking[then[0]])


@given(asks, ballots)
def test_a_veto_needs_different_people(gate: Ask, cast: list[Ballot]) -> None:
    """A veto of N is N people, however often one of them rejects.

    It counts also when they had a part in no stage.
    """
    once = [ballot("A", each.stage, "reject") for each in cast]
    assert tally_ballots(gate, once).outcome == ("rejected" if once and gate.veto == 1 else "open")
    many = [ballot(person, 0, "reject") for person in PEOPLE[: gate.veto]]
    assert tally_ballots(gate, many).outcome == "rejected"
    assert tally_ballots(gate, many[:-1] + _sequence(gate)).outcome == "approved"


def test_two_stages_step_by_step() -> None:
    """A vote for the second stage before it opens does not count, and costs the person nothing."""
    gate = Ask(rule="r", stages=(Stage(approvers=FINANCE, quorum=2), Stage(approvers=OPS)), veto=2)
    early = [ballot("C", 1)]
    assert tally_ballots(gate, early) == Tally("open", 0, ((), ()), (), 2)
    half = [*early, ballot("A", 0), ballot("A", 0), ballot("D", 0, "reject")]
    assert tally_ballots(gate, half) == Tally("open", 0, (("A",), ()), ("D",), 1)
    second = [*half, ballot("B", 0), ballot("A", 1), ballot("D", 1)]
    assert tally_ballots(gate, second) == Tally("open", 1, (("A", "B"), ()), ("D",), 1)
    assert tally_ballots(gate, [*second, ballot("F", 0)]) == tally_ballots(
        gate, second
    )  # late for the first, not let through to the second
    assert tally_ballots(gate, [*second, ballot("C", 1)]) == Tally(
        "approved", 1, (("A", "B"), ("C",)), ("D",), 0
    )
    assert tally_ballots(gate, [*second, ballot("E", 0, "reject")]) == Tally(
        "rejected", 1, (("A", "B"), ()), ("D", "E"), 0
    )


def test_nobody_is_not_enough() -> None:
    """A gate without stages, or with a quorum or a veto of nobody, cannot be made.

    So no gate is met by no votes.
    """
    for wrong in (
        {"stages": ()},
        {"veto": 0},
        {"deadline": 0},
        {"stages": ({"approvers": {}, "quorum": 0},)},
    ):
        with pytest.raises(ValidationError):
            Ask.model_validate({"rule": "r", "stages": ({"approvers": {}},), **wrong})


@given(asks)
def test_stored_and_read_again(gate: Ask) -> None:
    """A gate comes back from JSON as it was, and so do the other two kinds.

    What is unknown is refused.
    """
    kinds: TypeAdapter[Any] = TypeAdapter(Gate)
    for each in (gate, Allow(rule="a"), Deny(rule="d", reason="no")):
        assert kinds.validate_json(kinds.dump_json(each)) == each
        assert kinds.validate_python(kinds.dump_python(each, mode="json")) == each
        with pytest.raises(ValidationError):
            kinds.validate_python({**kinds.dump_python(each), "more": 1})
    with pytest.raises(ValidationError):
        kinds.validate_python({**gate.model_dump(), "verdict": "maybe"})


@given(asks)
def test_everybody_is_named_once(gate: Ask) -> None:
    """The approvers of a gate are those of all its stages, each named once."""
    found = gate.approvers
    for key in ("users", "groups"):
        named = [name for stage in gate.stages for name in getattr(stage.approvers, key)]
        assert list(getattr(found, key)) == list(dict.fromkeys(named))
    assert found.channel is any(stage.approvers.channel for stage in gate.stages)
    assert found.requester is any(stage.approvers.requester for stage in gate.stages)
