"""How far votes have come towards meeting a gate. PURE: no look-ups, no clock."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True)
class Tally:
    """How far it has come."""

    outcome: Balance
    stage: int  # the one that is open, or the last
    approved: tuple[tuple[str, ...], ...]  # per stage who counts, in order
    rejected: tuple[str, ...]
    needed: int  # more people in the open stage; 0 when nothing is open


def tally(gate: Ask, ballots: Sequence[Ballot]) -> Tally:
    """Evaluate `ballots` in the order they were stored.

    A person counts once, and a rejection takes back the approval of whoever has changed their mind;
    after the end nothing counts.
    """
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
    return Tally(Balance.OPEN, stage, approved, tuple(rejected), needed)


def _open_stage(gate: Ask, counted: Sequence[Sequence[str]]) -> int:
    """Return the first stage that lacks somebody; the number of stages when none does."""
    met = (len(people) >= each.quorum for people, each in zip(counted, gate.stages, strict=True))
    return next((at for at, enough in enumerate(met) if not enough), len(gate.stages))
