"""Gates: what policy says about a call, and how far votes have come towards meeting one. PURE: no
look-ups, no clock.

A gate is stored with its call as it was shown, and covered by the call's digest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Annotated, Literal

import rfc8785
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from storage.states import Balance, Verb

Editors = Literal["approvers", "approvers_and_requester", "nobody"]
AfterRejection = Literal["ask", "allow"]
Reasons = Literal["never", "approve", "reject", "always"]


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Allow(_Frozen):
    """It may run without asking."""

    verdict: Literal["allow"] = "allow"
    rule: str
    # what becomes of it once people have rejected something in the same request
    after_rejection: AfterRejection = "ask"


class Deny(_Frozen):
    """It may not run, whoever says yes."""

    verdict: Literal["deny"] = "deny"
    rule: str
    reason: str


class Approvers(_Frozen):
    """Who may decide: people, user groups by handle, the members of the channel where it was asked,
    who asked.
    """

    users: tuple[str, ...] = ()  # Slack user ids
    groups: tuple[str, ...] = ()  # handles without @
    channel: bool = False
    requester: bool = False

    def __or__(self, other: Approvers) -> Approvers:
        """Everybody whom either names, in order."""
        return Approvers(
            users=tuple(dict.fromkeys((*self.users, *other.users))),
            groups=tuple(dict.fromkeys((*self.groups, *other.groups))),
            channel=self.channel or other.channel,
            requester=self.requester or other.requester,
        )


class Stage(_Frozen):
    """One step of an approval: so many different people of these."""

    approvers: Approvers
    quorum: int = Field(1, ge=1)


class Escalation(_Frozen):
    """Who may decide besides, once it has waited that long."""

    after: int  # seconds from the moment it was asked
    approvers: Approvers


class Offer(_Frozen):
    """What an approver may have remembered: never more than this."""

    fields: tuple[str, ...] | None = None  # the arguments that must be the same; None: all of them
    where: Literal["thread", "everywhere"] = "thread"
    lasts: int = 86_400  # seconds
    uses: int = 10


class Ask(_Frozen):
    """People decide."""

    verdict: Literal["ask"] = "ask"
    rule: str
    # one after the other; nobody counts in two of them
    stages: tuple[Stage, ...] = Field(min_length=1)
    post_to: str = "thread"  # thread | approvers | a channel id C… | a channel name #…
    deadline: int = Field(3600, gt=0)  # seconds from the moment it is asked
    self_approval: bool = False  # the requester may decide
    editors: Editors = "approvers_and_requester"
    editor_counts: bool = False  # who edits may also approve what came of it
    # the fields that may be edited; None: as the tool has it
    editable: tuple[str, ...] | None = None
    veto: int = Field(1, ge=1)  # so many rejections end it
    reasons: Reasons = "never"  # which decisions need words of their own
    reminders: tuple[int, ...] = ()  # seconds from the moment it is asked
    escalation: tuple[Escalation, ...] = ()
    remember: tuple[Offer, ...] = ()
    once: Offer | None = None  # remembered with every approval, unasked
    good_for: int = Field(1800, gt=0)  # seconds that an approval may wait to be run
    would_allow: bool = False  # policy allows it, but people rejected something before

    @property
    def approvers(self) -> Approvers:
        """Everybody whom any stage names; those of an escalation come later."""
        found = self.stages[0].approvers
        for stage in self.stages[1:]:
            found |= stage.approvers
        return found

    @property
    def people(self) -> int:
        """How many different people it takes."""
        return sum(stage.quorum for stage in self.stages)

    def approvers_of(self, stage: int, waited: timedelta) -> Approvers:
        """Who counts in a stage (from 0) once it has waited so long.

        Escalations that are due count in every stage.
        """
        found = self.stages[stage].approvers
        for step in self.escalation:
            if waited >= timedelta(seconds=step.after):
                found |= step.approvers
        return found

    def forgetful(self) -> Ask:
        """The same, with nothing to be remembered."""
        nothing = {"remember": (), "once": None}
        return self.model_copy(update=nothing) if self.remember or self.once else self

    def same_terms(self, other: Ask) -> bool:
        """Whether votes that meet the one meet the other: only who is told, where and until when
        may differ.
        """
        terms = {"stages", "escalation", "veto", "self_approval", "editor_counts", "reasons"}
        return self.model_dump(include=terms) == other.model_dump(include=terms)

    def moments(self) -> list[int]:
        """When something is due before the deadline, in seconds from the moment it is asked, in
        order.
        """
        due = {*self.reminders, *(step.after for step in self.escalation)}
        return sorted(moment for moment in due if moment < self.deadline)


Gate = Annotated[Allow | Deny | Ask, Field(discriminator="verdict")]


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


def stricter(shown: Ask, now: Ask) -> Ask:
    """The gate that holds where the one shown and the one that applies now differ: both must be
    met.

    Whoever meets it has met every stage of either gate, with as many different people of the same
    approvers. The stages of `shown` stay first and in place, so a vote counts where it was let
    through; what `now` asks besides comes after them. Nothing is remembered of what two gates ask.
    Doing it again changes nothing: stricter(stricter(a, b), b) == stricter(a, b).
    """
    if shown == now:
        return shown
    return now.model_copy(
        update={
            "stages": _both_met(shown.stages, now.stages),
            "deadline": min(shown.deadline, now.deadline),
            "good_for": min(shown.good_for, now.good_for),
            "self_approval": shown.self_approval and now.self_approval,
            "editor_counts": shown.editor_counts and now.editor_counts,
            "editors": _fewer(shown.editors, now.editors),
            "editable": _both_allow(shown.editable, now.editable),
            "veto": min(shown.veto, now.veto),
            "reasons": _more_words(shown.reasons, now.reasons),
            "escalation": tuple(step for step in now.escalation if step in shown.escalation),
        }
    ).forgetful()


def _both_met(first: tuple[Stage, ...], second: tuple[Stage, ...]) -> tuple[Stage, ...]:
    """The n-th stage of the same approvers in one is the n-th in the other: the larger quorum
    counts.
    """
    stages = list(first)
    free = list(range(len(first)))
    for stage in second:
        same = next((at for at in free if _people(stages[at]) == _people(stage)), None)
        if same is None:
            stages.append(stage)
            continue
        free.remove(same)
        stages[same] = stages[same].model_copy(
            update={"quorum": max(stages[same].quorum, stage.quorum)}
        )
    return tuple(stages)


def _people(stage: Stage) -> tuple[frozenset[str], frozenset[str], bool, bool]:
    found = stage.approvers
    return frozenset(found.users), frozenset(found.groups), found.channel, found.requester


def _fewer(one: Editors, other: Editors) -> Editors:
    order: tuple[Editors, ...] = ("nobody", "approvers", "approvers_and_requester")
    return min(one, other, key=order.index)


def _both_allow(
    one: tuple[str, ...] | None, other: tuple[str, ...] | None
) -> tuple[str, ...] | None:
    if one is None or other is None:
        return other if one is None else one
    return tuple(field for field in one if field in other)


def _more_words(one: Reasons, other: Reasons) -> Reasons:
    if one == other or other == "never":
        return one
    return other if one == "never" else "always"


GATE: TypeAdapter[Gate] = TypeAdapter(Gate)


def load_gate(text: str) -> Gate:
    """The gate stored with a call."""
    return GATE.validate_json(text)


def dump_gate(gate: Gate) -> str:
    """A gate as canonical JSON."""
    return rfc8785.dumps(gate.model_dump(mode="json")).decode()
