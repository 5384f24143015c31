"""The policy: parsed from its text, and evaluated for each call; and the policy in force. PURE.

No files, no Slack, no clock; whatever it does not understand is refused.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from types import MappingProxyType
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from bot.policy import approver_lists, gates, policy_file
from bot.policy.business_hours import PolicyCalendar
from bot.policy.condition_values import Facts, NeededLookups
from bot.policy.gates import Allow, Approvers, Ask, Deny, GateAddOn, tighten_gate
from bot.policy.rules import (
    EARLIER_RULE_UNKNOWN_REASON,
    TOOL_NOT_NAMED_REASON,
    Rule,
    RuleBuilder,
    RuleMatchResult,
    Toolbox,
    collect_needed_lookups,
    list_tool_mismatches,
    parse_cached_condition,
)
from bot.toml_file import FileProblems, TomlSyntaxError, parse_strict_json, parse_toml
from countersign.durations import DAY

# fields added later: a policy without them must keep its digest
_OMIT_IF_EMPTY: Any = {"exclude_if": lambda value: not value}


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
    tried: tuple[RuleMatchResult, ...]
    notes: tuple[str, ...] = ()  # owners of arguments who were put in as approvers


class Policy(BaseModel):
    """A whole policy, read and checked; `parse` makes one."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    source: str = Field(exclude=True)  # excluded fields are not part of the digest
    rules: tuple[Rule, ...]
    default: Ask | None  # None only if the rules decide every call that changes something
    loosen: Approvers | None = None  # who may loosen a channel's mode; None: default's approvers
    readers: Approvers = Approvers()  # people who may look at any request's record
    # tools that only read, yet need approval unless a rule allows them (Tool.needs_approval)
    asking: frozenset[str] = Field(frozenset(), exclude=True)
    passkeys: gates.PasskeyTerms = Field(
        gates.PasskeyTerms(), exclude_if=lambda terms: terms == gates.PasskeyTerms()
    )
    templates: tuple[policy_file.RequestTemplate, ...] = Field((), **_OMIT_IF_EMPTY)
    # channels (id or #name) where requests are allowed although people of other companies read them
    shared_channels: tuple[str, ...] = Field((), **_OMIT_IF_EMPTY)
    owners: approver_lists.OwnerTables = Field({}, **_OMIT_IF_EMPTY)
    # field -> function that finds further owners; MANAGER_OF_REQUESTER -> a Slack profile field
    owner_functions: Mapping[str, str] = Field({}, **_OMIT_IF_EMPTY)
    # None if no condition needs it
    calendar: PolicyCalendar | None = Field(None, **_OMIT_IF_EMPTY)
    tools: Toolbox | None = Field(None, exclude=True)  # the tools that exist; None: unknown
    # line of each rule's keys in the file, for error messages
    lines: tuple[Mapping[str, int], ...] = Field((), exclude=True)

    def bind_to_tools(self, tools: Toolbox, asking: frozenset[str]) -> Policy:
        """Return a copy of this policy for a bot with these tools.

        `asking`: tools that only a rule with their name can allow, see `judge_call`. Raises
        PolicyError if a rule denies or sums up something that does not exist.
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
        """Return names of the rules (and defaults) in which a text, such as a Slack id, occurs."""
        found = [f"rule {rule.name!r}" for rule in self.rules if text in rule.model_dump_json()]
        default = self.default is not None and text in self.default.model_dump_json()
        return found + ["the defaults"] * default

    def get_gate(self, facts: Facts) -> Allow | Deny | Ask:
        """Return the gate of a call; see `judge_call`."""
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
        if facts.tool == gates.ADD_PASSKEY:
            return Judgement(self._build_passkey_gate(facts), ())
        is_known_effect, facts = facts.effect in policy_file.EFFECTS, self._add_time_facts(facts)
        owners = approver_lists.OwnerResolver(
            self.owners, self.owner_functions, facts.args, facts.owners
        )
        tried: list[RuleMatchResult] = []
        base_gate: Allow | Ask | None = None
        additions: list[tuple[GateAddOn, bool]] = []  # with whether each surely applies
        doubtful = not is_known_effect
        for rule in self.rules:
            fits, why = rule.match_call(facts, facts.effect if is_known_effect else "destructive")
            tried.append(RuleMatchResult(rule.name, fits, why, isinstance(rule.gate, GateAddOn)))
            if fits is False:
                continue
            if isinstance(rule.gate, Deny):
                return Judgement(_build_denial(rule.gate, bool(fits), why), tuple(tried))
            if isinstance(rule.gate, GateAddOn):
                additions.append((owners.replace_owners_in_gate(rule.gate), bool(fits)))
                continue
            if base_gate is None and isinstance(rule.gate, Allow):
                is_named = facts.tool not in self.asking or rule.has_specific_pattern_for(
                    facts.tool
                )
                if fits is None or doubtful or not is_named:
                    idle = TOOL_NOT_NAMED_REASON if not is_named else EARLIER_RULE_UNKNOWN_REASON
                    tried[-1] = replace(tried[-1], idle=idle)
                else:
                    base_gate = rule.gate
                doubtful = doubtful or fits is None
            elif base_gate is None:
                base_gate = rule.gate
        if not (base_gate or doubtful) and facts.effect == "read" and facts.tool not in self.asking:
            base_gate = Allow(rule=gates.DEFAULT_RULE)
        gate = owners.replace_owners_in_gate(base_gate) if base_gate else self.default
        gate = tighten_gate(gate, additions) if gate else None
        judged = self._deny_or_restrict_gate(gate, facts.effect)
        return Judgement(judged, tuple(tried), tuple(dict.fromkeys(owners.notes)))

    def build_default_ask_gate(self, facts: Facts) -> Ask | None:
        """Return the gate for asking about a call that policy allows; None without [defaults].

        It is the gate of [defaults], with what matching rules add.
        """
        if self.default is None:
            return None
        effect = facts.effect if facts.effect in policy_file.EFFECTS else "destructive"
        facts = self._add_time_facts(facts)
        owners = approver_lists.OwnerResolver(
            self.owners, self.owner_functions, facts.args, facts.owners
        )
        matched_gates = [(rule.gate, rule.match_call(facts, effect)[0]) for rule in self.rules]
        additions = [
            (owners.replace_owners_in_gate(gate), bool(fits))
            for gate, fits in matched_gates
            if isinstance(gate, GateAddOn) and fits is not False
        ]
        gate = tighten_gate(self.default, additions)
        assert isinstance(gate, Ask)
        return gate

    def _add_time_facts(self, facts: Facts) -> Facts:
        """Return the facts with those of the calendar; unchanged without a calendar or time."""
        if self.calendar is None or facts.now is None:
            return facts
        return replace(facts, **self.calendar.build_time_facts(facts.now))

    def _deny_or_restrict_gate(self, gate: Allow | Ask | None, effect: str) -> Allow | Deny | Ask:
        """Return the gate, or a denial if `gate` is None, as then nobody is named to decide.

        Offers to save an approval are dropped for destructive calls and gates that take several
        people or a signature.
        """
        if gate is None:
            return Deny(
                rule=gates.DEFAULT_RULE,
                reason=f"no rule names who may decide about the effect {effect!r}",
            )
        if isinstance(gate, Ask) and effect not in ("read", "write"):
            return gate.copy_without_offers()
        # one person's saved approval cannot replace several; a signature is for one call only
        if isinstance(gate, Ask) and (gate.required_approvers > 1 or gate.wants_signature):
            return gate.copy_without_offers()
        return gate

    def find_rule_digest(self, gate: Ask) -> str:
        """Return the SHA-256 (hex) of the rule that gives this gate, and of rules that add to it.

        "" if no rule gives it, as for two gates that both have to be met.
        """
        adding = [each for each in self.rules if each.name in (gate.rule, *gate.added)]
        additions = [(each.gate, True) for each in adding if isinstance(each.gate, GateAddOn)]
        for rule in (self.default, *self.rules):
            asks = rule.gate if isinstance(rule, Rule) else rule
            asks = asks.ask if isinstance(asks, GateAddOn) else asks
            if rule is None or not isinstance(asks, Ask) or asks.rule != gate.rule:
                continue
            if tighten_gate(asks, additions) == gate:
                others = [_compute_digest(each) for each in adding if each.name in gate.added]
                return hashlib.sha256(
                    "".join([_compute_digest(rule), *others]).encode()
                ).hexdigest()
        return ""

    def get_needed_lookups(self, tool: str, effect: str, risk: str) -> NeededLookups:
        """Return the look-ups that rules need to judge calls of this tool, effect and risk."""
        about = [
            rule
            for rule in self.rules
            if rule.can_match(tool, effect if effect in policy_file.EFFECTS else None, risk)
        ]
        fields = {
            field for rule in about for field in approver_lists.list_fields_with_owners(rule.gate)
        }
        owners = frozenset(fields & self.owner_functions.keys())
        return replace(collect_needed_lookups(about), owners=owners)

    def build_facts_key(self) -> Callable[[Facts], str]:
        """Return a function that has equal results for facts that the rules cannot tell apart.

        What is looked up (groups, channels, people and sums) is assumed to be the same for all.
        """
        names, fields, whole = {"tool", "effect", "risk"}, set[str](), False
        for rule in self.rules:
            names |= {name for name in ("channel", "requester") if getattr(rule, f"{name}s")}
            if rule.when:
                read = parse_cached_condition(rule.when)
                names |= (read.names - {"args"}) | ({"freezes"} if read.freezes else set())
                fields, whole = fields | read.fields, whole or read.reads_all_fields

        def build_key(facts: Facts) -> str:
            facts, args = self._add_time_facts(facts), facts.args
            some = args if whole else {name: args[name] for name in fields if name in args}
            return repr(([getattr(facts, name) for name in names], some))

        return build_key

    def asks(self) -> list[Ask]:
        """Return every gate that asks people: of the rules in order, then the default.

        Last come the results of rules with the verdict "add", each applied to the gate that it has
        itself, else to the first one here. An argument's owner is replaced by the owners of all its
        values.
        """
        owners = approver_lists.OwnerResolver(self.owners, self.owner_functions, None)
        gates = [owners.replace_owners_in_gate(rule.gate) for rule in self.rules]
        asks = [gate for gate in gates if isinstance(gate, Ask)]
        asks += [self.default] if self.default else []
        adding = [gate for gate in gates if isinstance(gate, GateAddOn)]
        for each in adding:  # what each makes of a gate that asks
            base = each.ask or next(iter(asks), None)
            tightened = tighten_gate(base, [(each, True)]) if base else None
            asks += [tightened] if isinstance(tightened, Ask) else []
        return asks

    def list_signers(self, *, alone: bool = False) -> Approvers:
        """Return everybody who may decide a call that has to be signed; nobody if there is none.

        Channel, requester and owners found by a function are not replaced by people. `alone`: also
        those who may break glass.
        """
        adds = any(isinstance(each.gate, GateAddOn) and each.gate.signature for each in self.rules)
        signers = Approvers()
        for gate in (each for each in self.asks() if adds or each.wants_signature):
            signers |= gate.get_approvers_of_stages(
                range(len(gate.stages)), timedelta(seconds=gate.deadline)
            )
            signers |= gate.break_glass if alone and gate.break_glass else Approvers()
        return signers

    def _build_passkey_gate(self, facts: Facts) -> Ask | Deny:
        """Return the gate of a new passkey: those who may decide signed calls, whatever rules say.

        They have to sign, unless none of them can yet.
        """
        who = self.list_signers().model_copy(
            update={"channel": False, "requester": False, "owners": (), "silent": ()}
        )
        if not who.names:
            why = "no rule names who may approve a new passkey"
            return Deny(rule=gates.ADD_PASSKEY, reason=why)
        is_signed = facts.has_signer is not False
        stage = gates.Stage(approvers=who, signature="passkey" if is_signed else "")
        return Ask(
            rule=gates.ADD_PASSKEY,
            stages=(stage,),
            post_to="approvers",
            deadline=7 * DAY,
            editors="nobody",
            reminders=(DAY,),
        )

    @property
    def digest(self) -> str:
        """Return the SHA-256 (hex) of what the rules mean; comments and layout do not change it."""
        return _compute_digest(self)


def _build_denial(gate: Deny, sure: bool, why: str) -> Deny:
    """Return the denial; unless its rule surely applies (`sure`), with that doubt as its reason."""
    doubt = f"it is not known whether {gate.rule!r} applies: {why}"
    return gate if sure else gate.model_copy(update={"reason": doubt})


def _compute_digest(what: BaseModel) -> str:
    return hashlib.sha256(what.model_dump_json().encode()).hexdigest()


def load_policy_content(text: str, source: str, problems: FileProblems) -> dict[str, Any]:
    """Return the content of a policy file (JSON or TOML), with the names it defines replaced.

    Raises ValueError if the text is neither.
    """
    written = parse_strict_json(text) if source.endswith(".json") else parse_toml(text)
    return approver_lists.replace_names_in_policy(written, problems)


def parse(
    text: str, source: str = "policy", files: Mapping[str, str] = MappingProxyType({})
) -> Policy:
    """Parse and check the policy in `text`; error messages call it `source`.

    The text is TOML, or JSON with the same keys if `source` ends in .json. `files` has the texts of
    the files that it names (see `list_owner_file_names`). Raises PolicyError with everything that
    is wrong.
    """
    is_json = source.endswith(".json")
    problems = FileProblems(source, "" if is_json else text)  # errors in JSON have no line
    policy = None
    try:
        content = load_policy_content(text, source, problems)
        plain = policy_file.PolicyFile.model_validate(content)
        policy = _build_policy(plain, source, files, problems)
    except TomlSyntaxError as error:
        problems.add_syntax_error(error)
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


def list_owner_file_names(text: str, source: str) -> list[str]:
    """Return the names of the owners' files that a policy names; [] if it cannot be parsed."""
    try:
        written = parse_strict_json(text) if source.endswith(".json") else parse_toml(text)
        names = [each.get("file") for each in written["owners"].values()]
    except (AttributeError, LookupError, RecursionError, TypeError, ValueError):  # see `parse`
        return []
    return sorted(
        {
            each
            for each in names
            if isinstance(each, str) and approver_lists.FILE_NAME_PATTERN.fullmatch(each)
        }
    )


def _build_policy(
    written: policy_file.PolicyFile, source: str, files: Mapping[str, str], problems: FileProblems
) -> Policy:
    assembly, loosen = RuleBuilder(written, problems), written.modes.loosen
    rules = assembly.build_rules()
    functions = {field: each.function for field, each in written.owners.items() if each.function}
    manager = (
        {approver_lists.MANAGER_OF_REQUESTER: written.manager.field} if written.manager else {}
    )
    tables = written.owners | dict.fromkeys(manager, approver_lists.OwnersEntry())
    lines = tuple(
        {key: problems.get_line(("rule", index, key)) for key in ("tool", "when")}
        for index in range(len(rules))
    )
    return Policy(
        source=source,
        rules=rules,
        default=assembly.default,
        loosen=loosen and approver_lists.build_approvers(loosen),
        templates=policy_file.build_request_templates(written.template, problems),
        shared_channels=tuple(written.shared_channels),
        calendar=assembly.build_policy_calendar(),
        owners=approver_lists.build_owner_tables(
            tables, [each.gate for each in rules], assembly.default, files, problems
        ),
        owner_functions=functions | manager,
        lines=lines,
        readers=policy_file.build_named_people(written.readers, ("readers",), problems),
        passkeys=policy_file.build_passkey_terms(written.passkeys, problems),
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
