"""The policy: parsed from its text, and evaluated for each call; and the policy in force. PURE: no
files, no Slack, no clock; whatever it does not understand is refused.
"""

from __future__ import annotations

import hashlib
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from bot.policy import policy_file
from bot.policy.business_hours import PolicyCalendar
from bot.policy.condition_values import Facts, NeededLookups
from bot.policy.gates import Addition, Allow, Approvers, Ask, Deny, tighten_gate
from bot.policy.rules import (
    Rule,
    RuleBuilder,
    RuleTrial,
    Toolbox,
    collect_needed_lookups,
    list_tool_mismatches,
)
from bot.toml_file import FileProblems, KeyPath, nearest_name_hint, parse_strict_json

# Names that a policy's author gives to sets of approvers and to conditions, replaced before the
# file is validated. PURE; mistakes are reported as problems of the file.

SETS, CONDITIONS = "approvers", "conditions"  # the tables of names
ASKS = "requester"  # the key that lists people, or names one
PEOPLE = ("approvers", "who", "loosen", "readers", ASKS)  # the keys that list people
_NAMES = {
    SETS: re.compile(r"[a-z][a-z0-9_-]{0,59}"),
    CONDITIONS: re.compile(r"[a-z][a-z0-9_]{0,59}"),
}
_TAKEN = frozenset({"channel", "requester"})  # what these mean among approvers is settled
# texts and comments stand as they are; a name stands outside them, and is no field of anything
_TEXT = r"""\"{3}.*?\"{3}|'{3}.*?'{3}|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|//[^\n]*"""
_USE = re.compile(rf"(?s:{_TEXT})|(?<![\w.])conditions\s*\.\s*(?P<name>\w+)")
_MOST = 4_096  # characters that a condition may grow to; what one may have is far less


def resolve_policy_names(written: dict[str, Any], problems: FileProblems) -> dict[str, Any]:
    """Return the parsed file with the names from [approvers] and [conditions] replaced."""
    if not isinstance(written, dict) or not {SETS, CONDITIONS} & written.keys():
        return written
    return _PolicyNames(written, problems).expand_file()


class _PolicyNames:
    """The names that one file gives to sets of approvers and to conditions."""

    def __init__(self, written: dict[str, Any], problems: FileProblems) -> None:
        self._written = written
        self._problems = problems
        self._sets = self._load_name_table(SETS, list)
        self._conditions = self._load_name_table(CONDITIONS, str)
        self._used: set[KeyPath] = set()
        self._found_sets: dict[str, list[str]] = {}
        self._found_conditions: dict[str, str] = {}

    def expand_file(self) -> dict[str, Any]:
        for name in self._sets:
            self._resolve_set(name, ())
        for name in self._conditions:
            self._resolve_condition(name, ())
        found = {key: each for key, each in self._written.items() if key not in (SETS, CONDITIONS)}
        if isinstance(found.get("defaults"), dict):
            found["defaults"] = self._resolve_options(found["defaults"], ("defaults",))
        if isinstance(found.get("rule"), list):
            found["rule"] = [
                self._resolve_options(each, ("rule", index))
                for index, each in enumerate(found["rule"])
            ]
        if isinstance(found.get("template"), list):
            found["template"] = [self._resolve_entry(each) for each in found["template"]]
        if "modes" in found:
            found["modes"] = self._resolve_entry(found["modes"])
        found |= self._resolve_entry(found)
        there = {(SETS, each) for each in self._sets} | {
            (CONDITIONS, each) for each in self._conditions
        }
        for loc in sorted(there - self._used):
            self._problems.add(loc, "is used nowhere; use it, or remove it")
        return found

    def _load_name_table(self, table: str, kind: type) -> Mapping[str, Any]:
        """Return the usable entries of one table of names; the others are reported."""
        written = self._written.get(table, {})
        if not isinstance(written, dict):
            self._problems.add((table,), f"write a table, headed [{table}]")
            return {}
        what = 'a list, as in ["@finance"]' if kind is list else "a condition in quotes"
        found = {}
        for name, value in written.items():
            if not _NAMES[table].fullmatch(name) or (table == SETS and name in _TAKEN):
                self._problems.add((table, name), "cannot be a name; write another, in lower case")
            elif not isinstance(value, kind):
                self._problems.add((table, name), f"write {what}")
            else:
                found[name] = value
        return found

    def _resolve_set(self, name: str, path: tuple[str, ...]) -> list[str]:
        """Return the approvers a name stands for; ["channel"] if invalid, which is reported."""
        if name in path:
            self._problems.add((SETS, name), _circular_name_sentence([*path, name]))
            return ["channel"]
        if name not in self._found_sets:
            found = self._resolve_people(self._sets[name], (*path, name))
            try:
                if not all(isinstance(each, str) for each in found):
                    raise ValueError("write each in quotes")
                policy_file.validate_approvers(found)
            except ValueError as error:
                self._problems.add((SETS, name), str(error))
                found = ["channel"]
            self._found_sets[name] = found
        return self._found_sets[name]

    def _resolve_people(self, written: list[Any], path: tuple[str, ...] = ()) -> list[Any]:
        """Return a list of approvers with the names in it replaced; unknown entries are kept."""
        found: list[Any] = []
        for each in written:
            known = isinstance(each, str) and each in self._sets
            found += self._resolve_set(each, path) if known else [each]
            if known:
                self._used.add((SETS, each))
        return list(dict.fromkeys(found)) if all(isinstance(each, str) for each in found) else found

    def _resolve_condition(self, name: str, path: tuple[str, ...]) -> str:
        """Return the condition a name stands for; "true" if invalid, which is reported."""
        # only now: the library behind it takes a moment to load
        from bot.policy.condition import Condition

        if name in path:
            self._problems.add((CONDITIONS, name), _circular_name_sentence([*path, name]))
            return "true"
        if name not in self._found_conditions:
            found = self._insert_conditions(
                self._conditions[name], (CONDITIONS, name), (*path, name)
            )
            try:
                Condition(found)
            except ValueError as error:
                self._problems.add((CONDITIONS, name), str(error))
                found = "true"
            self._found_conditions[name] = found
        return self._found_conditions[name]

    def _insert_conditions(self, written: str, loc: KeyPath, path: tuple[str, ...] = ()) -> str:
        """Return a condition with the conditions it names inserted; "true" if it gets too long."""

        def one(use: re.Match[str]) -> str:
            name = use["name"]
            if name is None:
                return use[0]
            if name not in self._conditions:
                near = nearest_name_hint([name], self._conditions)
                self._problems.add(loc, f"names conditions.{name}, which is not there{near}")
                return "true"
            self._used.add((CONDITIONS, name))
            found = self._resolve_condition(name, path)
            return f"({found}\n)" if "//" in found else f"({found})"

        found = _USE.sub(one, written)
        if len(found) <= _MOST:
            return found
        self._problems.add(loc, "is too long with the conditions it names; split it")
        return "true"

    def _resolve_options(self, written: Any, loc: KeyPath) -> Any:
        """Return [defaults] or a rule with the names in its condition and lists replaced."""
        if not isinstance(written, dict):
            return written
        found = dict(written)
        if isinstance(found.get("when"), str):
            found["when"] = self._insert_conditions(found["when"], (*loc, "when"))
        for key in ("stages", "escalation"):
            if isinstance(found.get(key), list):
                found[key] = [self._resolve_entry(each) for each in found[key]]
        return self._resolve_entry(found)

    def _resolve_entry(self, written: Any) -> Any:
        """Return a table with the names in its lists of people replaced; other values unchanged."""
        if not isinstance(written, dict):
            return written
        lists = {key: written[key] for key in PEOPLE if isinstance(written.get(key), list)}
        if isinstance(asks := written.get(ASKS), str) and asks in self._sets:
            lists[ASKS] = [asks]
        return {**written, **{key: self._resolve_people(each) for key, each in lists.items()}}


def _circular_name_sentence(names: list[str]) -> str:
    return f"stands for itself ({' → '.join(names)}); take it out of one of them"


# of a policy, beside what its rules mean
_NO_MEANING = ("source", "asking", "tools", "lines", "templates", "shared_channels")


class PolicyError(ValueError):
    """Raised when a policy cannot be used.

    `problems` has one line each: file, line, key, what is wrong, what to do.
    """

    def __init__(self, source: str, problems: list[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n  ".join([f"the policy {source} cannot be used:", *problems]))


@dataclass(frozen=True, slots=True)
class Judgement:
    """The gate of a call, with the result of every rule that was tried."""

    gate: Allow | Deny | Ask
    tried: tuple[RuleTrial, ...]


class Policy(BaseModel):
    """A whole policy, read and checked; `parse` makes one."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    source: str
    rules: tuple[Rule, ...]
    default: Ask | None  # None only where the rules leave no call that changes something to it
    loosen: Approvers | None = None  # who may loosen a channel's mode; None: whom the default names
    readers: Approvers = Approvers()  # who may look at any request's record
    # tools that read, but more than is allowed unasked (Tool.asks)
    asking: frozenset[str] = frozenset()
    templates: tuple[policy_file.RequestTemplate, ...] = ()
    # where requests are worked on though people of another company read along; id or #name
    shared_channels: tuple[str, ...] = ()
    calendar: PolicyCalendar | None = None  # None where no condition asks for it
    tools: Toolbox | None = None  # those there are; None where that is not known
    lines: tuple[Mapping[str, int], ...] = ()  # of each rule's keys in the file, for complaints

    def bind_to_tools(self, tools: Toolbox, asking: frozenset[str]) -> Policy:
        """Return a copy of this policy for a bot with these tools.

        Tools in `asking` read more than is allowed unasked. Raises PolicyError where a rule denies,
        or sums up, what does not exist.
        """
        problems = [
            f"{self.source}:{lines[key]}: rule {rule.name!r} {key}: {wrong}; {remedy}"
            for rule, lines in zip(self.rules, self.lines, strict=True)
            for key, wrong, remedy in list_tool_mismatches(rule, tools)
        ]
        if problems:
            raise PolicyError(self.source, problems)
        return self.model_copy(update={"tools": tools, "asking": asking})

    def list_rules_containing(self, text: str) -> list[str]:
        """Return which rules, and the defaults, contain this text (such as a Slack id) anywhere."""
        found = [f"rule {rule.name!r}" for rule in self.rules if text in rule.model_dump_json()]
        default = self.default is not None and text in self.default.model_dump_json()
        return found + ["the defaults"] * default

    def get_gate(self, facts: Facts) -> Allow | Deny | Ask:
        """Return the gate of a call; see `judged`."""
        return self.judge_call(facts).gate

    def judge_call(self, facts: Facts) -> Judgement:
        """Return the gate of a call, and the rules that led to it.

        The first matching rule applies, with everything that matching rules add to it; but a
        matching deny wins wherever it is in the file. Without a match, reads are allowed and all
        else asks. A rule that may or may not match counts as a match if it denies, asks or adds; if
        it allows, nothing is allowed from there on. An unknown effect class counts as destructive
        and is never allowed. The tools in `asking` are allowed only by a rule that names them, not
        by one for all tools.
        """
        known, facts = facts.effect in policy_file.EFFECTS, self._add_time_facts(facts)
        tried: list[RuleTrial] = []
        found: Allow | Ask | None = None
        additions: list[tuple[Addition, bool]] = []  # with whether it is known to apply
        doubtful = not known
        for rule in self.rules:
            fits, why = rule.match_call(facts, facts.effect if known else "destructive")
            tried.append(RuleTrial(rule.name, fits, why, isinstance(rule.gate, Addition)))
            if fits is False:
                continue
            if isinstance(rule.gate, Deny):
                return Judgement(_build_denial(rule.gate, bool(fits), why), tuple(tried))
            if isinstance(rule.gate, Addition):
                additions.append((rule.gate, bool(fits)))
                continue
            if found is None and isinstance(rule.gate, Allow):
                doubtful = doubtful or fits is None
                if not doubtful and (
                    facts.tool not in self.asking or rule.has_specific_pattern_for(facts.tool)
                ):
                    found = rule.gate
            elif found is None:
                found = rule.gate
        if (
            found is None
            and facts.effect == "read"
            and facts.tool not in self.asking
            and not doubtful
        ):
            found = Allow(rule="default")
        gate = found or self.default
        gate = tighten_gate(gate, additions) if gate else None
        return Judgement(self._deny_or_restrict_gate(gate, facts.effect), tuple(tried))

    def build_fallback_gate(self, facts: Facts) -> Ask | None:
        """Return the defaults with matching additions, to ask about an allowed call; or None."""
        if self.default is None:
            return None
        effect = facts.effect if facts.effect in policy_file.EFFECTS else "destructive"
        facts = self._add_time_facts(facts)
        found = [(rule.gate, rule.match_call(facts, effect)[0]) for rule in self.rules]
        adding = [
            (gate, bool(fits))
            for gate, fits in found
            if isinstance(gate, Addition) and fits is not False
        ]
        gate = tighten_gate(self.default, adding)
        assert isinstance(gate, Ask)
        return gate

    def _add_time_facts(self, facts: Facts) -> Facts:
        """Return the facts with what the calendar says of their moment, if both are there."""
        known = self.calendar.build_facts(facts.now) if self.calendar and facts.now else {}
        return replace(facts, **known)

    def _deny_or_restrict_gate(self, gate: Allow | Ask | None, effect: str) -> Allow | Deny | Ask:
        """Return a denial for None, else the gate.

        Offers to save an approval are dropped for destructive calls and gates that take several
        people.
        """
        if gate is None:
            return Deny(
                rule="default", reason=f"no rule names who may decide about the effect {effect!r}"
            )
        if isinstance(gate, Ask) and effect not in ("read", "write"):
            return gate.copy_without_offers()
        # nobody remembers alone what takes several
        return (
            gate.copy_without_offers()
            if isinstance(gate, Ask) and gate.required_approvers > 1
            else gate
        )

    def find_rule_digest(self, gate: Ask) -> str:
        """Return the SHA-256 (hex) of the rule that asks exactly this, with rules that add to it.

        "" if no rule does, as for two gates that both have to be met.
        """
        adding = [each for each in self.rules if each.name in (gate.rule, *gate.added)]
        additions = [(each.gate, True) for each in adding if isinstance(each.gate, Addition)]
        for rule in (self.default, *self.rules):
            asks = rule.gate if isinstance(rule, Rule) else rule
            asks = asks.ask if isinstance(asks, Addition) else asks
            if rule is None or not isinstance(asks, Ask) or asks.rule != gate.rule:
                continue
            if tighten_gate(asks, additions) == gate:
                others = [_compute_digest(each) for each in adding if each.name in gate.added]
                return hashlib.sha256(
                    "".join([_compute_digest(rule), *others]).encode()
                ).hexdigest()
        return ""

    def get_needed_lookups(self, tool: str, effect: str, risk: str) -> NeededLookups:
        """Return the look-ups needed to judge such calls: only those that their rules name."""
        about = [
            rule
            for rule in self.rules
            if rule.can_match(tool, effect if effect in policy_file.EFFECTS else None, risk)
        ]
        return collect_needed_lookups(about)

    def asks(self) -> list[Ask]:
        """Return every gate that asks people: of the rules in order, then the default.

        Last come the results of rules with verdict "add", applied to their own gate, else to the
        first.
        """
        asks = [rule.gate for rule in self.rules if isinstance(rule.gate, Ask)]
        asks += [self.default] if self.default else []
        adding = [rule.gate for rule in self.rules if isinstance(rule.gate, Addition)]
        for each in adding:  # as they are where they add to one
            base = each.ask or next(iter(asks), None)
            found = tighten_gate(base, [(each, True)]) if base else None
            asks += [found] if isinstance(found, Ask) else []
        return asks

    @property
    def digest(self) -> str:
        """Return the SHA-256 (hex) of what the rules mean; comments and layout do not change it."""
        left_out: dict[str, Any] = dict.fromkeys(_NO_MEANING, True)
        if self.templates:
            left_out["templates"] = {"__all__": {"place"}}
        if self.shared_channels:
            del left_out["shared_channels"]
        if self.calendar is None:
            left_out["calendar"] = True
        return _compute_digest(self, exclude=left_out)


def _build_denial(gate: Deny, sure: bool, why: str) -> Deny:
    """Return the denial; if it is not sure to apply, with that doubt as its reason."""
    doubt = f"it could not be told whether {gate.rule!r} applies: {why}"
    return gate if sure else gate.model_copy(update={"reason": doubt})


def _compute_digest(what: BaseModel, exclude: dict[str, Any] | None = None) -> str:
    return hashlib.sha256(what.model_dump_json(exclude=exclude).encode()).hexdigest()


def parse(text: str, source: str = "policy") -> Policy:
    """Return the policy in `text`, which messages call `source`.

    The text is TOML, or JSON with the same keys if `source` ends in .json. Raises PolicyError with
    everything that is wrong.
    """
    is_json = source.endswith(".json")
    problems = FileProblems(source, "" if is_json else text)  # of JSON no lines are told
    policy = None
    try:
        written = parse_strict_json(text) if is_json else tomllib.loads(text)
        plain = policy_file.PolicyFile.model_validate(resolve_policy_names(written, problems))
        policy = _build_policy(plain, source, problems)
    except tomllib.TOMLDecodeError as error:
        problems.add_syntax_error(error, f"this is not TOML: {error}; correct this line")
    except RecursionError:
        problems.add_at_line(1, "this is nested too deeply; write it flat")
    except ValidationError as invalid:
        for each in invalid.errors():
            problems.add(
                each["loc"], policy_file.describe_validation_error(each, policy_file.PolicyFile)
            )
    except ValueError as error:
        if not is_json:
            raise
        problems.add_at_line(1, f"this is not JSON: {error}; correct it")
    if policy is None or problems:
        raise PolicyError(source, problems.list_sentences())
    return policy


def _build_policy(written: policy_file.PolicyFile, source: str, problems: FileProblems) -> Policy:
    assembly = RuleBuilder(written, problems)
    rules = assembly.build_rules()
    lines = tuple(
        {key: problems.get_line(("rule", index, key)) for key in ("tool", "when")}
        for index in range(len(rules))
    )
    return Policy(
        source=source,
        rules=rules,
        default=assembly.default,
        loosen=assembly.loosen,
        templates=policy_file.build_templates(written.template, problems),
        shared_channels=tuple(written.shared_channels),
        calendar=assembly.build_calendar(),
        lines=lines,
        readers=assembly.build_readers(),
    )


@dataclass(slots=True)
class CurrentPolicy:
    """Holder of the policy in force; read `policy` at each use, and keep no copy of it."""

    policy: Policy
    _digested: tuple[Policy, str] | None = field(default=None, repr=False, compare=False)
    _needed: dict[tuple[str, str, str], tuple[Policy, NeededLookups]] = field(
        default_factory=dict, repr=False, compare=False
    )

    @property
    def digest(self) -> str:
        """Return the digest of the policy in force, computed once per policy."""
        policy, found = self.policy, self._digested
        if found is None or found[0] is not policy:
            found = self._digested = (policy, policy.digest)
        return found[1]

    def get_needed_lookups(self, tool: str, effect: str, risk: str) -> NeededLookups:
        """Return the look-ups the policy in force needs for such calls, computed once per kind."""
        policy, kind = self.policy, (tool, effect, risk)
        found = self._needed.get(kind)
        if found is None or found[0] is not policy:
            found = self._needed[kind] = (policy, policy.get_needed_lookups(*kind))
        return found[1]
