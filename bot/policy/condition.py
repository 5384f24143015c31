"""Conditions of policy rules, in CEL (the Common Expression Language). PURE.

Each is parsed once, then evaluated over the facts of each call.

Stricter than CEL where CEL would let something through: all numbers are exact, an error never
counts as true, `||` and `&&` are read from left to right, and no list operation may be inside
another.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from functools import partial
from typing import Any, NamedTuple

from celpy.celparser import CELParseError, CELParser
from celpy.evaluation import celstr
from lark import Tree

from bot.policy.condition_values import (
    BINARY_OPERATORS,
    METHODS,
    TIMESTAMP_METHODS,
    UNARY_OPERATORS,
    Facts,
    SlackId,
    SpendingSum,
    UnknownValueError,
    UnusableValue,
    compile_pattern,
    convert_to_condition_value,
    convert_to_fraction,
    count_characters_or_items,
    estimate_traversal_steps,
    get_field,
    get_item,
    load_time_zone,
    require_boolean,
)
from countersign.durations import DAY, MINUTE, parse_duration

# Parsing the text of a condition into a small tree: nodes are named as in the grammar, and those
# that only wrap another are left out. PURE.

MAX_DEPTH = 64
_WRAPPER_NODES = frozenset(
    {
        "expr",
        "conditionalor",
        "conditionaland",
        "relation",
        "addition",
        "multiplication",
        "unary",
        "member",
        "primary",
        "paren_expr",
    }
)
_VALID_ESCAPES_PATTERN = re.compile(
    r"""(?:[^\\]|\\[abfnrtv"'\\]|\\[0-3][0-7]{2}|\\x[0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\U[0-9a-fA-F]{8})*"""
)


def parse_condition(source: str) -> Tree[Any]:
    """Return the tree of a condition; raises UnknownValueError if it is not CEL or too deep."""
    try:
        tree: Tree[Any] = _simplify_tree(CELParser().parse(source), 0)
        return tree
    except CELParseError as error:
        where = f" (line {error.line}, column {error.column})" if error.line else ""
        raise UnknownValueError(
            f"is not CEL{where}; compare, combine with && and ||, negate with !"
        ) from None


def _simplify_tree(node: Any, depth: int) -> Any:
    while isinstance(node, Tree) and node.data in _WRAPPER_NODES and len(node.children) == 1:
        node = node.children[0]
    if not isinstance(node, Tree):
        return node
    if depth > MAX_DEPTH:
        raise UnknownValueError("is nested too deeply; split the rule")
    if node.data == "literal":
        return Tree("literal", [_parse_literal(node.children[0])])
    kind, parts = str(node.data), list(node.children)
    if kind in ("conditionalor", "conditionaland"):
        parts = _list_chained_operands(node)
    elif kind in ("relation", "addition", "multiplication", "unary"):
        sign, right = parts
        kind, parts = str(sign.data), [*sign.children, right]
    elif parts and isinstance(parts[-1], Tree) and parts[-1].data == "exprlist":
        parts = [*parts[:-1], *parts[-1].children]
    return Tree(kind, [_simplify_tree(each, depth + 1) for each in parts])


def _list_chained_operands(node: Tree[Any]) -> list[Any]:
    """Return the operands of `a || b || c`, which the grammar nests to the left."""
    parts: list[Any] = []
    while len(node.children) == 2:
        node, right = node.children
        parts.insert(0, right)
    return [node, *parts]


def _parse_literal(token: Any) -> Any:
    if token.type in ("INT_LIT", "FLOAT_LIT", "UINT_LIT"):
        text = token.value.rstrip("uU")
        return convert_to_fraction(int(text, 16) if "x" in text else text)
    if token.type in ("BOOL_LIT", "NULL_LIT"):
        return {"true": True, "false": False, "null": None}[token.value]
    raw = token.value[0] in "rR"
    plain = token.value[1:] if raw else token.value
    quotes = 3 if token.type == "MLSTRING_LIT" else 1
    inner = plain[quotes:-quotes]
    if token.type == "BYTES_LIT" or "\n" in inner or "\r" in inner:
        raise UnknownValueError(
            "contains bytes or a text of several lines, which a condition cannot use"
        )
    if (raw and inner.endswith("\\")) or not (raw or _VALID_ESCAPES_PATTERN.fullmatch(inner)):
        raise UnknownValueError(
            'has a backslash without a meaning; write \\\\ for one, or r"…" around the text'
        )
    return str(celstr(token))


# Evaluating one parsed and checked condition over one set of values. PURE.

MAX_EVALUATION_STEPS = 100_000  # takes some tenths of a second
MACROS = frozenset({"all", "exists", "exists_one", "filter", "map"})


class ConditionEvaluator:
    """Evaluates a condition's syntax tree, left to right; skips operands that cannot matter."""

    def __init__(self, names: dict[str, Any], functions: Mapping[str, Callable[..., Any]]) -> None:
        self._names = names
        self._functions = functions
        self._steps = 0

    def evaluate(self, node: Any) -> Any:
        """Return the value of a part of the tree; raises UnknownValueError."""
        self._count_steps(1)
        kind: str = node.data
        if kind in BINARY_OPERATORS:
            left, right = self.evaluate(node.children[0]), self.evaluate(node.children[1])
            self._count_steps(estimate_traversal_steps(left) + estimate_traversal_steps(right))
            return BINARY_OPERATORS[kind](left, right)
        if kind in UNARY_OPERATORS:
            return UNARY_OPERATORS[kind](self.evaluate(node.children[0]))
        return getattr(self, f"_{kind}")(node)

    def _count_steps(self, steps: int) -> None:
        self._steps += steps
        if self._steps > MAX_EVALUATION_STEPS:
            raise UnknownValueError("it takes too long for this much data")

    def _expr(self, node: Tree[Any]) -> Any:
        condition, yes, no = node.children
        return self.evaluate(yes if require_boolean(self.evaluate(condition)) else no)

    def _conditionalor(self, node: Tree[Any]) -> bool:
        return any(require_boolean(self.evaluate(each)) for each in node.children)

    def _conditionaland(self, node: Tree[Any]) -> bool:
        return all(require_boolean(self.evaluate(each)) for each in node.children)

    def _literal(self, node: Tree[Any]) -> Any:
        return node.children[0]

    def _ident(self, node: Tree[Any]) -> Any:
        return get_field(self._names, str(node.children[0]))

    def _list_lit(self, node: Tree[Any]) -> list[Any]:
        return self._evaluate_all(node.children)

    def _member_dot(self, node: Tree[Any]) -> Any:
        return get_field(self.evaluate(node.children[0]), str(node.children[1]))

    def _member_index(self, node: Tree[Any]) -> Any:
        return get_item(self.evaluate(node.children[0]), self.evaluate(node.children[1]))

    def _ident_arg(self, node: Tree[Any]) -> Any:
        name, *given = node.children
        if name == "has":
            return self._has_field(given[0])
        return self._functions[str(name)](*self._evaluate_all(given))

    def _has_field(self, node: Any) -> bool:
        within = self.evaluate(node.children[0])
        if not isinstance(within, dict):
            raise UnknownValueError("only a map has fields")
        return str(node.children[1]) in within

    def _member_dot_arg(self, node: Tree[Any]) -> Any:
        target, name, *given = node.children
        found = self.evaluate(target)
        if name in MACROS:
            return self._evaluate_macro(str(name), found, str(given[0].children[0]), given[1])
        values = self._evaluate_all(given)
        self._count_steps(estimate_traversal_steps(found) if name != "size" else 0)
        return METHODS[str(name)](found, *values)

    def _evaluate_all(self, nodes: list[Any]) -> list[Any]:
        return [self.evaluate(each) for each in nodes]

    def _evaluate_macro(self, name: str, items: Any, variable: str, body: Any) -> Any:
        if not isinstance(items, list | dict | frozenset):
            raise UnknownValueError(f"only a list, a map or a group has .{name}()")
        evaluated = self._evaluate_each(
            sorted(items) if isinstance(items, frozenset) else list(items), variable, body
        )
        if name == "map":
            return [value for _, value in evaluated]
        if name == "all":
            return all(require_boolean(value) for _, value in evaluated)
        if name == "exists":
            return any(require_boolean(value) for _, value in evaluated)
        matching = [item for item, value in evaluated if require_boolean(value)]
        return matching if name == "filter" else len(matching) == 1

    def _evaluate_each(
        self, items: list[Any], variable: str, body: Any
    ) -> Iterator[tuple[Any, Any]]:
        for one in items:
            self._names[variable] = one
            value = self.evaluate(body)
            self._count_steps(estimate_traversal_steps(value))
            yield one, value


MAX_CONDITION_BYTES = 1_024


class _Namespace(NamedTuple):
    """The names of one kind that a condition may use, such as those of user groups."""

    example: str
    convert: Callable[[Any], Any]  # turns the fact known about a name into a value
    prefix: str = ""  # added to a name to find it in the facts


NAMESPACES = {
    "groups": _Namespace('groups.finance or groups["shop-leads"]', frozenset),
    "channels": _Namespace('channels.announcements or channels["shop-floor"]', SlackId, "#"),
    "people": _Namespace('people.ana or people["ana.ruiz"]', SlackId),
    "freezes": _Namespace("freezes.christmas", convert_to_condition_value),
}
VARIABLE_NAMES = frozenset(
    {
        *("args", "requester", "channel", "tool", "effect", "risk", "client", "now"),
        *("in_freeze", "in_business_hours", *NAMESPACES),
    }
)
FUNCTION_NAMES = frozenset({"has", "size", "spent", "count"})
_MEMBER_NODES = ("member_dot", "member_index")


class ConditionError(ValueError):
    """Raised when a condition is invalid or has no answer; the text says why, without values."""


class Condition:
    """One parsed and checked condition; threads may share it, as evaluating changes nothing."""

    def __init__(self, source: str) -> None:
        """Parse `source`; raises ConditionError if it is too long, invalid or has unknown names."""
        self.source = source
        if len(source.encode(errors="surrogatepass")) > MAX_CONDITION_BYTES:
            raise ConditionError(f"is longer than {MAX_CONDITION_BYTES} bytes; split the rule")
        # what the condition reads
        self.names, self.spent = set[str](), set[SpendingSum]()
        self.groups, self.channels = set[str](), set[str]()
        self.people, self.freezes = set[str](), set[str]()
        self.fields, self.asked = set[str](), set[str]()  # fields of args; those inside has()
        self.reads_all_fields = False  # not only those that it names
        try:
            self._tree = parse_condition(source)
            self._check_node(self._tree, frozenset())
        except UnknownValueError as error:
            raise ConditionError(str(error)) from None

    def is_true_for(self, facts: Facts) -> bool:
        """Return whether the condition is true of `facts`.

        Raises ConditionError if that cannot be determined.
        """
        functions: dict[str, Callable[..., Any]] = {"size": count_characters_or_items}
        for name in SPENDING_FUNCTIONS:
            functions[name] = partial(_get_known_sum, facts.spent or {}, name)
        try:
            evaluator = ConditionEvaluator(self._build_name_values(facts), functions)
            return require_boolean(evaluator.evaluate(self._tree))
        except UnknownValueError as error:
            raise ConditionError(f"could not be evaluated: {error}") from None
        except Exception as error:  # noqa: BLE001 - whatever strange values raise is not a yes
            raise ConditionError(f"could not be evaluated: {type(error).__name__}") from None

    def _build_name_values(self, facts: Facts) -> dict[str, Any]:
        values = {
            name: _or_unusable(getattr(facts, name), convert_to_condition_value)
            for name in self.names - {"args"}
        }
        if "args" in self.names:
            read = facts.args if self.reads_all_fields else facts.args.keys() & self.fields
            values["args"] = convert_to_condition_value({name: facts.args[name] for name in read})
        for name, namespace in NAMESPACES.items():
            known = getattr(facts, name) or {}
            values[name] = {
                member: _or_unusable(known.get(f"{namespace.prefix}{member}"), namespace.convert)
                for member in getattr(self, name)
            }
        return values

    def _check_node(self, node: Any, bound: frozenset[str]) -> None:
        """Check a part of the tree and collect the facts it needs.

        `bound`: the variable of the list operation around it, if there is one.
        """
        if not isinstance(node, Tree):
            return
        if node.data in ("member_object", "map_lit", "dot_ident", "dot_ident_arg"):
            raise ConditionError(
                "creates objects, which a condition cannot use; compare values instead"
            )
        if node.data == "ident":
            self._check_name(str(node.children[0]), bound)
        elif node.data in _MEMBER_NODES and (space := _find_namespace(node.children[0])):
            getattr(self, space).add(_get_looked_up_name(space, node))
        elif node.data == "member_dot_arg" and str(node.children[1]) in MACROS:
            self._check_macro(node, bound)
        else:
            if node.data in _MEMBER_NODES and _is_identifier(node.children[0], "args"):
                named = _list_named_members(node)
                self.fields.update(named)
                if named:
                    self.names.add("args")
                    return
            if node.data == "ident_arg":
                self._check_function(node)
            if node.data == "member_dot_arg":
                _check_method(node)
            for child in node.children:
                self._check_node(child, bound)

    def _check_name(self, name: str, bound: frozenset[str]) -> None:
        if name not in VARIABLE_NAMES | bound:
            raise ConditionError(
                f"names {name!r}, which is unknown; there are {', '.join(sorted(VARIABLE_NAMES))}"
            )
        if name in NAMESPACES:
            raise ConditionError(
                f"uses {name} as a whole; name one, as in {NAMESPACES[name].example}"
            )
        self.names |= {name} - bound
        self.reads_all_fields |= name == "args"

    def _check_macro(self, node: Tree[Any], bound: frozenset[str]) -> None:
        target, method, *given = node.children
        if bound:
            raise ConditionError(f"has .{method}() inside another list operation; write two rules")
        if (
            len(given) != 2
            or given[0].data != "ident"
            or str(given[0].children[0]) in VARIABLE_NAMES
        ):
            raise ConditionError(f"needs a new name and a condition in .{method}(name, condition)")
        self._check_node(target, bound)
        self._check_node(given[1], frozenset({str(given[0].children[0])}))

    def _check_function(self, node: Tree[Any]) -> None:
        name, arguments = str(node.children[0]), node.children[1:]
        if name not in FUNCTION_NAMES:
            raise ConditionError(
                f"calls {name}(), which is unknown; there are {', '.join(sorted(FUNCTION_NAMES))}"
            )
        if name in SPENDING_FUNCTIONS:
            self._check_sum(name, list(_list_text_literals(arguments)), len(arguments))
        elif len(arguments) != 1:
            raise ConditionError(f"needs one value in {name}()")
        elif name == "has" and (
            arguments[0].data != "member_dot" or _find_namespace(arguments[0].children[0])
        ):
            raise ConditionError("needs a field in has(), as in has(args.note)")
        elif name == "has" and _is_identifier(arguments[0].children[0], "args"):
            self.asked.add(str(arguments[0].children[1]))

    def _check_sum(self, name: str, words: list[str], given: int) -> None:
        try:
            found = parse_spending_sum(name, words if len(words) == given else ())
        except ValueError as error:
            raise ConditionError(str(error)) from None
        self.spent.add(found)
        self.fields |= set(found.same)


def _or_unusable(found: Any, make: Callable[[Any], Any]) -> Any:
    return UnusableValue("what it stands for is not known") if found is None else make(found)


def _get_known_sum(sums: Mapping[SpendingSum, Decimal | None], name: str, *words: str) -> Fraction:
    asked = parse_spending_sum(name, words)
    if (found := sums.get(asked)) is None:
        raise UnknownValueError(f"what was spent with {asked.tool} is not known")
    return convert_to_fraction(found)


def _is_identifier(node: Any, name: str) -> bool:
    return node.data == "ident" and str(node.children[0]) == name


def _find_namespace(node: Any) -> str:
    """Return the group of look-ups ("groups", "freezes" …) that the node names; "" for none."""
    return next((each for each in NAMESPACES if _is_identifier(node, each)), "")


def _get_looked_up_name(space: str, node: Tree[Any]) -> str:
    if len(found := _list_named_members(node)) != 1:
        what = "person" if space == "people" else space.removesuffix("s")
        raise ConditionError(f"needs a literal {what}, as in {NAMESPACES[space].example}")
    return found[0]


def _list_named_members(node: Tree[Any]) -> list[str]:
    """Return the members that `within.name` or `within["name"]` names."""
    if node.data == "member_dot":
        return [str(node.children[1])]
    return list(_list_text_literals(node.children[1:]))


def _check_method(node: Tree[Any]) -> None:
    method, arguments = str(node.children[1]), node.children[2:]
    if method not in METHODS:
        known_methods = ", ".join(sorted(METHODS))
        raise ConditionError(f"calls .{method}(), which does not exist; there are {known_methods}")
    if len(arguments) not in ((0, 1) if method in TIMESTAMP_METHODS else (int(method != "size"),)):
        raise ConditionError(f"gives .{method}() too many values, or too few")
    if method == "matches" or method in TIMESTAMP_METHODS:
        if len(texts := list(_list_text_literals(arguments))) != len(arguments):
            raise ConditionError(f"needs words in quotes in .{method}()")
        for text in texts:
            (compile_pattern if method == "matches" else load_time_zone)(text)


def _list_text_literals(nodes: list[Any]) -> Iterator[str]:
    literals = (node.children[0] for node in nodes if node.data == "literal")
    return (each for each in literals if isinstance(each, str))


# Sums over calls: `spent("tool", "field", "24h")`, `count("tool", "1h")`. Further arguments say
# whose calls are summed, and which of them.

SPENDING_FUNCTIONS = {"spent": '"tool", "field", "24h"', "count": '"tool", "24h"'}
BY_ANYONE = "by anyone"
_NAME_PATTERN = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")
_SAME_FIELD_PATTERN = re.compile(r"same ([A-Za-z_][A-Za-z0-9_]{0,99})")


def parse_spending_sum(name: str, words: Sequence[str]) -> SpendingSum:
    """Return the sum that `spent` or `count` (`name`) asks for with these arguments (`words`).

    Raises ValueError, with what is wrong.
    """
    shape = SPENDING_FUNCTIONS[name]
    needed = shape.count(",") + 1
    if len(words) < needed:
        raise ValueError(f"needs words in quotes, as in {name}({shape})")
    tool, field, window = words[:3] if name == "spent" else (words[0], "", words[1])
    if not _NAME_PATTERN.fullmatch(tool) or (
        name == "spent" and not _NAME_PATTERN.fullmatch(field)
    ):
        raise ValueError(f"needs the names of a tool and a field in {name}({shape})")
    same_fields: set[str] = set()
    anyone = False
    for word in words[needed:]:
        if word == BY_ANYONE:
            anyone = True
        elif match := _SAME_FIELD_PATTERN.fullmatch(word):
            same_fields.add(match[1])
        else:
            raise ValueError(
                f"has {word!r} in {name}(), which means nothing there; "
                f'write "{BY_ANYONE}" or "same currency"'
            )
    return SpendingSum(
        tool, field, parse_window_seconds(window), tuple(sorted(same_fields)), anyone
    )


def parse_window_seconds(text: str) -> int:
    """Return the seconds in "30m", "24h" or "7d", at most 90 days; raises ValueError."""
    length = parse_duration(text, "mhd")
    if not MINUTE <= length <= 90 * DAY:
        raise ValueError(f'{text!r} is not a window; write "30m", "24h" or "7d", at most "90d"')
    return length
