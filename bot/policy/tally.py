"""How far votes have come towards meeting a gate. PURE: no look-ups, no clock."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from bot.policy.gates import Ask
from storage.states import Balance, Verb


@dataclass(frozen=True, slots=True)
class Ballot:
    """One vote that was let through, as it is stored."""

    person: str
    verb: Verb  # APPROVE or REJECT
    stage: int  # where it was let through, from 0
    at: datetime
    also: tuple[int, ...] = ()  # further stages where it may count, where they have no order


@dataclass(frozen=True, slots=True)
class Tally:
    """How far it has come."""

    outcome: Balance
    stage: int  # the one that is open, the first of them, or the last
    approved: tuple[tuple[str, ...], ...]  # per stage who counts, in order
    rejected: tuple[str, ...]
    needed: int  # more people in the open stages; 0 when nothing is open
    # the stages in one of which whoever approves now has to be able to
    open: tuple[int, ...] = field(default=(), compare=False)

    @property
    def turn(self) -> tuple[int, ...]:
        """The stages whose people are asked; where it is over, the last."""
        return self.open or (self.stage,)


def tally(gate: Ask, ballots: Sequence[Ballot]) -> Tally:
    """Evaluate `ballots` in the order they were stored.

    A person counts once, and a rejection takes back the approval of whoever has changed their mind;
    after the end nothing counts.
    """
    return _in_any_order(gate, ballots) if gate.any_order else _in_order(gate, ballots)


def _in_order(gate: Ask, ballots: Sequence[Ballot]) -> Tally:
    """One stage after the other."""
    counted: list[list[str]] = [[] for _ in gate.stages]
    rejected: list[str] = []
    stage = 0
    for ballot in ballots:
        if ballot.person in rejected or stage == len(gate.stages) or len(rejected) >= gate.veto:
            continue
        has_approved = any(ballot.person in people for people in counted)
        if ballot.verb == Verb.REJECT:
            rejected.append(ballot.person)
            counted = [[each for each in people if each != ballot.person] for people in counted]
        elif ballot.verb == Verb.APPROVE and ballot.stage == stage and not has_approved:
            counted[stage].append(ballot.person)
        stage = _open_stage(gate, counted)
    approved = tuple(tuple(people) for people in counted)
    if len(rejected) >= gate.veto:
        last = min(stage, len(gate.stages) - 1)
        return Tally(Balance.REJECTED, last, approved, tuple(rejected), 0)
    if stage == len(gate.stages):
        return Tally(Balance.APPROVED, stage - 1, approved, tuple(rejected), 0)
    needed = gate.stages[stage].quorum - len(counted[stage])
    return Tally(Balance.OPEN, stage, approved, tuple(rejected), needed, (stage,))


def _open_stage(gate: Ask, counted: Sequence[Sequence[str]]) -> int:
    """Return the first stage that lacks somebody; the number of stages when none does."""
    met = (len(people) >= each.quorum for people, each in zip(counted, gate.stages, strict=True))
    return next((at for at, enough in enumerate(met) if not enough), len(gate.stages))


def _in_any_order(gate: Ask, ballots: Sequence[Ballot]) -> Tally:
    """All stages at once. Each person counts in one of those where they may, and moves to another
    of them where that makes room for somebody else.
    """
    may: dict[str, tuple[int, ...]] = {}  # who has approved, and where that may count
    rejected: list[str] = []
    seats = _seats(gate, may)
    for ballot in ballots:
        is_open = _open_stages(gate, seats, may)
        if ballot.person in rejected or not is_open or len(rejected) >= gate.veto:
            continue
        stages = (ballot.stage, *ballot.also)
        if ballot.verb == Verb.REJECT:
            rejected.append(ballot.person)
            may.pop(ballot.person, None)
        elif ballot.verb == Verb.APPROVE and ballot.person not in may and {*stages} & {*is_open}:
            may[ballot.person] = stages
        seats = _seats(gate, may)
    approved = tuple(tuple(each for each in may if each in people) for people in seats)
    if len(rejected) >= gate.veto:
        return Tally(Balance.REJECTED, 0, approved, tuple(rejected), 0)
    is_open = _open_stages(gate, seats, may)
    if not is_open:
        return Tally(Balance.APPROVED, len(seats) - 1, approved, tuple(rejected), 0)
    needed = gate.people - sum(map(len, seats))
    return Tally(Balance.OPEN, 0, approved, tuple(rejected), needed, is_open)


def _seats(gate: Ask, may: Mapping[str, tuple[int, ...]]) -> list[set[str]]:
    """Who counts in which stage, so that as many as can be do (by augmenting paths)."""
    seats: list[set[str]] = [set() for _ in gate.stages]

    def seat(person: str, tried: set[int]) -> bool:
        for stage in may[person]:
            if stage in tried or stage >= len(seats):
                continue
            tried.add(stage)
            if len(seats[stage]) < gate.stages[stage].quorum:
                seats[stage].add(person)
                return True
            for other in sorted(seats[stage]):
                if seat(other, tried):
                    seats[stage] ^= {other, person}
                    return True
        return False

    for person in may:
        seat(person, set())
    return seats


def _open_stages(
    gate: Ask, seats: Sequence[set[str]], may: Mapping[str, tuple[int, ...]]
) -> tuple[int, ...]:
    """The stages that lack somebody, or whose people can move to one that does."""
    found = {at for at, people in enumerate(seats) if len(people) < gate.stages[at].quorum}
    while more := {
        at
        for at, people in enumerate(seats)
        if at not in found and any({*may[person]} & found for person in people)
    }:
        found |= more
    return tuple(sorted(found))
