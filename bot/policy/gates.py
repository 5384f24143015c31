"""Gates: the policy's verdict on a call (allow, deny or ask people). PURE: no look-ups, no clock.

A gate is stored with its call as people were shown it, and is covered by the call's digest.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from bot.policy.business_hours import BusinessHours, StartTime
from countersign.durations import format_duration

Editors = Literal["approvers", "approvers_and_requester", "nobody"]
AfterRejection = Literal["ask", "allow"]
Reasons = Literal["never", "approve", "reject", "always"]
Signature = Literal["", "passkey"]  # how an approval must be signed; "": not at all
DEFAULT_RULE = "default"  # a gate's `rule` if no rule matched
ADD_PASSKEY = "add_passkey"  # name of the tool by which other people let a person's passkey count
DEFAULT_GOOD_FOR_SECONDS = 86_400  # from an approval until its call starts


class _FrozenModel(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Allow(_FrozenModel):
    """Gate of a call that runs without asking."""

    verdict: Literal["allow"] = "allow"
    rule: str
    # after people have rejected something in the same request
    after_rejection: AfterRejection = "ask"


class Deny(_FrozenModel):
    """Gate of a call that may not run, whoever agrees."""

    verdict: Literal["deny"] = "deny"
    rule: str
    reason: str


class Approvers(_FrozenModel):
    """Who may decide: people, user groups, members of the request's channel, the requester."""

    users: tuple[str, ...] = ()  # Slack user ids
    groups: tuple[str, ...] = ()  # handles without @
    channel: bool = False
    requester: bool = False
    # fields whose values have owners who decide; in a call's gate, the owners are among the others
    owners: tuple[str, ...] = Field((), exclude_if=lambda fields: not fields)
    # the users and groups ("@directors") who may decide but are not notified
    silent: tuple[str, ...] = Field((), exclude_if=lambda names: not names)

    @property
    def notified(self) -> Approvers:
        """Return the approvers who are notified: all but the silent ones."""
        if not self.silent:
            return self
        users = tuple(each for each in self.users if each not in self.silent)
        groups = tuple(each for each in self.groups if f"@{each}" not in self.silent)
        return self.model_copy(update={"users": users, "groups": groups, "silent": ()})

    def copy_without_users(self, out: Collection[str]) -> Approvers:
        """Return the approvers without some whom they name by id."""
        lists = {"users": self.users, "silent": self.silent}
        kept = {key: tuple(one for one in each if one not in out) for key, each in lists.items()}
        return self.model_copy(update=kept)

    @property
    def shown(self) -> Approvers:
        """Return the approvers whom cards name: the notified ones; all if that would be nobody."""
        told = self.notified
        return told if told.names or told.channel or told.requester else self

    def __or__(self, other: Approvers) -> Approvers:
        """Return the union of both lists of approvers, in order and without duplicates.

        Only those whom neither list notifies are silent in it.
        """
        notified = {name for who in (self.notified, other.notified) for name in who.names}
        return Approvers(
            users=tuple(dict.fromkeys((*self.users, *other.users))),
            groups=tuple(dict.fromkeys((*self.groups, *other.groups))),
            channel=self.channel or other.channel,
            requester=self.requester or other.requester,
            owners=tuple(dict.fromkeys((*self.owners, *other.owners))),
            silent=tuple(dict.fromkeys(e for e in self.silent + other.silent if e not in notified)),
        )

    @property
    def as_sets(self) -> tuple[frozenset[str], frozenset[str], bool, bool]:
        """Return the approvers in a form that is equal for the same ones in any order."""
        return frozenset(self.users), frozenset(self.groups), self.channel, self.requester

    @property
    def names(self) -> tuple[str, ...]:
        """Return the people and groups as a policy names them."""
        return (*self.users, *(f"@{each}" for each in self.groups))


class Stage(_FrozenModel):
    """One step of an approval: how many different people of whom must approve."""

    approvers: Approvers
    quorum: int = Field(1, ge=1)
    signature: Signature = Field("", exclude_if=lambda kind: not kind)


class PasskeyTerms(_FrozenModel):
    """Which passkeys count where a rule asks for signatures, and who hears of a suspicious one."""

    enrol: Literal["countersigned", "self"] = "countersigned"  # who lets a new passkey count
    models: tuple[str, ...] = ()  # AAGUIDs of the accepted authenticator models; empty: any
    # certificates (PEM) of the makers whose attestation of a model is trusted
    roots: str = Field("", exclude_if=lambda text: not text)
    days: int = 365  # how long a passkey counts; 0: for ever
    alarm: Approvers = Approvers()  # who is notified of a passkey that may have been stolen

    def allows_model(self, aaguid: str, *, attested: bool) -> bool:
        """Return whether passkeys of that model count; `attested`: its maker confirms the model."""
        return not self.models or (attested and aaguid in self.models)


class Escalation(_FrozenModel):
    """Who else may decide once a call has waited for `after` seconds."""

    after: int  # seconds after approval was requested
    approvers: Approvers


class GrantOffer(_FrozenModel):
    """An offer to save an approval for later calls: the widest grant that a rule allows."""

    fields: tuple[str, ...] | None = None  # arguments that must be the same; None: all of them
    where: Literal["thread", "everywhere"] = "thread"
    lasts: int = 86_400  # seconds
    uses: int = 10


class Ask(_FrozenModel):
    """Gate of a call that people decide."""

    verdict: Literal["ask"] = "ask"
    rule: str
    added: tuple[str, ...] = ()  # rules that added to it, in order
    # no person counts in two of them
    stages: tuple[Stage, ...] = Field(min_length=1)
    any_order: bool = False  # all stages are open at once; otherwise one after the other
    post_to: str = "thread"  # thread | approvers | a channel id C… | a channel name #…
    deadline: int = Field(3600, gt=0)  # seconds after approval was requested
    # hours in which deadline, reminders and escalation are counted; None: all hours
    hours: BusinessHours | None = None
    self_approval: bool = False  # the requester may decide
    editors: Editors = "approvers_and_requester"
    editor_counts: bool = False  # people who edited may also approve the result
    # fields that may be edited; None: those that the tool allows
    editable: tuple[str, ...] | None = None
    veto: int = Field(1, ge=1)  # number of rejections that end it
    reasons: Reasons = "never"  # which decisions need a written reason
    reminders: tuple[int, ...] = ()  # seconds after approval was requested
    escalation: tuple[Escalation, ...] = ()
    # whether reminders and escalations notify people at night, too
    urgent: bool = Field(default=False, exclude_if=lambda urgent: not urgent)
    # who may run it alone and at once, giving a reason; None: nobody
    break_glass: Approvers | None = Field(None, exclude_if=lambda who: who is None)
    remember: tuple[GrantOffer, ...] = ()
    once: GrantOffer | None = None  # saved with every approval, without being chosen
    # seconds from an approval until its call starts
    good_for: int = Field(DEFAULT_GOOD_FOR_SECONDS, gt=0)
    # when an approved call starts; None: at once
    run_at: StartTime | None = Field(None, exclude_if=lambda at: at is None)
    would_allow: bool = False  # policy allows it, but people rejected something before

    @property
    def approvers(self) -> Approvers:
        """Return everybody named by any stage, without the people whom an escalation adds later."""
        found = self.stages[0].approvers
        for stage in self.stages[1:]:
            found |= stage.approvers
        return found

    @property
    def required_approvers(self) -> int:
        """Return how many different people have to approve: the sum of the stages' quorums."""
        return sum(stage.quorum for stage in self.stages)

    def get_stage_approvers(self, stage: int, waited: timedelta) -> Approvers:
        """Return who may approve in a stage (from 0) after the call has waited that long.

        Escalations that are due count in every stage.
        """
        found = self.stages[stage].approvers
        for step in self.escalation:
            if waited >= timedelta(seconds=step.after):
                found |= step.approvers
        return found

    @property
    def wants_signature(self) -> bool:
        """Return whether approvals in any stage have to be signed."""
        return any(stage.signature for stage in self.stages)

    @property
    def initial_stages(self) -> tuple[int, ...]:
        """Return the stages (from 0) that are open from the beginning."""
        return tuple(range(len(self.stages))) if self.any_order else (0,)

    def get_approvers_of_stages(
        self,
        stages: Iterable[int],
        waited: timedelta,
        requester: str = "",
        editors: Collection[str] = (),
    ) -> Approvers:
        """Return who may approve in any of these stages (from 0) after waiting that long.

        `requester` asked, and `editors` edited the call: they are left out where they may not
        approve.
        """
        found, barred = Approvers(), frozenset(() if self.editor_counts else editors)
        for stage in stages:
            who = self.get_stage_approvers(stage, waited)
            may_request = who.requester and requester not in barred
            out = barred if self.self_approval or may_request else barred | {requester}
            found |= who.copy_without_users(out).model_copy(update={"requester": may_request})
        return found

    def describe_duration(self, seconds: int) -> str:
        """Return a time of this gate in words; a day of business hours is a business day."""
        return self.hours.describe_duration(seconds) if self.hours else format_duration(seconds)

    def compute_due_time(self, start: datetime, seconds: int) -> datetime:
        """Return the moment when `seconds` have passed since `start`, in business hours if set."""
        hours = self.hours
        passed = timedelta(seconds=seconds)
        return hours.add_business_seconds(start, seconds) if hours else start + passed

    def measure_waiting_time(self, start: datetime, at: datetime) -> timedelta:
        """Return how much of the time from `start` to `at` counts: business hours if set."""
        hours = self.hours
        return hours.measure_business_time(start, at) if hours else max(at - start, timedelta())

    def copy_without_offers(self) -> Ask:
        """Return this gate without any offer to save an approval."""
        nothing = {"remember": (), "once": None}
        return self.model_copy(update=nothing) if self.remember or self.once else self

    def counts_votes_like(self, other: Ask) -> bool:
        """Return whether both gates count votes alike, so votes that meet one meet the other.

        Who is notified, where and until when may differ.
        """
        terms = {"stages", "any_order", "escalation", "veto", "self_approval"}
        terms |= {"editor_counts", "reasons", "break_glass"}
        terms |= {"hours"} if self.escalation else set()  # they decide whose vote came too early
        return self == other or self.model_dump(include=terms) == other.model_dump(include=terms)

    def list_notification_delay_seconds(self) -> list[int]:
        """Return when reminders and escalations are due before the deadline, in order.

        In seconds from the moment the call is asked.
        """
        due = {*self.reminders, *(step.after for step in self.escalation)}
        return sorted(moment for moment in due if moment < self.deadline)


Gate = Annotated[Allow | Deny | Ask, Field(discriminator="verdict")]


class GateAddOn(_FrozenModel):
    """What a rule with the verdict "add" adds to another rule's gate, which makes it stricter.

    It may also name further people who may decide after a while. None and empty values add nothing.
    """

    verdict: Literal["add"] = "add"
    rule: str
    # the gate to ask by if the other rule allows; None if this rule names nobody
    ask: Ask | None = None
    stages: tuple[Stage, ...] = ()
    deadline: int | None = Field(None, gt=0)
    good_for: int | None = Field(None, gt=0)
    self_approval: Literal[False] | None = None
    editors: Editors | None = None
    editor_counts: Literal[False] | None = None
    editable: tuple[str, ...] | None = None
    veto: int | None = Field(None, ge=1)
    reasons: Reasons | None = None
    reminders: tuple[int, ...] = ()
    escalation: tuple[Escalation, ...] = ()
    urgent: Literal[True] | None = None
    run_at: StartTime | None = Field(None, exclude_if=lambda at: at is None)
    # for every stage, if the rule itself says so
    signature: Literal["passkey"] | None = Field(None, exclude_if=lambda kind: kind is None)


GATE_ADAPTER: TypeAdapter[Gate] = TypeAdapter(Gate)
# RFC 8785 for what a gate holds: ASCII names, texts, whole numbers and booleans
_canonical = json.JSONEncoder(sort_keys=True, ensure_ascii=False, separators=(",", ":")).encode


@lru_cache(maxsize=256)
def load_gate(text: str) -> Gate:
    """Return the gate parsed from a call's stored JSON; cached, as gates are never changed."""
    return GATE_ADAPTER.validate_json(text)


def dump_gate(gate: Gate) -> str:
    """Return a gate as canonical JSON without default values; so the defaults must never change."""
    said = gate.model_dump(mode="json", exclude_defaults=True)
    return _canonical({"verdict": gate.verdict, **said})


def combine_gates(shown: Ask, now: Ask) -> Ask:
    """Return a gate that is met only when both the gate shown and the current one are met.

    Votes that meet it have met every stage of either gate, with as many different people of the
    same approvers. The stages of `shown` stay first and in place, so a vote counts in the stage it
    was accepted for; further stages of `now` come after them. Where the two differ, the result
    offers no saved approvals. Combining it again with either changes nothing.
    """
    if shown == now:
        return shown
    alike = shown.hours == now.hours  # otherwise all hours count, which lets nobody in sooner
    return now.model_copy(
        update={
            **_merge_terms(shown, now),
            "any_order": shown.any_order and now.any_order,
            "run_at": now.run_at or shown.run_at,
            "hours": now.hours if alike else None,
            "break_glass": now.break_glass if now.break_glass == shown.break_glass else None,
            "escalation": tuple(
                step for step in now.escalation if alike and step in shown.escalation
            ),
        }
    ).copy_without_offers()


def shorten_deadline(gate: Ask, shown: Ask) -> Ask:
    """Return `gate` with the shorter deadline of the two gates.

    If their business hours differ, all hours count and escalations are dropped.
    """
    changed: dict[str, object] = {"deadline": min(shown.deadline, gate.deadline)}
    if shown.hours != gate.hours:
        changed |= {"hours": None, "escalation": ()}
    return gate.model_copy(update=changed)


def tighten_gate(gate: Allow | Ask, additions: Sequence[tuple[GateAddOn, bool]]) -> Allow | Ask:
    """Return the gate with these additions; each comes with whether its rule surely applies.

    An allowed call is asked about if one of the additions names who decides. Additions never
    loosen: votes that meet the result before any escalation have met `gate`. A rule that may or may
    not apply adds no escalation, because an escalation lets more people decide.
    """
    if isinstance(gate, Allow):
        asking = next((each.ask for each, _ in additions if each.ask), None)
        if asking is None:
            return gate
        gate = asking
    for addition, sure in additions:
        if changed := _build_gate_changes(gate, addition, sure):
            names = gate.added if addition.rule == gate.rule else (*gate.added, addition.rule)
            gate = gate.model_copy(update={**changed, "added": names})
    return gate


def _build_gate_changes(gate: Ask, addition: GateAddOn, sure: bool) -> dict[str, object]:
    steps = addition.escalation if sure else ()
    new = [step for step in steps if step not in gate.escalation]
    wanted = _merge_terms(gate, addition) | {
        "reminders": tuple(sorted({*gate.reminders, *addition.reminders})),
        "escalation": tuple(sorted((*gate.escalation, *new), key=lambda step: step.after)),
        "urgent": gate.urgent or addition.urgent is True,
        "run_at": gate.run_at or addition.run_at,
    }
    if wanted["run_at"]:  # a saved approval would start calls at any time
        wanted |= {"remember": (), "once": None}
    if signature := addition.signature:
        stages = _merge_stages(gate.stages, addition.stages)
        wanted["stages"] = tuple(
            each.model_copy(update={"signature": signature}) for each in stages
        )
    return {key: value for key, value in wanted.items() if value != getattr(gate, key)}


def _merge_terms(one: Ask, other: Ask | GateAddOn) -> dict[str, object]:
    """Return the merged stages of both gates, and the stricter of each of their other terms."""
    return {
        "stages": _merge_stages(one.stages, other.stages),
        "deadline": min(one.deadline, other.deadline or one.deadline),
        "good_for": min(one.good_for, other.good_for or one.good_for),
        "self_approval": one.self_approval and other.self_approval is not False,
        "editor_counts": one.editor_counts and other.editor_counts is not False,
        "editors": _get_stricter_editors(one.editors, other.editors or one.editors),
        "editable": _intersect_editable_fields(one.editable, other.editable),
        "veto": min(one.veto, other.veto or one.veto),
        "reasons": _get_stricter_reasons(one.reasons, other.reasons or one.reasons),
    }


def _merge_stages(first: tuple[Stage, ...], second: tuple[Stage, ...]) -> tuple[Stage, ...]:
    """Return `first` with the stages of `second` merged in, or appended if they have no equal.

    Stages with the same approvers are paired in order. Each pair becomes one stage with the larger
    quorum, which asks for signatures if one of the two does.
    """
    stages = list(first)
    free = list(range(len(first)))
    for stage in second:
        sets = stage.approvers.as_sets
        same = next((at for at in free if stages[at].approvers.as_sets == sets), None)
        if same is None:
            stages.append(stage)
            continue
        free.remove(same)
        stages[same] = stages[same].model_copy(
            update={
                "quorum": max(stages[same].quorum, stage.quorum),
                "signature": stages[same].signature or stage.signature,
            }
        )
    return tuple(stages)


def _get_stricter_editors(one: Editors, other: Editors) -> Editors:
    order: tuple[Editors, ...] = ("nobody", "approvers", "approvers_and_requester")
    return min(one, other, key=order.index)


def _intersect_editable_fields(
    one: tuple[str, ...] | None, other: tuple[str, ...] | None
) -> tuple[str, ...] | None:
    if one is None or other is None:
        return other if one is None else one
    return tuple(field for field in one if field in other)


def _get_stricter_reasons(one: Reasons, other: Reasons) -> Reasons:
    if one == other or other == "never":
        return one
    return other if one == "never" else "always"
