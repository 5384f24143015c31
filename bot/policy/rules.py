"""One rule of a policy: which calls it is about, and what it needs to know to tell. PURE."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from difflib import get_close_matches
from fnmatch import fnmatchcase
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from bot.policy.condition_values import Facts, Needs, Spent
from bot.policy.gates import Addition, Allow, Approvers, Ask, Deny
from bot.toml_file import meant

if TYPE_CHECKING:
    from bot.policy.condition import Condition


# Requests that a policy prepares for people: a tool, with some of its fields filled in for
# good.


class Template(BaseModel):
    """One prepared request."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    title: str  # what people choose it by
    tool: str
    fixed: dict[str, Any] = {}  # JSON values by field; nobody who asks can change them
    who: Approvers | None = None  # who may ask for it; None: everybody
    place: str = ""  # where it stands, for messages: file, line, template


Toolbox = Mapping[str, frozenset[str]]  # name of a tool -> its fields
ALIKE, LEAST_LETTERS = 0.8, 4  # from when on a pattern that fits nothing is taken for a slip


@cache
def condition(source: str) -> Condition:
    """The condition, read once; raises ConditionError."""
    # only now: the library behind it takes a moment to load
    from bot.policy.condition import Condition

    return Condition(source)


class Rule(BaseModel):
    """One rule: the calls it is about, and its gate."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    name: str
    tools: tuple[str, ...]  # fnmatch patterns, case-sensitive
    effects: tuple[str, ...]
    risks: tuple[str, ...]
    channels: tuple[str, ...] = ()  # ids or #names; none: anywhere
    requesters: tuple[str, ...] = ()  # user ids or @handles; none: anybody
    when: str = ""  # a condition in CEL; "": always
    gate: Annotated[Allow | Deny | Ask | Addition, Field(discriminator="verdict")]

    def is_about(self, tool: str, effect: str | None, risk: str) -> bool:
        """Whether calls of this tool, effect class and risk can fall under this rule; None stands
        for any effect.
        """
        return (
            (effect is None or effect in self.effects)
            and risk in self.risks
            and any(fnmatchcase(tool, each) for each in self.tools)
        )

    def fits(self, facts: Facts, effect: str) -> tuple[bool | None, str]:
        """Whether a call falls under this rule, None where that cannot be told, and what decided
        it.
        """
        if not any(fnmatchcase(facts.tool, each) for each in self.tools):
            return False, "it is about other tools"
        if effect not in self.effects:
            return False, f"it is about other effects than {effect}"
        if facts.risk not in self.risks:
            return False, f"it is about other risks than {facts.risk}"
        doubt = ""
        # a no settles it, whatever else is not known
        for look in (self._is_here, self._is_by, self._holds):
            fits, why = look(facts)
            if fits is False:
                return False, why
            doubt = doubt or ("" if fits else why)
        return (None, doubt) if doubt else (True, why)

    def _is_here(self, facts: Facts) -> tuple[bool | None, str]:
        if not self.channels or facts.channel in self.channels:
            return True, ""
        ids = [(facts.channels or {}).get(each) for each in self.channels if each.startswith("#")]
        if facts.channel in ids:
            return True, ""
        if None in ids:
            return None, "a channel it names could not be looked up"
        return False, "it is about other channels"

    def _is_by(self, facts: Facts) -> tuple[bool | None, str]:
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

    def _holds(self, facts: Facts) -> tuple[bool | None, str]:
        if not self.when:
            return True, "it matches"
        try:
            holds = condition(self.when).holds(facts)
        except ValueError as error:
            return None, f"its condition {error}"
        return holds, f"its condition is {'true' if holds else 'not true'}: {self.when}"

    def names(self, tool: str) -> bool:
        """Whether a pattern of this rule other than * fits the tool."""
        return any(each.strip("*") and fnmatchcase(tool, each) for each in self.tools)

    def covers(self) -> frozenset[str]:
        """The effect classes of which this rule takes every call, whatever the tool, the place and
        the person.
        """
        open_to_all = not (self.channels or self.requesters or self.when) and len(self.risks) == 3
        every = open_to_all and any(not each.strip("*") for each in self.tools)
        return frozenset(self.effects) if every else frozenset()


def needs_of(rules: Iterable[Rule]) -> Needs:
    """What any of these rules needs."""
    groups: set[str] = set()
    channels: set[str] = set()
    spent: set[Spent] = set()
    people: set[str] = set()
    for rule in rules:
        groups |= {each[1:] for each in rule.requesters if each.startswith("@")}
        channels |= {each for each in rule.channels if each.startswith("#")}
        if rule.when:
            read = condition(rule.when)
            groups |= read.groups
            channels |= {f"#{each}" for each in read.channels}
            people |= read.people
            spent |= read.spent
    return Needs(frozenset(groups), frozenset(channels), frozenset(spent), frozenset(people))


def fitting_none(rule: Rule, tools: Collection[str]) -> list[str]:
    """Return the patterns of a rule that fit none of these tools."""
    patterns = [each for each in rule.tools if _is_pattern(each)]
    return [each for each in patterns if not any(fnmatchcase(name, each) for name in tools)]


def _is_pattern(text: str) -> bool:
    return bool(set(text) & set("*?["))


def _nearly(pattern: str, tools: Collection[str]) -> str:
    """Return the tool that a pattern seems to miss by a slip; "" for one that may come yet."""
    letters = re.sub(r"[*?]|\[[^\]]*\]", "", pattern)
    from_end = pattern[0] in "*?["
    parts = {(name[-len(letters) :] if from_end else name[: len(letters)]): name for name in tools}
    close = get_close_matches(letters, parts, 1, ALIKE) if len(letters) >= LEAST_LETTERS else []
    return parts[close[0]] if close else ""


def unfit(rule: Rule, tools: Toolbox) -> Iterator[tuple[str, str, str]]:
    """What in a rule promises a protection that these tools do not give: the key, what is wrong,
    what to do. It denies a tool that is not there, or by a pattern that misses one narrowly, or
    sums one up.
    """
    if isinstance(rule.gate, Deny):
        for pattern in sorted(fitting_none(rule, tools)):
            if near := _nearly(pattern, tools):
                remedy = f"correct the pattern (is {near} meant?), or remove the rule"
                yield "tool", f"it denies {pattern}, which no tool is called", remedy
        plain = {each for each in rule.tools if not _is_pattern(each)}
        for name in sorted(plain - tools.keys()):
            remedy = f"correct the name{meant([name], tools)}, or remove the rule"
            yield "tool", f"it denies {name}, which is no tool", remedy
    for wanted in sorted(condition(rule.when).spent) if rule.when else ():
        fields = tools.get(wanted.tool)
        if fields is None:
            near = meant([wanted.tool], tools)
            yield "when", f"it sums up {wanted.tool}, which is no tool", f"correct it{near}"
            continue
        for field in sorted({wanted.field, *wanted.same} - {"", *fields}):
            what = f"it sums up {field}, which {wanted.tool} lacks"
            yield "when", what, f"correct it{meant([field], fields)}"
