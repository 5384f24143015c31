"""The policy file as its author writes it: its keys and values, and the messages about mistakes.
PURE; what the rules mean is in `bot.policy.evaluation`.

Messages also report what has no effect or can never happen: keys out of place, quorums larger than
the number of people, moments after the deadline.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationInfo,
    field_validator,
)
from pydantic_core import ErrorDetails, to_jsonable_python

from bot.policy import approver_lists, gates
from bot.policy.business_hours import FreezeEntry, HoursEntry, StartTime, parse_start_time
from bot.policy.gates import AfterRejection, Approvers, Ask, Editors, Reasons
from bot.toml_file import FileProblems, KeyPath, describe_invalid_value, unknown_key_sentence
from countersign.durations import DAY, parse_duration

EFFECTS = ("read", "write", "destructive")
RISKS = ("low", "medium", "high")
MIN_DEADLINE_SECONDS = 30
MAX_DEADLINE_SECONDS = 30 * DAY

_CHANNEL_PATTERN = re.compile(r"[CG][A-Z0-9]{2,30}|#[^\s#A-Z<>|&,]{1,80}")
_TOOL_NAME_PATTERN = re.compile(r"[A-Za-z0-9_*?\[\]!-]{1,100}")
_AAGUID_PATTERN = r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$"
_FIELD_NAME_PATTERN = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")
MAX_PEOPLE = 50  # for a quorum or veto
MAX_STEPS = 10  # stages, reminders, escalations or offers


class _StrictModel(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


def _validate_duration(value: str) -> str:
    if not MIN_DEADLINE_SECONDS <= parse_duration(value) <= MAX_DEADLINE_SECONDS:
        raise ValueError(
            f'{value!r} is not a duration; write "90s", "30m", "4h" or "2d", from 30s to 30d'
        )
    return value


def _validate_field_names(values: list[str]) -> list[str]:
    if not all(_FIELD_NAME_PATTERN.fullmatch(each) for each in values):
        raise ValueError('write names of fields, as in ["amount"]')
    return values


Duration = Annotated[str, AfterValidator(_validate_duration)]
FieldNames = Annotated[list[str], AfterValidator(_validate_field_names)]
Count = Annotated[int, Field(ge=1, le=MAX_PEOPLE)]
WrittenSignature = Literal["passkey", "none"]  # "none" overrides [defaults]
SIGNATURE_BY_SETTING: Mapping[str, gates.Signature] = {"none": "", "passkey": "passkey"}


class StageEntry(_StrictModel):
    """One entry of `stages` in a policy file: how many people of whom have to approve."""

    approvers: approver_lists.DeciderList
    quorum: Count = 1
    silent: approver_lists.OwnerList = []
    signature: WrittenSignature | None = None


class EscalationEntry(_StrictModel):
    """One entry of `escalation` in a policy file: who else may decide after a time."""

    after: Duration
    approvers: approver_lists.DeciderList


class GrantOfferEntry(_StrictModel):
    """One entry of `remember` in a policy file: an offer to save an approval for later calls."""

    fields: Annotated[FieldNames, Field(min_length=1)] | None = None
    where: Literal["thread", "everywhere"] = "thread"
    lasts: Duration = "1d"
    uses: Annotated[int, Field(ge=1, le=1000)] = 10


class AskOptions(_StrictModel):
    """How to ask: what [defaults] and every rule that asks may say."""

    approvers: approver_lists.DeciderList | None = None
    quorum: Count | None = None
    silent: approver_lists.OwnerList | None = None
    stages: Annotated[list[StageEntry], Field(min_length=1, max_length=MAX_STEPS)] | None = None
    any_order: bool | None = None
    veto: Count | None = None
    post_to: str | None = None
    deadline: Duration | None = None
    business_hours: bool | None = None
    good_for: Duration | None = None
    run_at: Annotated[StartTime, BeforeValidator(parse_start_time)] | None = None
    reminders: Annotated[list[Duration], Field(max_length=MAX_STEPS)] | None = None
    escalation: Annotated[list[EscalationEntry], Field(max_length=MAX_STEPS)] | None = None
    urgent: bool | None = None
    self_approval: bool | None = None
    editors: Editors | None = None
    editor_counts: bool | None = None
    editable: FieldNames | None = None
    reasons: Reasons | None = None
    signature: WrittenSignature | None = None
    break_glass: approver_lists.DeciderList | None = None
    remember: Annotated[list[GrantOfferEntry], Field(max_length=MAX_STEPS)] | None = None

    @property
    def written_keys(self) -> frozenset[str]:
        """Return the keys of `AskOptions` that this entry of the file sets."""
        return frozenset(self.model_fields_set & AskOptions.model_fields.keys())

    @field_validator("post_to")
    @classmethod
    def _validate_post_to(cls, value: str) -> str:
        if value not in ("thread", "approvers") and not _CHANNEL_PATTERN.fullmatch(value):
            remedy = (
                'write "thread", "approvers", a channel id ("C0123") or a lower-case name '
                '("#finance")'
            )
            raise ValueError(f"{value!r} is not a place; {remedy}")
        return value


ASK_KEYS = frozenset(AskOptions.model_fields)


class DefaultsEntry(AskOptions):
    """The table [defaults] of a policy file."""

    after_rejection: AfterRejection | None = None


# the keys that say what a rule is about: a check of each word, and a hint what to write
_SCOPE_CHECKS: Mapping[str, tuple[Callable[[str], object], str]] = {
    "tool": (_TOOL_NAME_PATTERN.fullmatch, 'the name of a tool, a pattern ("refund_*")'),
    "effect": (EFFECTS.__contains__, f"one of {', '.join(EFFECTS)},"),
    "risk": (RISKS.__contains__, f"one of {', '.join(RISKS)},"),
    "channel": (
        _CHANNEL_PATTERN.fullmatch,
        'a channel id ("C0123"), a lower-case name ("#finance")',
    ),
    "requester": (
        approver_lists.is_person_or_group,
        'a user id ("U0123"), a lower-case group handle ("@support")',
    ),
}


class RuleEntry(AskOptions):
    """One [[rule]] of a policy file, as it is written."""

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

    @field_validator(*_SCOPE_CHECKS, mode="before")
    @classmethod
    def _wrap_in_list(cls, value: object) -> object:
        return [value] if isinstance(value, str) else value

    @field_validator(*_SCOPE_CHECKS)
    @classmethod
    def _validate_scope(cls, values: list[str], info: ValidationInfo) -> list[str]:
        fits, what = _SCOPE_CHECKS[str(info.field_name)]
        if not values or not all(map(fits, values)):
            raise ValueError(f"write {what} or a list of them")
        return values

    @field_validator("when")
    @classmethod
    def _validate_when(cls, value: str) -> str:
        # imported late, because the CEL library takes a moment to load
        from bot.policy.condition import Condition

        Condition(value)  # raises if it is wrong
        return value


class TemplateEntry(_StrictModel):
    """One [[template]] of a policy file: a prepared request."""

    title: Annotated[str, StringConstraints(pattern=r"^\S[^\x00-\x1f\x7f]{0,59}$")]
    tool: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_]{1,64}$")]
    fixed: dict[str, Any] = {}
    who: approver_lists.ApproverList | None = None


class ChannelModesEntry(_StrictModel):
    """The table [modes] of a policy file: who may loosen a channel's mode (strict, observe)."""

    # who may loosen a mode; None: the approvers of [defaults]
    loosen: approver_lists.ApproverList | None = None


class ManagerEntry(_StrictModel):
    """The table [manager] of a policy file: the Slack profile field that names one's manager."""

    field: Annotated[str, StringConstraints(min_length=1, max_length=100)]


class PasskeysEntry(_StrictModel):
    """The table [passkeys] of a policy file, on the passkeys that votes are signed with."""

    enrol: Literal["countersigned", "self"] = "countersigned"
    models: list[Annotated[str, StringConstraints(pattern=_AAGUID_PATTERN)]] = []
    roots: Annotated[str, StringConstraints(max_length=100_000)] = ""
    days: Annotated[int, Field(ge=0, le=3650)] = 365
    alarm: approver_lists.ApproverList | None = None


ChannelName = Annotated[str, StringConstraints(pattern=r"^(#[^\s#]{1,80}|C\w{5,20})$")]


def _validate_name(value: str) -> str:
    if not re.fullmatch(r"[a-z][a-z0-9_]{0,59}", value):
        raise ValueError("cannot be a name; write another, in lower case")
    return value


FreezeName = Annotated[str, AfterValidator(_validate_name)]


class PolicyFile(_StrictModel):
    """A whole policy file, parsed."""

    # people who may look at any request's record, in addition to those whom it concerns
    readers: approver_lists.ApproverList | None = None
    hours: HoursEntry | None = None
    owners: dict[str, approver_lists.OwnersEntry] = {}
    manager: ManagerEntry | None = None
    freezes: dict[FreezeName, FreezeEntry] = {}
    defaults: DefaultsEntry = DefaultsEntry()
    modes: ChannelModesEntry = ChannelModesEntry()
    rule: list[RuleEntry] = []
    template: list[TemplateEntry] = []
    passkeys: PasskeysEntry | None = None
    shared_channels: list[ChannelName] = []


_MESSAGE_BY_ERROR_TYPE = {
    "date_type": "write a date, as 2026-12-25",
    "too_short": "name at least one",
    "too_long": "there are too many; name fewer",
    "string_pattern_mismatch": "write plain text: a name of up to 60, a reason of 300, an AAGUID",
}
_MESSAGE_BY_MISSING_KEY = {
    "verdict": 'is missing; write "allow", "deny", "ask", "once" or "add"',
    "approvers": 'names no approvers; write approvers = ["@your-group"] in each',
    "after": 'does not say when; write after = "30m" in each',
}


def describe_validation_error(error: ErrorDetails, model: type[BaseModel]) -> str:
    """Return what is wrong and what to do, for a Pydantic error about a file of this model."""
    if error["type"] == "extra_forbidden":
        return unknown_key_sentence(error["loc"], model)
    if error["loc"] == ("rule",):
        return "rules are headed [[rule]], with two brackets"
    if error["type"] == "missing":
        return _MESSAGE_BY_MISSING_KEY.get(str(error["loc"][-1]), "is missing")
    return describe_invalid_value(error, _MESSAGE_BY_ERROR_TYPE)


def list_keys_unfit_for_verdict(rule: RuleEntry) -> Iterator[tuple[str, str]]:
    """Yield each key that is useless with the rule's verdict, or missing, with what to do."""
    verdict = f'verdict = "{rule.verdict}"'
    if rule.verdict == "add":
        yield from _list_unaddable_keys(rule)
    elif rule.verdict not in ("ask", "once"):
        for key in sorted(rule.written_keys):
            yield key, f"means nothing with {verdict}; remove it"
    if rule.verdict != "allow" and rule.after_rejection is not None:
        yield "after_rejection", f"means nothing with {verdict}; remove it"
    if rule.verdict == "once" and rule.remember is not None:
        yield (
            "remember",
            'means nothing with verdict = "once", which always remembers; remove it',
        )
    if rule.remember and (
        (rule.quorum or 1) > 1 or sum(stage.quorum for stage in rule.stages or ()) > 1
    ):
        yield "remember", "would let one person remember what takes several to approve; remove it"
    if rule.remember or rule.verdict == "once":
        key = "remember" if rule.remember else "verdict"
        if rule.signature == "passkey":
            yield key, "each approval with a passkey is for one call; nothing is remembered"
        if rule.effect == ["destructive"]:
            yield key, "what cannot be undone is asked every time; nothing is remembered"
    if rule.verdict == "deny" and rule.reason is None:
        yield "reason", 'is missing; tell the person who asks why (reason = "…")'
    if rule.verdict != "deny" and rule.reason is not None:
        yield "reason", f"means nothing with {verdict}; remove it"


def _list_unaddable_keys(rule: RuleEntry) -> Iterator[tuple[str, str]]:
    """Yield each key of an "add" rule that would loosen other rules or add nothing, and a fix."""
    written_keys = rule.written_keys
    if not written_keys:
        yield "verdict", 'adds nothing; say what, as in approvers = ["@finance"]'
    for key in sorted(written_keys & {"post_to", "remember", "break_glass"}):
        yield key, 'means nothing with verdict = "add"; say it in the rule that asks'
    for key in sorted(written_keys & {"self_approval", "editor_counts"}):
        if getattr(rule, key):
            yield key, "would loosen what other rules ask; a rule that adds can only say false"
    if rule.signature == "none":
        yield "signature", "takes nothing away; a rule that adds can only say passkey"
    if rule.urgent is False:
        yield "urgent", "takes nothing away; a rule that adds can only say true"
    for key in ("quorum", "silent"):
        if getattr(rule, key) is not None and rule.approvers is None:
            yield key, "means nothing without approvers here; name them"


def list_contradictory_keys(
    own: AskOptions, defaults: AskOptions, gate: Ask | None
) -> Iterator[tuple[str, str]]:
    """Yield each key of `own` whose value contradicts another or can never apply, with what to do.

    `gate` is the gate that `own` and `defaults` result in.
    """
    beside = [key for key in ("approvers", "quorum", "silent") if getattr(own, key) is not None]
    if own.stages is not None and beside:
        yield (
            "stages",
            "name their own approvers and quorums; remove approvers, quorum and silent beside them",
        )
    elif beside and own.approvers is None and defaults.stages is not None:
        yield (
            beside[0],
            "means nothing with the stages of [defaults]; write approvers or stages here",
        )
    for each in (own, *(own.stages or ())):
        if both := sorted({*(each.approvers or ())} & {*(each.silent or ())}):
            yield "silent", f"names {', '.join(both)}, who is among the approvers; remove one"
    if gate is None:
        return
    last = {"reminders": gate.reminders, "escalation": [step.after for step in gate.escalation]}
    for key, moments in last.items():
        if getattr(own, key) and max(moments) >= gate.deadline:
            yield (
                key,
                "comes only when the deadline has passed; name an earlier time, or a later "
                "deadline",
            )
    if gate.run_at and (own.remember or getattr(own, "verdict", "") == "once"):
        key = "remember" if own.remember else "verdict"
        yield key, "would start calls at any time, and run_at says when; remove one of them"
    if own.model_fields_set & {"approvers", "silent", "stages", "quorum", "veto"}:
        yield from _list_impossible_quorums(own, gate)


def _list_impossible_quorums(own: AskOptions, gate: Ask) -> Iterator[tuple[str, str]]:
    """Yield the key at fault if fewer people are named than the quorums or the veto need."""
    who = [
        gate.get_stage_approvers(index, timedelta(seconds=gate.deadline))
        for index in range(len(gate.stages))
    ]
    everybody = gate.approvers | who[0]
    short = any(
        stage.quorum > approver_lists.count_named_people(each)
        for stage, each in zip(gate.stages, who, strict=True)
    )
    if short or gate.required_approvers > approver_lists.count_named_people(everybody):
        key = next((each for each in ("stages", "quorum") if getattr(own, each)), "approvers")
        yield (
            key,
            "needs more different people than are named; name more of them, or lower the quorum",
        )
    elif gate.veto > approver_lists.count_named_people(everybody):
        key = "veto" if own.veto else "approvers"
        yield (
            key,
            f"needs {gate.veto} rejections, more than there are people; nobody could say no; "
            "lower veto",
        )


def build_named_people(
    written: Sequence[str] | None, key: KeyPath, problems: FileProblems
) -> Approvers:
    """Return the approvers in a list; "channel" or "requester" in it is added to `problems`."""
    found = approver_lists.build_approvers(written or ())
    if found.channel or found.requester:
        problems.add(key, "name people and groups only, whoever asked, anywhere")
    return found


def build_passkey_terms(said: PasskeysEntry | None, problems: FileProblems) -> gates.PasskeyTerms:
    """Return which passkeys count, by the file's [passkeys] or by default; reports mistakes."""
    said = said or PasskeysEntry()
    if bool(said.models) != ("-----BEGIN CERTIFICATE-----" in said.roots):
        wrong = "only the maker of an authenticator can say of which model it is; name models and"
        problems.add(("passkeys", "models"), f"{wrong} roots, their makers' certificates (PEM)")
    alarm = build_named_people(said.alarm, ("passkeys", "alarm"), problems)
    return gates.PasskeyTerms(**said.model_dump(exclude={"alarm"}), alarm=alarm)


class RequestTemplate(BaseModel):
    """A request prepared in the policy, which people choose by its title."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    title: str  # people choose it by this
    tool: str
    fixed: dict[str, Any] = {}  # JSON values by field, which requesters cannot change
    who: Approvers | None = None  # who may request it; None: everybody
    place: str = Field("", exclude=True)  # position for error messages: file, line, template


def build_request_templates(
    entries: Sequence[TemplateEntry], problems: FileProblems
) -> tuple[RequestTemplate, ...]:
    """Return the prepared requests of a file, in order; repeated titles are added to `problems`."""
    titles: set[str] = set()
    templates = []
    for index, entry in enumerate(entries):
        if (title := entry.title.casefold()) in titles:
            sentence = f"the title {entry.title!r} is taken; give each template its own"
            problems.add(("template", index, "title"), sentence)
        titles.add(title)
        templates.append(
            RequestTemplate(
                title=entry.title,
                tool=entry.tool,
                fixed=to_jsonable_python(entry.fixed),
                who=None if entry.who is None else approver_lists.build_approvers(entry.who),
                place=problems.describe_key_location(("template", index)),
            )
        )
    return tuple(templates)
