"""The rules of a policy, made from the entries of its file: the calls and look-ups of each. PURE.

Entries that contradict each other are reported as problems of the file.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from fnmatch import fnmatchcase
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from bot.policy import approver_lists, business_hours, policy_file
from bot.policy.condition_values import Facts, NeededLookups, SpendingSum
from bot.policy.gates import (
    DEFAULT_RULE,
    Allow,
    Ask,
    Deny,
    Escalation,
    GateAddOn,
    GrantOffer,
    Stage,
)
from bot.toml_file import FileProblems, KeyPath, nearest_name_hint
from countersign.durations import DAY, parse_duration

if TYPE_CHECKING:
    from bot.policy.condition import Condition


Toolbox = Mapping[str, frozenset[str]]  # tool name -> its fields
MIN_SIMILARITY = 0.8  # from here on, a pattern without a match counts as a typing error
MIN_LETTERS = 4  # fewest letters in such a pattern


@cache
def parse_cached_condition(source: str) -> Condition:
    """Return the parsed condition, cached by its text; raises ConditionError."""
    # imported late, because the CEL library takes a moment to load
    from bot.policy.condition import Condition

    return Condition(source)


EARLIER_RULE_UNKNOWN_REASON = "allows nothing, because what comes before it is not known"
TOOL_NOT_NAMED_REASON = "allows nothing, because this tool needs approval unless a rule names it"


@dataclass(frozen=True, slots=True)
class RuleMatchResult:
    """The result of one rule tried on a call."""

    rule: str
    fits: bool | None  # None: unknown
    why: str  # reason for people
    adds: bool = False  # it only adds to what other rules say
    idle: str = ""  # why it allows nothing even if it fits


class Rule(BaseModel):
    """One rule: the calls it is about, and its gate."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    name: str
    tools: tuple[str, ...]  # fnmatch patterns, case-sensitive
    effects: tuple[str, ...]
    risks: tuple[str, ...]
    channels: tuple[str, ...] = ()  # ids or #names; empty: anywhere
    requesters: tuple[str, ...] = ()  # user ids or @handles; empty: anybody
    when: str = ""  # a condition in CEL; "": always
    gate: Annotated[Allow | Deny | Ask | GateAddOn, Field(discriminator="verdict")]

    def can_match(self, tool: str, effect: str | None, risk: str) -> bool:
        """Return whether calls of this tool, effect class and risk can fall under this rule.

        An `effect` of None stands for any effect.
        """
        return (
            (effect is None or effect in self.effects)
            and risk in self.risks
            and any(fnmatchcase(tool, each) for each in self.tools)
        )

    def match_call(self, facts: Facts, effect: str) -> tuple[bool | None, str]:
        """Return whether a call falls under this rule (None if unknown), and the reason why."""
        if not any(fnmatchcase(facts.tool, each) for each in self.tools):
            return False, "it is about other tools"
        if effect not in self.effects:
            return False, f"it is about other effects than {effect}"
        if facts.risk not in self.risks:
            return False, f"it is about other risks than {facts.risk}"
        doubt = ""
        # a no decides, even if something else is unknown
        for look in (self._match_channel, self._match_requester, self._match_condition):
            fits, why = look(facts)
            if fits is False:
                return False, why
            doubt = doubt or ("" if fits else why)
        return (None, doubt) if doubt else (True, why)

    def _match_channel(self, facts: Facts) -> tuple[bool | None, str]:
        if not self.channels or facts.channel in self.channels:
            return True, ""
        ids = [(facts.channels or {}).get(each) for each in self.channels if each.startswith("#")]
        if facts.channel in ids:
            return True, ""
        if None in ids:
            return None, "a channel it names could not be looked up"
        return False, "it is about other channels"

    def _match_requester(self, facts: Facts) -> tuple[bool | None, str]:
        if not self.requesters or facts.requester in self.requesters:
            return True, ""
        groups = [
            (facts.groups or {}).get(each[1:]) for each in self.requesters if each.startswith("@")
        ]
        if any(group is not None and facts.requester in group for group in groups):
            return True, ""
        if None in groups:
            return None, "a group it names could not be looked up"
        return False, "it is about other requesters"

    def _match_condition(self, facts: Facts) -> tuple[bool | None, str]:
        if not self.when:
            return True, "it matches"
        try:
            holds = parse_cached_condition(self.when).is_true_for(facts)
        except ValueError as error:
            return None, f"its condition {error}"
        why = f"its condition is {'true' if holds else 'not true'}: {self.when}"
        condition = parse_cached_condition(self.when)
        if condition.freezes or "in_freeze" in condition.names:
            active_freezes = [name for name, is_on in (facts.freezes or {}).items() if is_on]
            why += (
                f" (in force: {', '.join(active_freezes)})"
                if active_freezes
                else " (no freeze is in force)"
            )
        return holds, why

    def has_specific_pattern_for(self, tool: str) -> bool:
        """Return whether a pattern of this rule other than * fits the tool."""
        return any(each.strip("*") and fnmatchcase(tool, each) for each in self.tools)

    def list_fully_covered_effects(self) -> frozenset[str]:
        """Return the effect classes of which this rule takes every call; empty if restricted."""
        open_to_all = not (self.channels or self.requesters or self.when) and len(self.risks) == 3
        every = open_to_all and any(not each.strip("*") for each in self.tools)
        return frozenset(self.effects) if every else frozenset()


def collect_needed_lookups(rules: Iterable[Rule]) -> NeededLookups:
    """Return all look-ups these rules need: groups, channels, people and sums."""
    groups: set[str] = set()
    channels: set[str] = set()
    spent: set[SpendingSum] = set()
    people: set[str] = set()
    for rule in rules:
        groups |= {each[1:] for each in rule.requesters if each.startswith("@")}
        channels |= {each for each in rule.channels if each.startswith("#")}
        if rule.when:
            read = parse_cached_condition(rule.when)
            groups |= read.groups
            channels |= {f"#{each}" for each in read.channels}
            people |= read.people
            spent |= read.spent
    return NeededLookups(
        frozenset(groups), frozenset(channels), frozenset(spent), frozenset(people)
    )


def list_unmatched_patterns(rule: Rule, tools: Collection[str]) -> list[str]:
    """Return the patterns of a rule that fit none of these tools."""
    patterns = [each for each in rule.tools if _has_wildcard(each)]
    return [each for each in patterns if not any(fnmatchcase(name, each) for name in tools)]


def _has_wildcard(text: str) -> bool:
    return bool(set(text) & set("*?["))


def _find_misspelt_tool(pattern: str, tools: Collection[str]) -> str:
    """Return the tool whose name a pattern probably meant but misspelt; "" if none is close."""
    letters = re.sub(r"[*?]|\[[^\]]*\]", "", pattern)
    from_end = pattern[0] in "*?["
    parts = {(name[-len(letters) :] if from_end else name[: len(letters)]): name for name in tools}
    close = (
        get_close_matches(letters, parts, 1, MIN_SIMILARITY) if len(letters) >= MIN_LETTERS else []
    )
    return parts[close[0]] if close else ""


def list_tool_mismatches(rule: Rule, tools: Toolbox) -> Iterator[tuple[str, str, str]]:
    """Yield what a rule names and these tools lack: the key, what is wrong, the remedy.

    The rule denies a tool that does not exist, denies by a pattern that narrowly misses a tool, or
    sums up a tool or field that does not exist.
    """
    if isinstance(rule.gate, Deny):
        for pattern in sorted(list_unmatched_patterns(rule, tools)):
            if near := _find_misspelt_tool(pattern, tools):
                remedy = f"correct the pattern (did you mean {near}?), or remove the rule"
                yield "tool", f"it denies {pattern}, which no tool is called", remedy
        plain = {each for each in rule.tools if not _has_wildcard(each)}
        for name in sorted(plain - tools.keys()):
            near = nearest_name_hint([name], tools)
            remedy = f"correct the name{near}, or remove the rule"
            if not near:
                remedy += f"; if programs ask for it, write the pattern {name}*"
            yield "tool", f"it denies {name}, which is no tool", remedy
    for wanted in sorted(parse_cached_condition(rule.when).spent) if rule.when else ():
        fields = tools.get(wanted.tool)
        if fields is None:
            near = nearest_name_hint([wanted.tool], tools)
            yield "when", f"it sums up {wanted.tool}, which is no tool", f"correct it{near}"
            continue
        for field in sorted({wanted.field, *wanted.same} - {"", *fields}):
            what = f"it sums up {field}, which {wanted.tool} lacks"
            yield "when", what, f"correct it{nearest_name_hint([field], fields)}"


# saved for verdict = "once": calls with the same arguments
ONCE_GRANT_OFFER = GrantOffer(where="everywhere", lasts=30 * DAY, uses=1000)


class RuleBuilder:
    """Builder of the rules of one file, in order, which tracks what earlier rules cover."""

    def __init__(self, written: policy_file.PolicyFile, problems: FileProblems) -> None:
        """Build the hours and the defaults of `written`; mistakes are added to `problems`."""
        self._written = written
        self._problems = problems
        self._names = {DEFAULT_RULE}
        self._covered: set[str] = set()  # effects whose calls all match an earlier rule
        self._answered: set[str] = set()  # effects whose calls never reach the default
        self._hours = self._build_business_hours()
        self.default = build_merged_ask_gate(
            DEFAULT_RULE, written.defaults, policy_file.AskOptions(), self._hours
        )

    def build_rules(self) -> tuple[Rule, ...]:
        """Return the rules in order; a rule that nobody could decide is left out and reported."""
        defaults = self._written.defaults
        for key, sentence in policy_file.list_contradictory_keys(
            defaults, policy_file.AskOptions(), self.default
        ):
            self._problems.add(("defaults", key), sentence)
        found = [self._build_rule(index, each) for index, each in enumerate(self._written.rule)]
        if self.default is None and not {"write", "destructive"} <= self._answered:
            self._problems.add(
                ("defaults", "approvers"),
                "nobody could decide about calls that no rule matches; "
                'add approvers = ["@your-group"] there, or a last [[rule]] for tool = "*"',
            )
        return tuple(rule for rule in found if rule is not None)

    def _build_rule(self, index: int, entry: policy_file.RuleEntry) -> Rule | None:
        name = entry.name or f"rule {index + 1}"
        if name in self._names:
            sentence = f"the name {name!r} is taken; give each rule its own"
            self._problems.add(("rule", index, "name"), sentence)
        self._names.add(name)
        gate = self._build_gate(index, entry, name)
        if gate is None:
            sentence = "nobody could decide; name them here or under [defaults]"
            self._problems.add(("rule", index, "approvers"), sentence)
            return None
        rule = Rule(
            name=name,
            tools=tuple(entry.tool),
            effects=tuple(entry.effect),
            risks=tuple(entry.risk),
            channels=tuple(entry.channel),
            requesters=tuple(entry.requester),
            when=entry.when or "",
            gate=gate,
        )
        if not isinstance(gate, GateAddOn):  # an addition leaves every call to other rules
            self._answered |= rule.list_fully_covered_effects()
        if not isinstance(gate, GateAddOn | Deny):  # a later deny still wins
            self._covered |= rule.list_fully_covered_effects()
        return rule

    def _build_gate(
        self, index: int, entry: policy_file.RuleEntry, name: str
    ) -> Allow | Deny | Ask | GateAddOn | None:
        """Return the gate of an entry, None if nobody could decide; mistakes are reported."""
        for key, sentence in policy_file.list_keys_unfit_for_verdict(entry):
            self._problems.add(("rule", index, key), sentence)
        if entry.verdict == "add":
            return self._build_addition(index, entry, name)
        ask_gate = build_merged_ask_gate(name, entry, self._written.defaults, self._hours)
        if entry.verdict in ("ask", "once"):
            for key, sentence in policy_file.list_contradictory_keys(
                entry, self._written.defaults, ask_gate
            ):
                self._problems.add(("rule", index, key), sentence)
        if set(entry.effect) <= self._covered and entry.verdict != "deny":
            sentence = "can never apply: an earlier rule catches every such call; move it up"
            self._problems.add(("rule", index), sentence)
        match entry.verdict:
            case "allow":
                heeds = entry.after_rejection or self._written.defaults.after_rejection
                return Allow(rule=name, after_rejection=heeds or "ask")
            case "deny":
                return Deny(rule=name, reason=entry.reason or "")
            case "once" if ask_gate is not None:
                return ask_gate.model_copy(update={"remember": (), "once": ONCE_GRANT_OFFER})
            case _:
                return ask_gate

    def _build_addition(self, index: int, entry: policy_file.RuleEntry, name: str) -> GateAddOn:
        """Return what the entry adds to other gates; options that can never apply are reported."""
        defaults = self._written.defaults
        asking = entry.approvers is not None or entry.stages is not None
        ask = build_merged_ask_gate(name, entry, defaults, self._hours) if asking else None
        late = {} if entry.deadline else {"reminders": None, "escalation": None}
        for key, sentence in policy_file.list_contradictory_keys(
            entry.model_copy(update=late), defaults, ask
        ):
            self._problems.add(("rule", index, key), sentence)
        # these options are in `ask` already
        ask_keys = {"approvers", "quorum", "silent", "stages", "any_order", "business_hours"}
        copied_keys = policy_file.ASK_KEYS - {"post_to", "remember", "break_glass"} - ask_keys
        options = entry.model_dump(exclude_none=True, include=set(copied_keys))
        own_setting = entry.business_hours
        counted = defaults.business_hours if own_setting is None else own_setting
        hours = self._hours if counted else None
        _parse_times(options, hours)
        for key in ("self_approval", "editor_counts"):  # an explicit true was reported already
            options[key] = False if options.get(key) is False else None
        options["urgent"] = options.get("urgent") or None  # an explicit false was reported already
        options["signature"] = (
            policy_file.SIGNATURE_BY_SETTING[options.get("signature", "none")] or None
        )
        if ask is not None:  # the rule's own escalation is added only if it surely applies
            steps = (each.model_dump() for each in defaults.escalation or ())
            ask = ask.model_copy(update={"escalation": _build_escalation(steps, ask.hours)})
        return GateAddOn(rule=name, ask=ask, stages=ask.stages if ask else (), **options)

    def _build_business_hours(self) -> business_hours.BusinessHours | None:
        """Return the hours of [hours], None without; missing, unused or wrong ones are reported."""
        written = self._written.hours
        if written is None:
            for loc, each in self._list_located_options():
                if each.business_hours:
                    sentence = "there is no [hours]; add it, with zone, opens and closes"
                    self._problems.add((*loc, "business_hours"), sentence)
            return None
        opens, closes = (
            int(text[:2]) * 60 + int(text[3:]) for text in (written.opens, written.closes)
        )
        if opens >= closes:
            self._problems.add(("hours", "closes"), "is not after opens; write a later time")
            return None
        if not (
            any(each.business_hours for _, each in self._list_located_options())
            or any(
                "in_business_hours" in condition.names for _, condition in self._list_conditions()
            )
        ):
            sentence = "is used nowhere; write business_hours = true in a rule, or remove it"
            self._problems.add(("hours",), sentence)
        return business_hours.BusinessHours(
            zone=written.zone,
            opens=opens,
            closes=closes,
            days=tuple(
                sorted(business_hours.WEEKDAYS.index(each) + 1 for each in set(written.days))
            ),
            holidays=tuple(sorted(set(written.holidays))),
            calendar=written.calendar or "",
        )

    def build_policy_calendar(self) -> business_hours.PolicyCalendar | None:
        """Return the freezes and hours that conditions ask for, None if none; reports mistakes."""
        written, freezes = self._written, dict[str, business_hours.Freeze]()
        for name, entry in written.freezes.items():
            try:
                zone = written.hours.zone if written.hours else None
                freezes[name] = entry.build_freeze(name, zone)
            except ValueError as error:
                self._problems.add(("freezes", name), str(error))
        names, used_freezes = set[str](), set[str]()
        for index, condition in self._list_conditions():
            names, used_freezes = names | condition.names, used_freezes | condition.freezes
            for name in sorted(condition.freezes - written.freezes.keys()):
                near = nearest_name_hint([name], written.freezes)
                sentence = f"names freezes.{name}, which does not exist{near}"
                self._problems.add(("rule", index, "when"), sentence)
            tables = {"in_freeze": "freezes", "in_business_hours": "hours"}
            for name, table in tables.items():
                if name in condition.names and not getattr(written, table):
                    sentence = f"asks for {name}, and there is no [{table}]; add it"
                    self._problems.add(("rule", index, "when"), sentence)
        for name in () if "in_freeze" in names else sorted(written.freezes.keys() - used_freezes):
            self._problems.add(("freezes", name), "is used nowhere; use it, or remove it")
        hours = self._hours if "in_business_hours" in names else None
        calendar = business_hours.PolicyCalendar(freezes=tuple(freezes.values()), hours=hours)
        return calendar if freezes or hours else None

    def _list_conditions(self) -> Iterator[tuple[int, Condition]]:
        """Yield the condition of each rule that has one, with the rule's number from 0."""
        for index, each in enumerate(self._written.rule):
            if each.when:
                yield index, parse_cached_condition(each.when)

    def _list_located_options(self) -> Iterator[tuple[KeyPath, policy_file.AskOptions]]:
        """Yield [defaults] and every rule, each with its location in the file."""
        yield ("defaults",), self._written.defaults
        for index, each in enumerate(self._written.rule):
            yield ("rule", index), each


def build_merged_ask_gate(
    name: str,
    first: policy_file.AskOptions,
    second: policy_file.AskOptions,
    hours: business_hours.BusinessHours | None,
) -> Ask | None:
    """Return the gate of `first`, filled up from `second`; None if it names nobody.

    `hours`: the business hours of the policy, used where one of the two asks for them.
    """
    own = first.model_dump(exclude_none=True, include=set(policy_file.ASK_KEYS))
    chosen = second.model_dump(exclude_none=True, include=set(policy_file.ASK_KEYS))
    if "stages" in own or "approvers" in own:  # replaced as a whole, not mixed
        for key in ("stages", "approvers", "quorum", "silent"):
            chosen.pop(key, None)
    chosen |= own
    steps = chosen.pop("stages", None)
    alone = {key: chosen.pop(key) for key in ("approvers", "quorum", "silent") if key in chosen}
    signature = chosen.pop("signature", "none")
    if steps is None and alone.get("approvers"):
        steps = [alone]
    if not steps:
        return None
    hours = hours if chosen.pop("business_hours", False) else None
    _parse_times(chosen, hours)
    if "run_at" in chosen:  # a saved approval would start calls at any time
        chosen["remember"] = ()
    broken = chosen.pop("break_glass", None)
    return Ask(
        rule=name,
        stages=tuple(
            Stage(
                approvers=approver_lists.build_approvers(each["approvers"], each.get("silent", ())),
                quorum=each.get("quorum", 1),
                signature=policy_file.SIGNATURE_BY_SETTING[each.get("signature", signature)],
            )
            for each in steps
        ),
        hours=hours,
        break_glass=approver_lists.build_approvers(broken) if broken else None,
        remember=tuple(
            GrantOffer(**{**each, "lasts": parse_duration(each["lasts"])})
            for each in chosen.pop("remember", ())
        ),
        **chosen,
    )


def _parse_duration(written: str, hours: business_hours.BusinessHours | None) -> int:
    """Return a duration in seconds; with `hours`, a day has the length of a business day."""
    found = parse_duration(written)
    return (
        found // DAY * hours.seconds_per_business_day if hours and written.endswith("d") else found
    )


def _parse_times(said: dict[str, Any], hours: business_hours.BusinessHours | None) -> None:
    """Convert the durations in a gate's options to seconds, and escalations to Escalation."""
    for key in said.keys() & {"deadline", "good_for"}:
        said[key] = _parse_duration(said[key], hours if key == "deadline" else None)
    said["reminders"] = tuple(
        sorted({_parse_duration(each, hours) for each in said.get("reminders", ())})
    )
    said["escalation"] = _build_escalation(said.get("escalation", ()), hours)


def _build_escalation(
    written: Iterable[dict[str, Any]], hours: business_hours.BusinessHours | None
) -> tuple[Escalation, ...]:
    steps = [
        Escalation(
            after=_parse_duration(each["after"], hours),
            approvers=approver_lists.build_approvers(each["approvers"]),
        )
        for each in written
    ]
    return tuple(sorted(steps, key=lambda each: each.after))
