"""The count of votes on a gate. PURE: no look-ups, no clock."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from bot.policy.gates import Ask
from storage.states import CallVerb, VoteOutcome


@dataclass(frozen=True, slots=True)
class Ballot:
    """One accepted vote, as it is stored."""

    person: str
    verb: CallVerb  # APPROVE, REJECT or BREAK_GLASS
    stage: int  # stage for which it was accepted, from 0
    at: datetime
    also: tuple[int, ...] = ()  # further stages where it may count, if the stages have no order
    is_signed: bool = False

    def may_count_in(self, gate: Ask, stage: int) -> bool:
        """Return whether the vote is signed, or the stage of the gate asks for no signature."""
        return self.is_signed or stage >= len(gate.stages) or not gate.stages[stage].signature


@dataclass(frozen=True, slots=True)
class Tally:
    """The count of votes on a gate so far, with its outcome."""

    outcome: VoteOutcome
    stage: int  # the open stage; the first of several, or the last of all
    approved: tuple[tuple[str, ...], ...]  # who counts in each stage, in order
    rejected: tuple[str, ...]
    needed: int  # people still missing in the open stages; 0 if none is open
    # stages that an approver may count in now
    open_stages: tuple[int, ...] = field(default=(), compare=False)

    @property
    def asked_stages(self) -> tuple[int, ...]:
        """Return the stages whose approvers are asked now; after the vote, the last one."""
        return self.open_stages or (self.stage,)


def tally_ballots(gate: Ask, ballots: Sequence[Ballot]) -> Tally:
    """Count stored votes in their order; in a stage that asks for signatures, signed ones only.

    A person counts once; rejecting takes back that person's own approval. Where the stages have no
    order, each person counts in one of those where they may approve, and is moved to another of
    them if that makes room for somebody else. Votes after the end are ignored. Breaking glass
    counts as all the missing approvals if the gate lets anybody do so.
    """
    tally = _tally_votes(gate, ballots)
    signed = not gate.wants_signature
    broken = any(
        each.verb is CallVerb.BREAK_GLASS and (signed or each.is_signed) for each in ballots
    )
    if gate.break_glass is None or not broken or tally.outcome is not VoteOutcome.OPEN:
        return tally
    return replace(tally, outcome=VoteOutcome.APPROVED, needed=0, open_stages=())


def _tally_votes(gate: Ask, ballots: Sequence[Ballot]) -> Tally:
    may: dict[str, list[int]] = {}  # each approver, with the stages where the vote may count
    rejected: list[str] = []
    seats = _assign_voters_to_stages(gate, may)
    is_open = _list_open_stages(gate, seats, may)
    for ballot in ballots:
        if ballot.person in rejected or not is_open or len(rejected) >= gate.veto:
            continue
        named = (ballot.stage, *ballot.also) if gate.any_order else (ballot.stage,)
        stages = [at for at in named if ballot.may_count_in(gate, at)]
        if ballot.verb == CallVerb.REJECT:
            rejected.append(ballot.person)
            may.pop(ballot.person, None)
        elif (
            ballot.verb == CallVerb.APPROVE and ballot.person not in may and {*stages} & {*is_open}
        ):
            may[ballot.person] = stages
        seats = _assign_voters_to_stages(gate, may)
        is_open = _list_open_stages(gate, seats, may)
    approved = tuple(tuple(each for each in may if each in people) for people in seats)
    if not is_open:
        return Tally(VoteOutcome.APPROVED, len(seats) - 1, approved, tuple(rejected), 0)
    stage = 0 if gate.any_order else is_open[0]
    if len(rejected) >= gate.veto:
        return Tally(VoteOutcome.REJECTED, stage, approved, tuple(rejected), 0)
    needed = sum(gate.stages[at].quorum - len(seats[at]) for at in is_open)
    return Tally(VoteOutcome.OPEN, stage, approved, tuple(rejected), needed, is_open)


def _assign_voters_to_stages(gate: Ask, may: Mapping[str, Sequence[int]]) -> list[set[str]]:
    """Return the people who count in each stage, placing as many as possible (augmenting paths)."""
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


def _list_open_stages(
    gate: Ask, seats: Sequence[set[str]], may: Mapping[str, Sequence[int]]
) -> tuple[int, ...]:
    """Return the stages below their quorum, or whose people could move to such a stage.

    If the stages have an order, only the first below its quorum.
    """
    open_stages = {at for at, people in enumerate(seats) if len(people) < gate.stages[at].quorum}
    if not gate.any_order:
        return tuple(sorted(open_stages)[:1])
    while movable := {
        at
        for at, people in enumerate(seats)
        if at not in open_stages and any({*may[person]} & open_stages for person in people)
    }:
        open_stages |= movable
    return tuple(sorted(open_stages))
