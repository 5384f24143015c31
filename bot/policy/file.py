"""A policy as its author writes it: the shape of the file, where things stand in it, and what the
author is told. PURE; what the rules mean is `bot.policy.evaluate`.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    field_validator,
)

from bot.policy.business_hours import HoursEntry
from bot.policy.gates import AfterRejection, Editors, Reasons
from countersign.durations import DAY, seconds

EFFECTS = ("read", "write", "destructive")
RISKS = ("low", "medium", "high")
DEADLINE_MIN, DEADLINE_MAX = 30, 30 * DAY  # seconds

_USER = re.compile(r"[UW][A-Z0-9]{2,30}")
_GROUP = re.compile(r"@[^\s@A-Z<>|&,]{1,80}")
_CHANNEL = re.compile(r"[CG][A-Z0-9]{2,30}|#[^\s#A-Z<>|&,]{1,80}")
_PATTERN = re.compile(r"[A-Za-z0-9_*?\[\]!-]{1,100}")
_FIELD = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")
MOST_PEOPLE, MOST_STEPS = 50, 10  # of a quorum or veto; of stages, reminders, escalations, offers


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


def people(values: list[str]) -> list[str]:
    """A list of approvers, checked."""
    if not values:
        raise ValueError('nobody could decide; name people ("U0123") or groups ("@shop-leads")')
    for each in values:
        if (
            each not in ("channel", "requester")
            and not _USER.fullmatch(each)
            and not _GROUP.fullmatch(each)
        ):
            remedy = (
                'write a user id ("U0123"), a lower-case group handle ("@shop-leads"), '
                '"channel", "requester" or a name from [approvers]'
            )
            raise ValueError(f"{each!r} names nobody; {remedy}")
    return values


def _lasting(value: str) -> str:
    """A duration, checked."""
    if not DEADLINE_MIN <= seconds(value) <= DEADLINE_MAX:
        raise ValueError(
            f'{value!r} is no duration; write "90s", "30m", "4h" or "2d", from 30s to 30d'
        )
    return value


def _names(values: list[str]) -> list[str]:
    """A list of fields, checked."""
    if not all(_FIELD.fullmatch(each) for each in values):
        raise ValueError('write names of fields, as in ["amount"]')
    return values


People = Annotated[list[str], AfterValidator(people)]
Lasting = Annotated[str, AfterValidator(_lasting)]
Count = Annotated[int, Field(ge=1, le=MOST_PEOPLE)]


class StageEntry(_Strict):
    """One of `stages`."""

    approvers: People
    quorum: Count = 1


class EscalationEntry(_Strict):
    """One of `escalation`."""

    after: Lasting
    approvers: People


class OfferEntry(_Strict):
    """One of `remember`."""

    fields: Annotated[list[str], AfterValidator(_names), Field(min_length=1)] | None = None
    where: Literal["thread", "everywhere"] = "thread"
    lasts: Lasting = "1d"
    uses: Annotated[int, Field(ge=1, le=1000)] = 10


class Options(_Strict):
    """How to ask: what [defaults] and every rule that asks may say."""

    approvers: People | None = None
    quorum: Count | None = None
    stages: Annotated[list[StageEntry], Field(min_length=1, max_length=MOST_STEPS)] | None = None
    any_order: bool | None = None
    veto: Count | None = None
    post_to: str | None = None
    deadline: str | None = None
    business_hours: bool | None = None
    good_for: Lasting | None = None
    reminders: Annotated[list[Lasting], Field(max_length=MOST_STEPS)] | None = None
    escalation: Annotated[list[EscalationEntry], Field(max_length=MOST_STEPS)] | None = None
    self_approval: bool | None = None
    editors: Editors | None = None
    editor_counts: bool | None = None
    editable: list[str] | None = None
    reasons: Reasons | None = None
    remember: Annotated[list[OfferEntry], Field(max_length=MOST_STEPS)] | None = None

    @property
    def said(self) -> frozenset[str]:
        """The keys of these that stand in the file here."""
        return frozenset(self.model_fields_set & Options.model_fields.keys())

    @field_validator("post_to")
    @classmethod
    def _post_to(cls, value: str) -> str:
        if value not in ("thread", "approvers") and not _CHANNEL.fullmatch(value):
            remedy = (
                'write "thread", "approvers", a channel id ("C0123") or a lower-case name '
                '("#finance")'
            )
            raise ValueError(f"{value!r} is no place; {remedy}")
        return value

    @field_validator("deadline")
    @classmethod
    def _deadline(cls, value: str) -> str:
        if not DEADLINE_MIN <= seconds(value) <= DEADLINE_MAX:
            raise ValueError(
                f'{value!r} is no deadline; write "90s", "30m", "4h" or "2d", from 30s to 30d'
            )
        return value

    @field_validator("editable")
    @classmethod
    def _editable(cls, values: list[str]) -> list[str]:
        return _names(values)


ASK_KEYS = frozenset(Options.model_fields)


class Defaults(Options):
    """What [defaults] may say."""

    after_rejection: AfterRejection | None = None


class RuleEntry(Options):
    """One [[rule]]."""

    name: Annotated[str, StringConstraints(pattern=r"^\S[^\x00-\x1f\x7f]{0,59}$")] | None = None
    tool: list[str] = ["*"]
    effect: list[str] = list(EFFECTS)
    risk: list[str] = list(RISKS)
    channel: list[str] = []
    requester: list[str] = []
    when: str | None = None
    verdict: Literal["allow", "deny", "ask", "once", "add"]
    reason: Annotated[str, StringConstraints(pattern=r"^\S[\s\S]{0,299}$")] | None = None
    after_rejection: AfterRejection | None = None

    @field_validator("tool", "effect", "risk", "channel", "requester", mode="before")
    @classmethod
    def _one_or_many(cls, value: object) -> object:
        return [value] if isinstance(value, str) else value

    @field_validator("tool")
    @classmethod
    def _tool(cls, values: list[str]) -> list[str]:
        if not values or not all(_PATTERN.fullmatch(each) for each in values):
            raise ValueError('write the name of a tool, a pattern ("refund_*") or a list of them')
        return values

    @field_validator("effect")
    @classmethod
    def _effect(cls, values: list[str]) -> list[str]:
        if not values or not set(values) <= set(EFFECTS):
            raise ValueError(f"write one of {', '.join(EFFECTS)}, or a list of them")
        return values

    @field_validator("risk")
    @classmethod
    def _risk(cls, values: list[str]) -> list[str]:
        if not values or not set(values) <= set(RISKS):
            raise ValueError(f"write one of {', '.join(RISKS)}, or a list of them")
        return values

    @field_validator("channel")
    @classmethod
    def _channel(cls, values: list[str]) -> list[str]:
        if not values or not all(_CHANNEL.fullmatch(each) for each in values):
            raise ValueError(
                'write a channel id ("C0123"), a lower-case name ("#finance") or a list of them'
            )
        return values

    @field_validator("requester")
    @classmethod
    def _requester(cls, values: list[str]) -> list[str]:
        if not values or not all(
            _USER.fullmatch(each) or _GROUP.fullmatch(each) for each in values
        ):
            raise ValueError(
                'write a user id ("U0123"), a lower-case group handle ("@support") or a list of '
                "them"
            )
        return values

    @field_validator("when")
    @classmethod
    def _when(cls, value: str) -> str:
        # only now: the library behind it takes a moment to load
        from bot.policy.condition import Condition

        Condition(value)  # says itself what is wrong
        return value


class TemplateEntry(_Strict):
    """One [[template]]."""

    title: Annotated[str, StringConstraints(pattern=r"^\S[^\x00-\x1f\x7f]{0,59}$")]
    tool: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_]{1,64}$")]
    fixed: dict[str, Any] = {}
    who: People | None = None


class ModesEntry(_Strict):
    """What the file says of the modes of channels."""

    loosen: People | None = None  # who may loosen one; None: the approvers of the defaults


ChannelName = Annotated[str, StringConstraints(pattern=r"^(#[^\s#]{1,80}|C\w{5,20})$")]


class PolicyFile(_Strict):
    """The whole file."""

    # who may look at any request's record, beside those whom it concerns
    readers: People | None = None
    hours: HoursEntry | None = None
    defaults: Defaults = Defaults()
    modes: ModesEntry = ModesEntry()
    rule: list[RuleEntry] = []
    template: list[TemplateEntry] = []
    shared_channels: list[ChannelName] = []
