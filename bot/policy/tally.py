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
    stage: int  # where it was let through, from 0
    at: datetime
    also: tuple[int, ...] = ()  # further stages where it may count, where they have no order
    is_signed: bool = False

    def may_count_in(self, gate: Ask, stage: int) -> bool:
        """Return whether the vote is signed, or the stage of the gate asks for no signature."""
        return self.is_signed or stage >= len(gate.stages) or not gate.stages[stage].signature


@dataclass(frozen=True, slots=True)
class Tally:
    """The count of votes on a gate so far, with its outcome."""

    outcome: VoteOutcome
    stage: int  # the one that is open, the first of them, or the last
    approved: tuple[tuple[str, ...], ...]  # per stage who counts, in order
    rejected: tuple[str, ...]
    needed: int  # more people in the open stages; 0 when nothing is open
    # the stages in one of which whoever approves now has to be able to
    open_stages: tuple[int, ...] = field(default=(), compare=False)

    @property
    def asked_stages(self) -> tuple[int, ...]:
        """Return the stages whose approvers are asked now; after the vote, the last one."""
        return self.open_stages or (self.stage,)


def tally_ballots(gate: Ask, ballots: Sequence[Ballot]) -> Tally:
    """Count stored votes in their order; in a stage that asks for signatures, signed ones only.

    A person counts once; rejecting takes back that person's own approval. Votes after the end are
    ignored. Breaking glass stands for all approvals that are missing, where the gate lets somebody.
    """
    count = _tally_in_any_order if gate.any_order else _tally_in_order
    found = count(gate, ballots)
    signed = not gate.wants_signature
    broken = any(
        each.verb is CallVerb.BREAK_GLASS and (signed or each.is_signed) for each in ballots
    )
    if gate.break_glass is None or not broken or found.outcome is not VoteOutcome.OPEN:
        return found
    return replace(found, outcome=VoteOutcome.APPROVED, needed=0, open_stages=())


def _tally_in_order(gate: Ask, ballots: Sequence[Ballot]) -> Tally:
    counted: list[list[str]] = [[] for _ in gate.stages]
    rejected: list[str] = []
    stage = 0
    for ballot in ballots:
        if ballot.person in rejected or stage == len(gate.stages) or len(rejected) >= gate.veto:
            continue
        has_approved = any(ballot.person in people for people in counted)
        if ballot.verb == CallVerb.REJECT:
            rejected.append(ballot.person)
            counted = [[each for each in people if each != ballot.person] for people in counted]
        elif ballot.verb == CallVerb.APPROVE and ballot.stage == stage and not has_approved:
            counted[stage] += [ballot.person] * ballot.may_count_in(gate, stage)
        stage = _find_open_stage(gate, counted)
    approved = tuple(tuple(people) for people in counted)
    if len(rejected) >= gate.veto:
        last = min(stage, len(gate.stages) - 1)
        return Tally(VoteOutcome.REJECTED, last, approved, tuple(rejected), 0)
    if stage == len(gate.stages):
        return Tally(VoteOutcome.APPROVED, stage - 1, approved, tuple(rejected), 0)
    needed = gate.stages[stage].quorum - len(counted[stage])
    return Tally(VoteOutcome.OPEN, stage, approved, tuple(rejected), needed, (stage,))


def _find_open_stage(gate: Ask, counted: Sequence[Sequence[str]]) -> int:
    """Return the first stage below its quorum; the number of stages if there is none."""
    met = (len(people) >= each.quorum for people, each in zip(counted, gate.stages, strict=True))
    return next((at for at, enough in enumerate(met) if not enough), len(gate.stages))


def _tally_in_any_order(gate: Ask, ballots: Sequence[Ballot]) -> Tally:
    """Count votes on a gate whose stages are all open at once.

    Each person counts in one of the stages where they may approve, and is moved to another of them
    if that makes room for somebody else.
    """
    may: dict[str, tuple[int, ...]] = {}  # who has approved, and where that may count
    rejected: list[str] = []
    seats = _assign_voters_to_stages(gate, may)
    for ballot in ballots:
        is_open = _list_open_stages(gate, seats, may)
        if ballot.person in rejected or not is_open or len(rejected) >= gate.veto:
            continue
        stages = [at for at in (ballot.stage, *ballot.also) if ballot.may_count_in(gate, at)]
        if ballot.verb == CallVerb.REJECT:
            rejected.append(ballot.person)
            may.pop(ballot.person, None)
        elif (
            ballot.verb == CallVerb.APPROVE and ballot.person not in may and {*stages} & {*is_open}
        ):
            may[ballot.person] = tuple(stages)
        seats = _assign_voters_to_stages(gate, may)
    approved = tuple(tuple(each for each in may if each in people) for people in seats)
    if len(rejected) >= gate.veto:
        return Tally(VoteOutcome.REJECTED, 0, approved, tuple(rejected), 0)
    is_open = _list_open_stages(gate, seats, may)
    if not is_open:
        return Tally(VoteOutcome.APPROVED, len(seats) - 1, approved, tuple(rejected), 0)
    needed = gate.required_approvers - sum(map(len, seats))
    return Tally(VoteOutcome.OPEN, 0, approved, tuple(rejected), needed, is_open)


def _assign_voters_to_stages(gate: Ask, may: Mapping[str, tuple[int, ...]]) -> list[set[str]]:
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
    gate: Ask, seats: Sequence[set[str]], may: Mapping[str, tuple[int, ...]]
) -> tuple[int, ...]:
    """Return the stages below their quorum, or whose people could move to such a stage."""
    found = {at for at, people in enumerate(seats) if len(people) < gate.stages[at].quorum}
    while more := {
        at
        for at, people in enumerate(seats)
        if at not in found and any({*may[person]} & found for person in people)
    }:
        found |= more
    return tuple(sorted(found))
