"""Conditions of policy rules, in CEL (the Common Expression Language): read once, then asked with
facts. PURE.

Stricter than CEL where CEL would let something through: numbers are exact and nothing else, what
raises is never true, `||` and `&&` read from left to right, and no list operation may stand inside
another.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Any

from lark import Tree

from bot.policy.conditions.evaluator import MACROS, Evaluator
from bot.policy.conditions.facts import Facts, Spent
from bot.policy.conditions.operators import CLOCK, METHODS
from bot.policy.conditions.parser import read
from bot.policy.conditions.sums import SHAPES, wanted
from bot.policy.conditions.values import (
    Id,
    Untold,
    Unusable,
    number,
    pattern,
    size,
    truth,
    value_of,
    zone,
)

MOST_BYTES = 1_024
SPACES = ("groups", "channels", "people")  # of names that are looked up
NAMES = frozenset(
    {"args", "requester", "channel", "tool", "effect", "risk", "client", "now", *SPACES}
)
FUNCTIONS = frozenset({"has", "size", "spent", "count"})
_EXAMPLES = {
    "groups": 'groups.finance or groups["shop-leads"]',
    "channels": 'channels.announcements or channels["shop-floor"]',
    "people": 'people.ana or people["ana.ruiz"]',
}


class ConditionError(ValueError):
    """The condition cannot be used, or not be told; the text says why, and names no value."""


class Condition:
    """One condition, read and checked. Threads may share it: asking it changes nothing."""

    def __init__(self, source: str) -> None:
        """Raises ConditionError for what is too long, no condition, or names what is not there."""
        self.source = source
        if len(source.encode(errors="surrogatepass")) > MOST_BYTES:
            raise ConditionError(f"is longer than {MOST_BYTES} bytes; split the rule")
        try:
            self._tree = read(source)
            check = _Check()
            check.walk(self._tree, frozenset(), False)
        except Untold as error:
            raise ConditionError(str(error)) from None
        self.spent, self._names = frozenset(check.sums), frozenset(check.names)
        self.groups, self.channels, self.people = (frozenset(check.spaces[each]) for each in SPACES)
        # of args; those inside has()
        self.fields, self.asked = frozenset(check.fields), frozenset(check.asked)

    def holds(self, facts: Facts) -> bool:
        """Whether it is true of `facts`. Raises ConditionError where that cannot be told."""
        sums = facts.spent or {}

        def spent(*words: str) -> Fraction:
            return _known(sums, wanted("spent", words))

        def count(*words: str) -> Fraction:
            return _known(sums, wanted("count", words))

        try:
            evaluator = Evaluator(
                self._values(facts), {"size": size, "spent": spent, "count": count}
            )
            return truth(evaluator.value(self._tree))
        except Untold as error:
            raise ConditionError(f"could not be told: {error}") from None
        except Exception as error:  # noqa: BLE001 - whatever strange values raise is not a yes
            raise ConditionError(f"could not be told: {type(error).__name__}") from None

    def _values(self, facts: Facts) -> dict[str, Any]:
        """What the condition names."""
        values = {name: value_of(getattr(facts, name)) for name in self._names - {"now"}}
        values["now"] = value_of(facts.now) if facts.now else Unusable("the time is not known")
        known = facts.groups or {}
        values["groups"] = {name: _members(known.get(name)) for name in self.groups}
        channels, people = facts.channels or {}, facts.people or {}
        values["channels"] = {name: _id(channels.get(f"#{name}")) for name in self.channels}
        values["people"] = {name: _id(people.get(name)) for name in self.people}
        return values


def _members(found: frozenset[str] | None) -> frozenset[str] | Unusable:
    return Unusable("its members are not known") if found is None else frozenset(found)


def _id(found: str | None) -> Id | Unusable:
    return Unusable("who or which that is is not known") if found is None else Id(found)


def _known(sums: Mapping[Spent, Decimal | None], asked: Spent) -> Fraction:
    found = sums.get(asked)
    if found is None:
        raise Untold(f"what was spent with {asked.tool} is not known")
    return number(found)


class _Check:
    """Walks a tree for the facts it needs.

    Raises for unknown names and functions, and for nested list operations.
    """

    def __init__(self) -> None:
        self.names: set[str] = set()
        self.sums: set[Spent] = set()
        self.spaces: dict[str, set[str]] = {each: set() for each in SPACES}
        self.fields: set[str] = set()
        self.asked: set[str] = set()

    def walk(self, node: Any, bound: frozenset[str], inside: bool) -> None:
        """`bound`: the variable of the list operation around; `inside`: whether there is one."""
        if not isinstance(node, Tree) or node.data == "literal":
            return
        if node.data in ("member_object", "map_lit", "dot_ident", "dot_ident_arg"):
            raise ConditionError(
                "makes objects, which a condition has no use for; compare values instead"
            )
        if node.data == "ident":
            self._name(str(node.children[0]), bound)
        elif node.data in ("member_dot", "member_index") and (space := _space(node.children[0])):
            self.spaces[space].add(_name_in(space, node))
        elif node.data == "member_dot_arg" and str(node.children[1]) in MACROS:
            self._macro(node, bound, inside)
        else:
            if node.data in ("member_dot", "member_index") and _is_ident(node.children[0], "args"):
                self.fields |= (
                    {str(node.children[1])}
                    if node.data == "member_dot"
                    else set(_texts(node.children[1:]))
                )
            if node.data == "ident_arg":
                self._function(node)
            if node.data == "member_dot_arg":
                _method(node)
            for child in node.children:
                self.walk(child, bound, inside)

    def _name(self, name: str, bound: frozenset[str]) -> None:
        if name not in NAMES | bound:
            raise ConditionError(
                f"names {name!r}, which is not there; there are {', '.join(sorted(NAMES))}"
            )
        if name in SPACES:
            raise ConditionError(f"uses {name} as a whole; name one, as in {_EXAMPLES[name]}")
        self.names |= {name} - bound

    def _macro(self, node: Tree[Any], bound: frozenset[str], inside: bool) -> None:
        target, method, *given = node.children
        if inside:
            raise ConditionError(f"has .{method}() inside another list operation; write two rules")
        if len(given) != 2 or given[0].data != "ident" or str(given[0].children[0]) in NAMES:
            raise ConditionError(f"needs a new name and a condition in .{method}(name, condition)")
        self.walk(target, bound, inside)
        self.walk(given[1], bound | {str(given[0].children[0])}, True)

    def _function(self, node: Tree[Any]) -> None:
        name, given = str(node.children[0]), node.children[1:]
        if name not in FUNCTIONS:
            raise ConditionError(
                f"calls {name}(), which is not there; there are {', '.join(sorted(FUNCTIONS))}"
            )
        if name in SHAPES:
            self._sum(name, list(_texts(given)), len(given))
        elif len(given) != 1:
            raise ConditionError(f"needs one value in {name}()")
        elif name == "has" and (given[0].data != "member_dot" or _space(given[0].children[0])):
            raise ConditionError("needs a field in has(), as in has(args.note)")
        elif name == "has" and _is_ident(given[0].children[0], "args"):
            self.asked.add(str(given[0].children[1]))

    def _sum(self, name: str, words: list[str], given: int) -> None:
        try:
            found = wanted(name, words if len(words) == given else ())
        except ValueError as error:
            raise ConditionError(str(error)) from None
        self.sums.add(found)
        self.fields |= set(found.same)


def _is_ident(node: Any, name: str) -> bool:
    return node.data == "ident" and str(node.children[0]) == name


def _space(node: Any) -> str:
    """Which of the looked-up names this stands for; "" for none."""
    return next((each for each in SPACES if _is_ident(node, each)), "")


def _name_in(space: str, node: Tree[Any]) -> str:
    if node.data == "member_dot":
        return str(node.children[1])
    found = list(_texts(node.children[1:]))
    if len(found) != 1:
        what = {"groups": "group", "channels": "channel", "people": "person"}[space]
        raise ConditionError(f"needs a literal {what}, as in {_EXAMPLES[space]}")
    return found[0]


def _method(node: Tree[Any]) -> None:
    method, given = str(node.children[1]), node.children[2:]
    if method not in METHODS:
        raise ConditionError(
            f"calls .{method}(), which is not there; there are {', '.join(sorted(METHODS))}"
        )
    if len(given) not in ((0, 1) if method in CLOCK else (int(method != "size"),)):
        raise ConditionError(f"gives .{method}() too many values, or too few")
    if method == "matches" or method in CLOCK:
        texts = list(_texts(given))
        if len(texts) != len(given):
            raise ConditionError(f"needs words in quotes in .{method}()")
        for text in texts:
            (pattern if method == "matches" else zone)(text)


def _texts(nodes: list[Any]) -> Iterator[str]:
    """The text literals among the nodes."""
    return (
        node.children[0]
        for node in nodes
        if node.data == "literal" and isinstance(node.children[0], str)
    )
