"""Conditions of policy rules, in CEL (the Common Expression Language): read once, then asked with facts. PURE.

Stricter than CEL where CEL would let something through: numbers are exact decimals and nothing else, what raises is
never true, `||` and `&&` read from left to right, and no list operation may stand inside another.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

import celpy
import celpy.evaluation
import lark
from celpy import celtypes
from celpy.celparser import CELParseError
from celpy.evaluation import CELEvalError

from bot.condition_values import METHODS, OPERATORS, Number, value_of

MOST_BYTES = 1_024
MACROS = frozenset({"all", "exists", "exists_one", "filter", "map"})
_REFUSED_MACROS = frozenset({"reduce", "min"})  # not CEL's own
NAMES = frozenset({"args", "requester", "channel", "tool", "effect", "risk", "groups", "now"})
FUNCTIONS = frozenset({"has", "size", "spent", "count"})
_WINDOW = re.compile(r"([1-9][0-9]{0,4})([mhd])")
_FIELD = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")


class ConditionError(ValueError):
    """The condition cannot be used, or not be told; the text says why."""


@dataclass(frozen=True, slots=True, order=True)
class Spent:
    """A sum (or, without a field, a count) over the calls of one tool by the same requester within a window."""

    tool: str
    field: str  # "" counts calls
    window: int  # seconds


@dataclass(frozen=True, slots=True)
class Facts:
    """All that a rule may know of a call. A group or a sum that could not be had is None: what needs it raises."""

    tool: str
    effect: str
    requester: str
    args: Mapping[str, Any]
    channel: str = ""
    risk: str = "medium"
    now: datetime | None = None
    groups: Mapping[str, frozenset[str] | None] | None = None  # handle without @ -> user ids
    channels: Mapping[str, str | None] | None = None  # #name -> id
    spent: Mapping[Spent, Decimal | None] | None = None


class Condition:
    """One condition, read and checked."""

    def __init__(self, source: str) -> None:
        """Raises ConditionError for what is no condition, is too long, or names what is not there."""
        if len(source.encode()) > MOST_BYTES:
            raise ConditionError(f"is longer than {MOST_BYTES} bytes; split the rule")
        self.source = source
        try:
            tree = celpy.Environment(runner_class=_Runner).compile(source)
            self.spent, self.groups = _check(tree)
        except CELParseError as error:
            where = f" (line {error.line}, column {error.column})" if error.line else ""
            raise ConditionError(f"is not CEL{where}; compare, combine with && and ||, negate with !") from None
        except RecursionError:
            raise ConditionError("is nested too deeply; split the rule") from None
        self._tree = tree

    def holds(self, facts: Facts) -> bool:
        """Whether it is true of `facts`. Raises ConditionError where that cannot be told."""
        sums = facts.spent or {}

        def spent(tool: Any, field: Any, window: Any) -> Number:
            return _known(sums, Spent(str(tool), str(field), seconds(str(window))))

        def count(tool: Any, window: Any) -> Number:
            return _known(sums, Spent(str(tool), "", seconds(str(window))))

        functions = {**OPERATORS, **METHODS, "spent": spent, "count": count}
        try:
            runner = _Runner(celpy.Environment(runner_class=_Runner), self._tree, functions)
            found = runner.evaluate(self._activation(facts))
        except ConditionError:
            raise
        except CELEvalError as error:
            raise ConditionError(f"could not be told: {_why(error)}") from error
        except Exception as error:  # whatever a library raises over strange values, it is not a yes
            raise ConditionError(f"could not be told: {type(error).__name__}") from error
        if not isinstance(found, celtypes.BoolType | bool):
            raise ConditionError("is neither true nor false")
        return bool(found)

    def _activation(self, facts: Facts) -> dict[str, Any]:
        known = facts.groups or {}
        groups = {name: sorted(found) for name in self.groups if (found := known.get(name)) is not None}
        values: dict[str, Any] = {
            "args": dict(facts.args), "requester": facts.requester, "channel": facts.channel, "tool": facts.tool,
            "effect": facts.effect, "risk": facts.risk, "groups": groups,
        }  # fmt: skip
        if facts.now is not None:
            values["now"] = facts.now
        return {name: value_of(value) for name, value in values.items()}


class _Evaluator(celpy.evaluation.Evaluator):
    """The library's, but numbers are exact, and an error inside `all` or `exists` stays an error."""

    def literal(self, tree: lark.Tree[Any]) -> Any:
        token = tree.children[0]
        if isinstance(token, lark.Token) and token.type in ("INT_LIT", "FLOAT_LIT", "UINT_LIT"):
            text = token.value.rstrip("uU")
            return Number(int(text, 16) if "x" in text.lower() else text)
        return super().literal(tree)

    def sub_evaluator(self, ast: lark.Tree[Any]) -> _Evaluator:
        return _Evaluator(ast, activation=self.activation)

    def build_ss_macro_eval(self, child: lark.Tree[Any]) -> Any:
        return self.build_macro_eval(child)


class _Runner(celpy.InterpretedRunner):
    def evaluate(self, context: Any) -> Any:
        return _Evaluator(ast=self.ast, activation=self.new_activation()).evaluate(context)


def _known(sums: Mapping[Spent, Decimal | None], wanted: Spent) -> Number:
    found = sums.get(wanted)
    if found is None:
        raise ConditionError(f"could not be told: what was spent with {wanted.tool} is not known")
    return Number(found)


def _why(error: CELEvalError) -> str:
    words = str(error.args[0]) if error.args else "it raised"
    return words.partition(" (in activation")[0][:200]


def seconds(window: str) -> int:
    """Seconds in "30m", "24h", "7d", at most 90 days; raises ConditionError."""
    found = _WINDOW.fullmatch(window)
    length = int(found[1]) * {"m": 60, "h": 3600, "d": 86_400}[found[2]] if found else 0
    if not 60 <= length <= 90 * 86_400:
        raise ConditionError(f'{window!r} is no window; write "30m", "24h" or "7d", at most "90d"')
    return length


def _check(tree: lark.Tree[Any]) -> tuple[frozenset[Spent], frozenset[str]]:
    """The sums and the groups it needs. Raises ConditionError for unknown names, functions and nested macros."""
    sums: set[Spent] = set()
    groups: set[str] = set()
    _walk(tree, frozenset(), False, sums, groups)
    return frozenset(sums), frozenset(groups)


def _walk(node: Any, bound: frozenset[str], inside: bool, sums: set[Spent], groups: set[str]) -> None:
    """`bound`: the variable of the macro around; `inside`: whether there is one."""
    if not isinstance(node, lark.Tree):
        return
    if node.data in ("member_object", "map_lit", "dot_ident", "dot_ident_arg"):
        raise ConditionError("makes objects, which a condition has no use for; compare values instead")
    if node.data == "ident" and (name := str(node.children[0])) not in NAMES | bound:
        raise ConditionError(f"names {name!r}, which is not there; there are {', '.join(sorted(NAMES))}")
    if node.data == "ident" and str(node.children[0]) == "groups" and "groups" not in bound:
        raise ConditionError("uses groups as a whole; name one, as in groups.finance")
    if node.data in ("member_dot", "member_index") and _is_groups(node.children[0]):
        groups.add(_group(node))
        return
    if node.data == "ident_arg":
        _function(node, sums)
    if node.data == "member_dot_arg":
        method = str(node.children[1])
        if method in MACROS:
            if inside:
                raise ConditionError(f"has .{method}() inside another list operation; write two rules")
            variable, body = _macro(node)
            _walk(node.children[0], bound, inside, sums, groups)
            _walk(body, bound | {variable}, True, sums, groups)
            return
        if method in _REFUSED_MACROS or method not in METHODS:
            raise ConditionError(f"calls .{method}(), which is not there; there are {', '.join(sorted(METHODS))}")
    for child in node.children:
        _walk(child, bound, inside, sums, groups)


def _is_groups(node: Any) -> bool:
    while isinstance(node, lark.Tree) and node.data in ("member", "primary") and len(node.children) == 1:
        node = node.children[0]
    return isinstance(node, lark.Tree) and node.data == "ident" and str(node.children[0]) == "groups"


def _group(node: lark.Tree[Any]) -> str:
    if node.data == "member_dot":
        return str(node.children[1])
    literals = list(_literals(node.children[1]))
    if len(literals) != 1:
        raise ConditionError('needs a literal group, as in groups.finance or groups["shop-leads"]')
    return literals[0]


def _macro(node: lark.Tree[Any]) -> tuple[str, Any]:
    arguments = node.children[2] if len(node.children) > 2 else None
    children = arguments.children if isinstance(arguments, lark.Tree) else []
    names = [str(each.children[0]) for each in children[0].find_data("ident")] if len(children) == 2 else []
    if len(names) != 1 or names[0] in NAMES:
        raise ConditionError(f"needs a new name and a condition in .{node.children[1]}(name, condition)")
    return names[0], children[1]


def _function(node: lark.Tree[Any], sums: set[Spent]) -> None:
    name = str(node.children[0])
    if name not in FUNCTIONS:
        raise ConditionError(f"calls {name}(), which is not there; there are {', '.join(sorted(FUNCTIONS))}")
    if name not in ("spent", "count"):
        return
    given = node.children[1].children if len(node.children) > 1 else []
    words = [literal for each in given for literal in _literals(each)]
    shape = '"tool", "field", "24h"' if name == "spent" else '"tool", "24h"'
    if len(words) != len(given) or len(words) != shape.count(",") + 1:
        raise ConditionError(f"needs words in quotes, as in {name}({shape})")
    tool, field, window = (words[0], words[1], words[2]) if name == "spent" else (words[0], "", words[1])
    if not _FIELD.fullmatch(tool) or (field and not _FIELD.fullmatch(field)):
        raise ConditionError(f"needs the names of a tool and a field in {name}({shape})")
    sums.add(Spent(tool, field, seconds(window)))


def _literals(node: Any) -> Iterator[str]:
    """The text of a lone string literal; nothing for anything else."""
    while isinstance(node, lark.Tree) and len(node.children) == 1 and node.data != "literal":
        node = node.children[0]
    if isinstance(node, lark.Tree) and node.data == "literal":
        token = node.children[0]
        if isinstance(token, lark.Token) and token.type == "STRING_LIT" and "\\" not in token.value:
            yield token.value[1:-1]
