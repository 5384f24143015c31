"""Rules that the record suggests: what people always approve, and what they often do not.

Each is tried on the recorded calls, in its place in the policy, before it is shown. A rule that
would have let through calls that people rejected, edited or left undecided, or that failed, is not
shown. Nothing is written.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from decimal import Decimal
from enum import Enum
from functools import cached_property
from typing import Any

from pydantic import BaseModel, ValidationError

from bot.approvals import call_gates
from bot.cards.request_list import mask_on_one_line
from bot.explain import report, rule_report
from bot.explain.explanation import MentionStyle
from bot.policy.condition_values import Facts
from bot.policy.evaluation import CurrentPolicy, PolicyError, parse
from bot.policy.gates import DEFAULT_RULE, Allow, Ask, Gate, load_gate
from bot.policy.rules import parse_cached_condition
from bot.policy.tally import Ballot, tally_ballots
from bot.tools import Effect, Tool
from bot.tools.arguments import dump_values, load_arguments
from countersign.durations import format_count
from storage.call_history import CallInReport
from storage.states import CallStatus, VoteOutcome

MIN_DECISIONS = 20  # needed for a suggestion
MIN_SAME_APPROVALS = 5  # needed of the same call for the same person
MIN_SINGLE_APPROVER_PERIOD = timedelta(days=30)  # shorter only if two people approved
MIN_CORRECTED_SHARE = 0.3  # share of decisions that are rejections or edits
GRANT_DURATION = timedelta(days=7)  # the same as in the offer below
MAX_GRANT_USES = 10
SUGGESTED_GRANT_OFFER = {
    "where": "everywhere",
    "lasts": f"{GRANT_DURATION.days}d",
    "uses": MAX_GRANT_USES,
}
MAX_NAMED_CALLS = 5  # listed as evidence
MAX_CALL_TEXT_CHARS = 90
ASKING_VERDICTS = ("ask", "once")
NOTHING_REFUSED_SENTENCE = "Would have been refused: nothing."
_FATE = report.CallFate
ReadArguments = tuple[Mapping[str, Any], Mapping[str, Decimal]]  # values, and amounts among them


@dataclass(frozen=True, eq=False)
class JudgedCall:
    """A call that people decided, with its tool and its arguments."""

    call: CallInReport
    gate: Ask
    tool: Tool[Any]
    values: Mapping[str, Any]  # arguments, as conditions read them
    amounts: Mapping[str, Decimal]
    fate: report.CallFate
    is_edited: bool  # a person changed it
    is_good: bool  # approved unchanged, and did not fail

    @cached_property
    def facts(self) -> Facts:
        """The facts about the call that conditions read, except look-ups and sums."""
        call = self.call
        return call_gates.build_plain_facts(
            self.tool, call.requester, call.channel, self.values, call.created_at, call.client
        )

    def read_choice(self, name: str) -> str:
        """Return the value of an argument as it is written in a rule's condition."""
        value = self.values.get(name)
        plain = value.value if isinstance(value, Enum) else value
        return json.dumps(plain, ensure_ascii=False)


@dataclass(frozen=True, slots=True)
class SuggestedRule:
    """A rule for the policy, the rule above which it belongs, and the evidence for it."""

    entry: Mapping[str, Any]  # the rule's keys in the policy file
    above: str
    evidence: tuple[str, ...]


class NoSuggestionError(Exception):
    """Raised if recorded calls suggest no rule; the text says why, "" if that is obvious."""


@dataclass(slots=True)
class PolicySuggester:
    """Finds what the recorded decisions suggest for a policy."""

    written: Mapping[str, Any]  # content of the policy file, with names replaced
    sources: call_gates.PolicyFactSources
    reader: rule_report.AmountReader
    words: MentionStyle
    suggested: list[SuggestedRule] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)  # why there is none for a rule and a tool
    # by tool, action and arguments, which often repeat
    _read: dict[tuple[str, str, str], ReadArguments | None] = field(default_factory=dict)
    _of_tool: dict[str, list[JudgedCall]] = field(default_factory=dict)
    _named: int = 0  # number of rules named so far

    def suggest_rules(self, recorded: Sequence[CallInReport]) -> None:
        """Add the rules that these calls suggest to `suggested`, and why no others to `reasons`."""
        loaded = [self._load_call(call) for call in recorded if report.is_decided_by_people(call)]
        judged = [each for each in loaded if each and each.fate in report.DECIDED_FATES]
        self._of_tool = report.group_by(judged, lambda x: x.call.tool)
        groups = report.group_by(judged, lambda x: (x.gate.rule, x.call.tool))
        for (rule, tool), decided in sorted(groups.items(), key=lambda each: -len(each[1])):
            reasons: list[str] = []
            for suggest in (self._allow, self._remember, self._ask_fewer, self._ask_more):
                try:
                    self.suggested += suggest(rule, decided)
                except NoSuggestionError as error:
                    reasons += filter(None, [str(error)])
            if reasons:
                subject = self.words.quote_text(f"{tool}, asked by rule {rule!r}")
                self.reasons.append(f"{subject}: {'; '.join(dict.fromkeys(reasons))}.")
        if unread := loaded.count(None):
            why = "whose tool is gone or takes other arguments now, or whose arguments were purged"
            self.reasons.append(f"Left out: {format_count(unread, 'call')} {why}.")

    def _load_call(self, call: CallInReport) -> JudgedCall | None:
        """Return the call as it can be judged; None if its tool or its arguments are gone."""
        (tool, _), gate = self.reader.find_tool(call), load_gate(call.gate)
        if tool is None or call.is_purged or not isinstance(gate, Ask):
            return None
        key = (call.tool, call.action, call.newest_arguments)
        if key not in self._read:
            self._read[key] = self._read_arguments(call, tool)
        if (read := self._read[key]) is None:
            return None
        fate = report.get_call_fate(call)
        edited = bool(report.list_editors(call))
        failed = call.status in (CallStatus.FAILED, CallStatus.UNKNOWN)
        good = fate is _FATE.APPROVED and not (failed or edited)
        return JudgedCall(call, gate, tool, *read, fate, edited, good)

    def _read_arguments(self, call: CallInReport, tool: Tool[Any]) -> ReadArguments | None:
        """Return the values and amounts of a call; None if its tool takes other arguments now."""
        model: type[BaseModel] = tool.arguments
        try:
            read = model.model_validate_json(call.newest_arguments, by_alias=True, by_name=True)
        except ValidationError:
            return None
        return dump_values(read), self.reader.read_amounts(call)

    def _allow(self, rule: str, decided: Sequence[JudgedCall]) -> list[SuggestedRule]:
        """Return rules that allow up to the largest amount that was always approved."""
        _require_reversible(decided)
        fields = self.reader.find_tool(decided[0].call)[1]
        if not fields or decided[0].tool.needs_approval:  # it reads too much to run unasked
            raise NoSuggestionError("it has no amount up to which it could be allowed")
        units = _list_choice_fields(decided[0].tool, units=True)
        with_amounts = [x for x in decided if set(fields) <= x.amounts.keys()]
        groups = report.group_by(
            with_amounts, lambda x: tuple(x.read_choice(unit) for unit in units)
        )
        suggested, reasons = [], ["no call has an amount"]
        for group in sorted(groups.values(), key=len):
            try:
                suggested.append(self._allow_up_to(rule, fields, group))
            except NoSuggestionError as error:
                reasons.append(str(error))
        if not suggested:
            raise NoSuggestionError(reasons[-1])
        return suggested

    def _allow_up_to(
        self, rule: str, fields: Sequence[str], calls: Sequence[JudgedCall]
    ) -> SuggestedRule:
        main_field, (place, entry) = fields[0], self._find_place(rule)
        refused_from = min((x.amounts[main_field] for x in calls if not x.is_good), default=None)
        approved = [
            x
            for x in calls
            if x.is_good and (refused_from is None or x.amounts[main_field] < refused_from)
        ]
        _require_enough(
            approved,
            "" if refused_from is None else f" below {main_field} {refused_from:f}, which was not",
        )
        tests = [f"({entry['when']})"] if "when" in entry else []
        ranges = []
        for name in fields:
            low, *_, high = sorted(x.amounts[name] for x in approved)
            tests.append(f"args.{name} >= {min(low, Decimal(0)):f} && args.{name} <= {high:f}")
            ranges.append(f"{name} {rule_report.format_range((low, high))}")
        choices = _list_choice_fields(calls[0].tool)
        for name in choices:
            seen = sorted({x.read_choice(name) for x in approved})
            tests.append(f"args.{name} in [{', '.join(seen)}]")
        scope = ("risk", "channel", "requester")
        copied: dict[str, Any] = {key: each for key, each in entry.items() if key in scope}
        copied |= {"when": " && ".join(tests), "verdict": "allow"}
        entry = self._name_entry("allow", approved[0], copied)
        unasked = self._try_rule(place, entry, self._of_tool[approved[0].call.tool], Allow)
        if refused := [x for x in unasked if not x.is_good]:
            raise NoSuggestionError(f"it would have let through {self._name_calls(refused)}")
        unlimited = ", ".join(sorted(approved[0].values.keys() - {*fields, *choices})) or "nothing"
        return _build_suggestion(
            *(entry, rule, approved, ranges),
            f"Would have run unasked: {self._name_calls(unasked, main_field)}.",
            f"{NOTHING_REFUSED_SENTENCE} Not limited by it: {unlimited}.",
        )

    def _remember(self, rule: str, decided: Sequence[JudgedCall]) -> list[SuggestedRule]:
        """Return a rule that offers to save the approval of calls that one person repeats."""
        place, entry = self._find_place(rule)
        gate = decided[-1].gate
        if gate.remember or gate.once or _get_quorum(gate) != 1 or "owner of" in str(entry):
            raise NoSuggestionError
        _require_reversible(decided)
        groups = report.group_by(decided, lambda x: (x.call.requester, x.call.newest_arguments))
        often = {
            key: calls
            for key, calls in groups.items()
            if len(calls) >= MIN_SAME_APPROVALS and all(x.is_good for x in calls)
        }
        if not often:
            least = f"no call was approved {MIN_SAME_APPROVALS} times for one person"
            raise NoSuggestionError(f"{least} and never otherwise")
        approved = [x for calls in often.values() for x in calls]
        entry = self._name_entry("remember", approved[0], entry)
        entry |= {
            "requester": sorted({who for who, _ in often}),
            "remember": [SUGGESTED_GRANT_OFFER],
        }
        applied = {*self._try_rule(place, entry, approved, Ask)}
        unasked = [x for calls in often.values() for x in _list_repeats(calls) if x in applied]
        reasons = [
            f"{len(often)} different calls, each at least {MIN_SAME_APPROVALS} times for one person"
        ]
        effect = f"Would have run unasked, if saved: {self._name_calls(unasked)}."
        return [_build_suggestion(entry, rule, approved, reasons, effect, NOTHING_REFUSED_SENTENCE)]

    def _ask_fewer(self, rule: str, decided: Sequence[JudgedCall]) -> list[SuggestedRule]:
        """Return a rule that asks one person fewer, if no call that went wrong would have run."""
        quorum = _get_quorum(decided[-1].gate)
        if quorum < 2:
            raise NoSuggestionError
        _require_reversible(decided)
        if let_through := [x for x in decided if not x.is_good and _is_approved_by(x, quorum - 1)]:
            raise NoSuggestionError(f"fewer would have let through {self._name_calls(let_through)}")
        approved = [x for x in decided if x.is_good]
        _require_enough(approved)
        place, entry = self._find_place(rule)
        entry = self._name_entry("ask fewer", approved[0], entry) | {"quorum": quorum - 1}
        applied = self._try_rule(place, entry, approved, Ask)
        reasons = [f"{quorum} people each, of whom the last never differed"]
        effect = f"Would have run after {quorum - 1} of {quorum}: {self._name_calls(applied)}."
        return [_build_suggestion(entry, rule, approved, reasons, effect, NOTHING_REFUSED_SENTENCE)]

    def _ask_more(self, rule: str, decided: Sequence[JudgedCall]) -> list[SuggestedRule]:
        """Return a rule with a larger quorum, if many calls were rejected or edited."""
        quorum, voted = _get_quorum(decided[-1].gate), [x for x in decided if x.call.votes]
        rejected = [x for x in voted if x.fate is _FATE.REJECTED]
        edited = [x for x in voted if x.is_edited and x.fate is _FATE.APPROVED]
        wrong_count = len(rejected) + len(edited)
        if (
            not quorum
            or len(voted) < MIN_DECISIONS
            or wrong_count < MIN_CORRECTED_SHARE * len(voted)
        ):
            raise NoSuggestionError
        if len({vote.person for x in voted for vote in x.call.votes}) <= quorum:
            raise NoSuggestionError("many were rejected or edited, but nobody else decides")
        place, entry = self._find_place(rule)
        entry = self._name_entry("ask more", voted[0], entry) | {"quorum": quorum + 1}
        entry["verdict"] = "ask"
        entry.pop("remember", None)
        approved = [x for x in voted if x.fate is _FATE.APPROVED]
        applied = self._try_rule(place, entry, approved, Ask)
        reasons = [f"{len(rejected)} rejected, {len(edited)} edited, of {len(voted)} decided"]
        effect = f"Would have waited for one more person: {self._name_calls(applied)}."
        return [_build_suggestion(entry, rule, voted, reasons, effect)]

    def _find_place(self, rule: str) -> tuple[int, dict[str, Any]]:
        """Return the rule's place in the file and its entry; raises NoSuggestionError."""
        entries = self.written.get("rule", [])
        if rule == DEFAULT_RULE:
            return len(entries), {"verdict": "ask"}
        for index, entry in enumerate(entries):
            if (
                entry.get("name", f"rule {index + 1}") == rule
                and entry["verdict"] in ASKING_VERDICTS
            ):
                return index, dict(entry)
        raise NoSuggestionError("the policy has no such rule that asks")

    def _name_entry(self, kind: str, call: JudgedCall, entry: Mapping[str, Any]) -> dict[str, Any]:
        """Return a copy of a rule's entry for the call's tool and effect alone, with a new name."""
        tool, self._named = call.call.tool, self._named + 1
        own = {"name": f"{kind} {tool[:36]} ({self._named})", "tool": tool}
        own |= {"effect": call.tool.does.value}
        return own | {key: value for key, value in entry.items() if key not in own}

    def _try_rule(
        self, place: int, entry: Mapping[str, Any], calls: Sequence[JudgedCall], kind: type
    ) -> list[JudgedCall]:
        """Return those `calls` that a new rule, inserted at `place`, would decide by a `kind` gate.

        Rules with a sum over time are not evaluated again: they applied to a call if its recorded
        gate names them. Raises NoSuggestionError if the rule is invalid or decides none of them.
        """
        rules = [*self.written.get("rule", [])]
        rules.insert(place, dict(entry))
        try:
            policy = parse(dump_toml({**self.written, "rule": rules}))
        except PolicyError as error:
            raise NoSuggestionError(f"the rule would not be valid: {error.problems[0]}") from None
        limits = {x.name for x in policy.rules if x.when and parse_cached_condition(x.when).spent}
        unlimited_rules = tuple(x for x in policy.rules if x.name not in limits)
        asking = self.sources.policy.policy.asking
        policy = policy.model_copy(update={"rules": unlimited_rules, "asking": asking})
        sources = replace(self.sources, policy=CurrentPolicy(policy))
        build_key, gates, applied = policy.build_facts_key(), dict[str, Gate](), list[JudgedCall]()
        for each in calls:
            if limits & {each.gate.rule, *each.gate.added}:
                continue
            key = build_key(each.facts)
            if key not in gates:
                gates[key] = policy.get_gate(call_gates.look_up_policy_facts(sources, each.facts))
            if gates[key].rule == entry["name"] and isinstance(gates[key], kind):
                applied.append(each)
        if not applied:
            raise NoSuggestionError("another rule decides, or it is not known without Slack")
        return applied

    def _name_calls(self, calls: Sequence[JudgedCall], field: str = "") -> str:
        """Return the number of calls and some of their effects, the largest `field` first."""
        ordered = sorted(calls, key=lambda x: -x.amounts[field]) if field else calls
        few = [(x.tool, x.call.newest_arguments) for x in ordered[: 4 * MAX_NAMED_CALLS]]
        told = [tool.effect_sentence(load_arguments(tool, text)) for tool, text in few]
        named = dict.fromkeys(mask_on_one_line(each, MAX_CALL_TEXT_CHARS) for each in told)
        some = "; ".join(map(self.words.quote_text, [*named][:MAX_NAMED_CALLS]))
        more = "; …" if len(calls) > MAX_NAMED_CALLS else ""
        return f"{len(calls)} {'call' if len(calls) == 1 else 'calls'} ({some}{more})"


def _build_suggestion(
    entry: Mapping[str, Any],
    rule: str,
    calls: Sequence[JudgedCall],
    reasons: Sequence[str],
    *effects: str,
) -> SuggestedRule:
    people = len({vote.person for x in calls for vote in x.call.votes})
    first, last = (f"{of(x.call.created_at for x in calls):%Y-%m-%d}" for of in (min, max))
    by = f"decided by {people} {'person' if people == 1 else 'people'}"
    evidence = f"{len(calls)} calls, {'; '.join(reasons)}; {by} from {first} to {last}."
    return SuggestedRule(entry, rule, (evidence, *effects))


def _require_reversible(calls: Sequence[JudgedCall]) -> None:
    """Raise NoSuggestionError for calls that cannot be undone, as the record or the tool says."""
    effects = {x.call.does for x in calls} | {x.tool.does.value for x in calls}
    if effects - {Effect.READ, Effect.WRITE}:
        raise NoSuggestionError("what cannot be undone is always asked")


def _require_enough(good: Sequence[JudgedCall], where: str = "") -> None:
    """Raise NoSuggestionError for fewer than 20 calls, or all by one person within 30 days."""
    if len(good) < MIN_DECISIONS:
        count = f"{len(good)} {'call was' if len(good) == 1 else 'calls were'}"
        raise NoSuggestionError(f"{count} approved unchanged{where}, and it takes {MIN_DECISIONS}")
    times = [x.call.created_at for x in good]
    several = len({vote.person for x in good for vote in x.call.votes}) > 1
    if not several and max(times) - min(times) < MIN_SINGLE_APPROVER_PERIOD:
        raise NoSuggestionError(
            f"one person approved all, within {MIN_SINGLE_APPROVER_PERIOD.days} days"
        )


def _list_choice_fields(tool: Tool[Any], *, units: bool = False) -> list[str]:
    """Return the tool's fields that take one of a few values; with `units`, only currencies."""
    properties: Mapping[str, Any] = tool.schema().get("properties") or {}
    return [
        name
        for name, schema in properties.items()
        if name.endswith("currency")
        or (not units and ("enum" in schema or schema.get("type") == "boolean"))
        if not rule_report.is_secret_field(tool, name)
    ]


def _get_quorum(gate: Ask) -> int:
    """Return how many have to approve; 0 if there are several stages."""
    return gate.stages[0].quorum if len(gate.stages) == 1 else 0


def _is_approved_by(each: JudgedCall, quorum: int) -> bool:
    """Return whether the votes on a call would have approved it with this quorum."""
    stage = each.gate.stages[0].model_copy(update={"quorum": quorum})
    newest = max(each.call.revisions_by_number)
    ballots = [
        Ballot(vote.delegator or vote.person, vote.verb, 0, vote.at)
        for vote in each.call.votes
        if vote.revision == newest
    ]
    gate = each.gate.model_copy(update={"stages": (stage,)})
    return tally_ballots(gate, ballots).outcome is VoteOutcome.APPROVED


def _list_repeats(same: Sequence[JudgedCall]) -> Iterator[JudgedCall]:
    """Yield the calls that an approval of an earlier one would have covered, had it been saved."""
    saved, uses = same[0].call.created_at, 0
    for each in same[1:]:
        if each.call.created_at - saved < GRANT_DURATION and uses < MAX_GRANT_USES:
            uses += 1
            yield each
        else:
            saved, uses = each.call.created_at, 0


# The suggestions as a policy file of their own.


def dump_toml(table: Mapping[str, Any]) -> str:
    """Return the content of a policy file as TOML, a line for each key."""
    return "".join(f"{_dump_key(key)} = {_dump_value(value)}\n" for key, value in table.items())


def _dump_key(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else _dump_value(key)


def _dump_value(value: Any) -> str:
    match value:
        case str():
            return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
        case bool():
            return json.dumps(value)
        case Mapping():
            pairs = (f"{_dump_key(key)} = {_dump_value(each)}" for key, each in value.items())
            return f"{{ {', '.join(pairs)} }}"
        case list():
            return f"[{', '.join(map(_dump_value, value))}]"
        case _:  # a number or a date
            return str(value)


def render_suggestions(written: Mapping[str, Any], suggester: PolicySuggester) -> Iterator[str]:
    """Yield the suggested rules as lines of a complete policy file, and why others are missing.

    `written`: the policy that they are for; whatever the new rules need of it is copied.
    """
    defaults = dict(written.get("defaults", {}))
    if not {"approvers", "stages"} & defaults.keys():
        named = (x["approvers"] for x in written.get("rule", []) if "approvers" in x)
        defaults["approvers"] = [x for x in next(named, []) if "owner of" not in x] or ["channel"]
    used = dump_toml({"defaults": defaults, "rule": [x.entry for x in suggester.suggested]})
    yield from dump_toml(_select_used_tables(written, used)).splitlines()
    yield from ("[defaults]", *dump_toml(defaults).splitlines())
    for each in suggester.suggested:
        is_last = each.above == DEFAULT_RULE
        place = "at the end" if is_last else f"above the rule {each.above!r}"
        lines = (*each.evidence, f"It belongs {place}.")
        yield from ("", *(f"# {line}" for line in lines), "[[rule]]")
        yield from dump_toml(each.entry).splitlines()
    if suggester.reasons:
        yield from (
            "",
            "# Nothing else is suggested:",
            *(f"# {each}" for each in suggester.reasons),
        )


def _select_used_tables(written: Mapping[str, Any], used: str) -> dict[str, Any]:
    """Return the tables of hours, freezes and owners that the rules in `used` ask for."""
    hours: Mapping[str, Any] = written.get("hours", {})
    every, zone = "in_freeze" in used, {"zone": hours["zone"]} if hours else {}
    freezes, owners = (written.get(table, {}).items() for table in ("freezes", "owners"))
    tables = {
        "hours": hours if re.search(r"business_hours = true|in_business_hours", used) else {},
        "freezes": {x: zone | each for x, each in freezes if every or f"freezes.{x}" in used},
        "owners": {x: each for x, each in owners if f'owner of args.{x}"' in used},
    }
    return {table: each for table, each in tables.items() if each}
