"""The cases of `countersign policy test`: calls, each with what the policy should say of it.

They are read from a file, and tried without Slack.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Literal, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
)

from bot.approvals import call_gates
from bot.cli import read_only_core
from bot.explain.explanation import describe_judgement
from bot.explain.replay import FixedClock
from bot.explain.typed_call import TypedCallError, describe_refused_arguments, find_tool
from bot.policy.approver_lists import OwnerList, describe_owner
from bot.policy.authority import Group, LookupFailedError, Person
from bot.policy.condition_values import Facts
from bot.policy.evaluation import CurrentPolicy, Judgement
from bot.policy.gates import AfterRejection, Approvers, Ask, Gate
from bot.policy.policy_file import ASK_KEYS, AskOptions, describe_validation_error
from bot.policy.rules import build_merged_ask_gate
from bot.toml_file import FileProblems, TomlSyntaxError, nearest_name_hint, parse_toml
from bot.tools import Registry, Tool
from bot.tools.arguments import dump_arguments, load_new_arguments
from bot.tools.handed_over import load_action_tool
from bot.tools.names import SlackIdResolver
from countersign.durations import format_duration, parse_duration
from storage.call_history import CallCountedTowardsLimit
from storage.digest import NonCanonicalValueError
from storage.models import Run

PersonName = Annotated[str, StringConstraints(pattern=r"^(@\S{1,80}|[UW][A-Z0-9]{2,30})$")]
_KEYS_BY_VERDICT = {  # the keys of an expectation that only one verdict allows
    "allow": {"after_rejection"},
    "deny": {"reason"},
    "ask": {*ASK_KEYS, "added"},
}


T = TypeVar("T")


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class ToolEntry(_Entry):
    """One [[tool]] in a file of cases: a tool that is not installed where they are tried."""

    name: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_]{1,64}$")]
    effect: Literal["read", "write", "destructive"]
    risk: Literal["low", "medium", "high"] | None = None
    needs_approval: bool = False


class EarlierCall(_Entry):
    """One entry of a case's `earlier`: a previous call, which sums in rules' conditions count."""

    tool: str
    args: dict[str, Any] = {}
    requester: PersonName | None = None  # None: the requester of the case
    ago: str


class CaseEntry(AskOptions):
    """One [[case]]: a call, and what policy should say of it."""

    name: Annotated[str, StringConstraints(min_length=1, max_length=200)]
    tool: str
    args: dict[str, Any] = Field(default_factory=dict)
    requester: PersonName
    channel: Annotated[str, StringConstraints(pattern=r"^(#\S{1,80}|[CGD][A-Z0-9]{2,30})$")] = ""
    client: str = ""
    at: Annotated[datetime, AfterValidator(read_only_core.check_imagined_time)] | None = None
    earlier: list[EarlierCall] = Field(default_factory=list)
    expect: Literal["allow", "deny", "ask"]
    rule: str | None = None
    added: list[str] | None = None
    reason: str | None = None
    after_rejection: AfterRejection | None = None


class CaseFile(_Entry):
    """A whole file of policy cases."""

    at: Annotated[datetime, AfterValidator(read_only_core.check_imagined_time)] | None = None
    people: dict[str, Annotated[str, StringConstraints(pattern=r"^[UW][A-Z0-9]{2,30}$")]] = {}
    groups: dict[str, list[PersonName]] = {}
    channels: dict[str, Annotated[str, StringConstraints(pattern=r"^[CG][A-Z0-9]{2,30}$")]] = {}
    owners: dict[str, dict[str, OwnerList]] = {}
    tool: list[ToolEntry] = []
    case: Annotated[list[CaseEntry], Field(min_length=1)]


class CaseSlackDirectory(read_only_core.FailingSlackDirectory):
    """A stand-in for look-ups in Slack that knows the names in a file of cases, and no others."""

    def __init__(self, file: CaseFile) -> None:
        super().__init__("the file of cases does not say")
        self._file = file

    def find_person(self, user: str) -> Person | None:
        """Return an active colleague with this id."""
        return Person(user, "T0", user)

    def find_people_by_name(self, name: str) -> Mapping[str, str]:
        """Return the one person with this handle."""
        return {self.get_user_id(f"@{name}"): name}

    def find_group(self, handle: str) -> Group | None:
        """Return the group with this handle."""
        members = _get_named(self._file.groups, "@", handle, "groups")
        return Group(f"S0{handle.upper()}", frozenset(map(self.get_user_id, members)))

    def find_channel_id(self, name: str) -> str | None:
        """Return the id of a channel given as #name or id."""
        if not name.startswith("#"):
            return name
        return _get_named(self._file.channels, "#", name[1:], "channels")

    def find_owners(self, field: str, function: str, value: str | int) -> tuple[str, ...]:
        """Return the value's owners as the file of cases lists them; `function` is not called."""
        return tuple(
            _get_named(self._file.owners.get(field, {}), "", str(value), f"owners.{field}")
        )

    def find_public_channel_name(self, channel: str) -> str:
        """Return the #name of the channel with this id; "" if the file names none."""
        return next((f"#{name}" for name, at in self._file.channels.items() if at == channel), "")

    def get_user_id(self, name: str) -> str:
        """Return the id of a person given as @handle or id; raises LookupFailedError."""
        if not name.startswith("@"):
            return name
        return _get_named(self._file.people, "@", name[1:], "people")


def _get_named(found: Mapping[str, T], mark: str, name: str, table: str) -> T:
    """Return the value under that name; raises LookupFailedError, which suggests a similar name."""
    if name not in found:
        near = nearest_name_hint([name], found)
        raise LookupFailedError(f"{mark}{name} is not under [{table}]{near}")
    return found[name]


def parse_case_file(text: str, source: str) -> tuple[CaseFile, FileProblems]:
    """Return the parsed cases, and a collector for more problems; raises TypedCallError."""
    problems, file = FileProblems(source, text), None
    try:
        file = CaseFile.model_validate(parse_toml(text))
    except TomlSyntaxError as error:
        problems.add_syntax_error(error)
    except ValidationError as invalid:
        for each in invalid.errors():
            problems.add(each["loc"], _describe_case_error(each))
    if file is not None:
        _add_contradictions(file, problems)
    if file is None or problems:
        raise TypedCallError("\n".join(problems.list_sentences()))
    return file, problems


def _describe_case_error(error: Any) -> str:
    if error["type"] == "string_pattern_mismatch":
        return f"{error['input']!r} is not an id or a name of the form needed here"
    if error["loc"] == ("case",):
        return "write at least one case; each begins with [[case]], in double brackets"
    return describe_validation_error(error, CaseFile)


def _add_contradictions(file: CaseFile, problems: FileProblems) -> None:
    """Add to `problems` what is contradictory in the file, such as a name used twice."""
    for name, members in file.groups.items():
        for each in members:
            if each.startswith("@") and each[1:] not in file.people:
                near = nearest_name_hint([each[1:]], file.people)
                problems.add(("groups", name), f"{each} is not under [people]{near}")
    names = set()
    for index, case in enumerate(file.case):
        if case.name in names:
            problems.add(("case", index, "name"), "is used twice; give each case its own")
        names.add(case.name)
        for key, sentence in _list_wrong_keys(case, file.at):
            problems.add(("case", index, key), sentence)


def _list_wrong_keys(case: CaseEntry, at: datetime | None) -> Iterator[tuple[str, str]]:
    """Yield each key of a case that is missing or makes no sense there, with what to do."""
    others = set().union(*_KEYS_BY_VERDICT.values()) - _KEYS_BY_VERDICT[case.expect]
    for key in sorted(case.model_fields_set & others):
        yield key, f'has no effect with expect = "{case.expect}"; remove it'
    if case.stages is not None and (case.approvers is not None or case.quorum is not None):
        yield "stages", "name their own approvers and quorums; remove those beside them"
    if case.at is None and at is None:
        yield "at", "is missing; say when it is asked, here or at the top of the file"
    if any(not parse_duration(each.ago) for each in case.earlier):
        yield "earlier", 'is not a time in the past; write ago = "2h"'


class PolicyCaseRunner:
    """Tries the cases of one file against the policy and the tools of the bot."""

    def __init__(
        self, file: CaseFile, core: read_only_core.ReadOnlyCore, directory: CaseSlackDirectory
    ) -> None:
        """Add the tools that the file describes; raises TypedCallError if installed ones differ.

        `directory`: that of the file, which the core asks.
        """
        self._file, self._core, self._directory = file, core, directory
        for each in file.tool:
            _add_described_tool(core.tools, each)
        asking = frozenset(each.name for each in core.tools if each.needs_approval)
        self._policy = CurrentPolicy(core.policy.policy.model_copy(update={"asking": asking}))
        self._words = read_only_core.PlainMentionStyle(directory)

    def list_unmet_expectations(self, case: CaseEntry) -> list[str]:
        """Return lines on how the policy's verdict differs from the case, and why; [] if it fits.

        Raises TypedCallError for a case that cannot be tried.
        """
        facts = self._load_facts(case)
        judged = self._policy.policy.judge_call(facts)
        found = [*_list_unknown_names(facts), *_compare_gate(case, judged)]
        return found + describe_judgement(judged, self._words) if found else []

    def _load_facts(self, case: CaseEntry) -> Facts:
        """Return the facts of a case's call, with the sums over its earlier calls."""
        at = case.at or self._file.at
        assert at is not None  # required when the file was read
        now = at if at.tzinfo else at.replace(tzinfo=UTC)
        sources = replace(self._core.sources, policy=self._policy, clock=FixedClock(now))
        tool, args = self._load_call(case)
        try:
            requester = self._directory.get_user_id(case.requester)
            channel = self._directory.find_channel_id(case.channel) or ""
            earlier = [self._load_earlier_call(each, requester, now) for each in case.earlier]
        except LookupFailedError as error:
            raise TypedCallError(f"{error}.") from None
        run = Run(
            team="T0",
            channel=channel,
            thread_ts="",
            requester=requester,
            client=case.client,
            created_at=now,
            updated_at=now,
        )
        facts, sums = call_gates.load_policy_facts(sources, run, tool, args), {}
        for lookup in call_gates.get_lookups_needed_by_rules(self._policy, tool).spent:
            begun = now - timedelta(seconds=lookup.window)
            counted = [
                call
                for name, who, call in earlier
                if name == lookup.tool and (lookup.anyone or who == requester)
                if call.at is not None and call.at > begun
            ]
            sums[lookup] = call_gates.sum_field_or_count_calls(lookup, counted, facts.arguments)
        return replace(facts, spent=sums)

    def _load_earlier_call(
        self, written: EarlierCall, requester: str, now: datetime
    ) -> tuple[str, str, CallCountedTowardsLimit]:
        """Return an earlier call's tool, its requester, and its time with its arguments."""
        who = self._directory.get_user_id(written.requester) if written.requester else requester
        at = now - timedelta(seconds=parse_duration(written.ago))
        arguments = dump_arguments(self._load_call(written)[1])
        return written.tool, who, CallCountedTowardsLimit(at, arguments)

    def _load_call(self, written: CaseEntry | EarlierCall) -> tuple[Tool[Any], BaseModel]:
        """Return the tool and its validated arguments; raises TypedCallError."""
        tool = find_tool(self._core.tools, written.tool)
        try:
            text = json.dumps(written.args, default=str, allow_nan=False)
            args = load_new_arguments(tool, text, SlackIdResolver(self._directory, None))
        except (NonCanonicalValueError, ValidationError) as error:
            raise TypedCallError(describe_refused_arguments(tool, error)) from None
        except (LookupFailedError, ValueError) as error:
            raise TypedCallError(f"{tool.name}: {error}.") from None
        return tool, args


def _add_described_tool(tools: Registry, entry: ToolEntry) -> None:
    """Add the tool that a case file describes; raises TypedCallError if installed otherwise."""
    if installed := tools.tools.get(entry.name):
        terms = (installed.does, entry.risk and installed.risk, installed.needs_approval)
        if terms != (entry.effect, entry.risk, entry.needs_approval):
            text = f"effect {terms[0]}, risk {installed.risk}, needs_approval {terms[2]}".lower()
            raise TypedCallError(f"The tool {entry.name} is installed, with {text}.")
        return
    action = {
        "name": entry.name,
        "title": entry.name,
        "effect": entry.name,
        "does": entry.effect,
        "schema": {"type": "object"},
    }
    tool = load_action_tool(json.dumps(action))
    assert tool is not None
    tools.add(replace(tool, risk=entry.risk or tool.risk, needs_approval=entry.needs_approval))


def _list_unknown_names(facts: Facts) -> Iterator[str]:
    """Yield a line for each name that a rule looks up and the file of cases does not have."""
    owned = {describe_owner(field): found for field, found in (facts.owners or {}).items()}
    for table, names in (
        ("owners", owned),
        ("groups", facts.groups),
        ("channels", facts.channels),
        ("people", facts.people),
    ):
        for name, value in (names or {}).items():
            if value is None:
                yield f"a rule asks for {name}, which the file does not name under [{table}]"


def _compare_gate(case: CaseEntry, judged: Judgement) -> Iterator[str]:
    """Yield a line for each key of the case that differs from the policy's verdict."""
    gate = judged.gate
    if gate.verdict != case.expect:
        yield f"expected {case.expect}, and policy says {gate.verdict}"
        return
    expected_terms: dict[str, Any] = {"rule": case.rule, "added": case.added, "reason": case.reason}
    expected_terms["after_rejection"] = case.after_rejection
    gate_terms = {key: getattr(gate, key, None) for key in expected_terms}
    keys = case.model_fields_set & expected_terms.keys()
    if isinstance(gate, Ask):
        rest = AskOptions(approvers=["requester"], business_hours=gate.hours is not None)
        expected = build_merged_ask_gate("", case, rest, gate.hours)
        assert expected is not None
        expected_terms |= _list_terms(expected) | {"business_hours": case.business_hours}
        gate_terms |= _list_terms(gate)
        keys |= case.written_keys
        if any(each.signature for each in case.stages or ()):
            keys |= {"signature"}
    for key in sorted(keys):
        one, other = (_format_term(gate, key, each[key]) for each in (expected_terms, gate_terms))
        if one != other:
            yield f"{key}: expected {one}, and policy says {other}"


def _list_terms(gate: Ask) -> dict[str, Any]:
    """Return a gate's terms of approval (approvers, quorum, …), by their keys in a policy."""
    steps = [(_list_approver_names(each.approvers.notified), each.quorum) for each in gate.stages]
    silent = [" or ".join(sorted(each.approvers.silent)) for each in gate.stages]
    signed = [each.signature or "none" for each in gate.stages]
    terms: dict[str, Any] = {
        "approvers": ", then ".join(names for names, _ in steps),
        "quorum": ", then ".join(str(quorum) for _, quorum in steps),
        "silent": ", then ".join(filter(None, silent)) or "nobody",
        "stages": ", then ".join(
            f"{quorum} of {names}" + (f", silent: {also}" if also else "")
            for (names, quorum), also in zip(steps, silent, strict=True)
        ),
        "business_hours": gate.hours is not None,
        "signature": ", then ".join(signed if len({*signed}) > 1 else signed[:1]),
    }
    return {key: getattr(gate, key, None) for key in ASK_KEYS} | terms


def _list_approver_names(who: Approvers) -> str:
    named = [*who.users, *(f"@{each}" for each in who.groups)]
    named += [f"owner of args.{each}" for each in who.owners]
    named += ["channel"] * who.channel + ["requester"] * who.requester
    return " or ".join(sorted(named)) or "nobody"


def _format_term(gate: Gate, key: str, value: Any) -> str:
    """Return a term of a gate in words; two terms are equal if their words are."""
    describe = gate.describe_duration if isinstance(gate, Ask) else format_duration
    if key in ("deadline", "good_for"):
        return describe(value) if key == "deadline" else format_duration(value)
    if key == "reminders":
        return ", ".join(map(describe, value)) or "none"
    if key == "escalation":
        steps = (
            f"{describe(each.after)}: {_list_approver_names(each.approvers)}" for each in value
        )
        return ", ".join(steps) or "none"
    if isinstance(value, Approvers):
        return _list_approver_names(value)
    if isinstance(value, Collection) and not isinstance(value, str):
        texts = (each.model_dump_json() if isinstance(each, BaseModel) else each for each in value)
        return ", ".join(sorted(texts)) or "none"
    return {True: "true", False: "false", None: "nothing"}.get(value, str(value))
