"""Evaluates one condition, whose syntax tree was read and checked, over one set of values. PURE.

CEL's grammar is read by the library; its own evaluation would let through what must not pass:
errors on one side of `||` become true, numbers become doubles, what is not boolean counts as true,
and nothing bounds the time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from lark import Tree

from bot.policy.conditions.operators import BINARY, METHODS, UNARY
from bot.policy.conditions.values import Untold, field, item, truth, weight

MOST_STEPS = 100_000  # some tenths of a second
MACROS = frozenset({"all", "exists", "exists_one", "filter", "map"})


class Evaluator:
    """Evaluates from left to right; what the left side already decided is not evaluated further."""

    def __init__(self, names: dict[str, Any], functions: Mapping[str, Callable[..., Any]]) -> None:
        self._names = names
        self._functions = functions
        self._steps = 0

    def value(self, node: Any) -> Any:
        """The value of a part of the tree. Raises Untold."""
        self._spend(1)
        kind: str = node.data
        if kind in BINARY:
            left, right = self.value(node.children[0]), self.value(node.children[1])
            self._spend(weight(left) + weight(right))
            return BINARY[kind](left, right)
        if kind in UNARY:
            return UNARY[kind](self.value(node.children[0]))
        return getattr(self, f"_{kind}")(node)

    def _spend(self, steps: int) -> None:
        self._steps += steps
        if self._steps > MOST_STEPS:
            raise Untold("it takes too long over so much")

    def _expr(self, node: Tree[Any]) -> Any:
        condition, yes, no = node.children
        return self.value(yes if truth(self.value(condition)) else no)

    def _conditionalor(self, node: Tree[Any]) -> bool:
        return any(truth(self.value(each)) for each in node.children)

    def _conditionaland(self, node: Tree[Any]) -> bool:
        return all(truth(self.value(each)) for each in node.children)

    def _literal(self, node: Tree[Any]) -> Any:
        return node.children[0]

    def _ident(self, node: Tree[Any]) -> Any:
        return field(self._names, str(node.children[0]))

    def _list_lit(self, node: Tree[Any]) -> list[Any]:
        return self._all(node.children)

    def _member_dot(self, node: Tree[Any]) -> Any:
        return field(self.value(node.children[0]), str(node.children[1]))

    def _member_index(self, node: Tree[Any]) -> Any:
        return item(self.value(node.children[0]), self.value(node.children[1]))

    def _ident_arg(self, node: Tree[Any]) -> Any:
        name, *given = node.children
        if name == "has":
            return self._has(given[0])
        return self._functions[str(name)](*self._all(given))

    def _has(self, node: Any) -> bool:
        within = self.value(node.children[0])
        if not isinstance(within, dict):
            raise Untold("only a map has fields")
        return str(node.children[1]) in within

    def _member_dot_arg(self, node: Tree[Any]) -> Any:
        target, name, *given = node.children
        found = self.value(target)
        if name in MACROS:
            return self._macro(str(name), found, str(given[0].children[0]), given[1])
        values = self._all(given)
        self._spend(weight(found) if name != "size" else 0)
        return METHODS[str(name)](found, *values)

    def _all(self, nodes: list[Any]) -> list[Any]:
        return [self.value(each) for each in nodes]

    def _macro(self, name: str, found: Any, variable: str, body: Any) -> Any:
        if not isinstance(found, list | dict | frozenset):
            raise Untold(f"only a list, a map or a group has .{name}()")
        each = self._each(
            sorted(found) if isinstance(found, frozenset) else list(found), variable, body
        )
        if name == "map":
            return [value for _, value in each]
        if name == "all":
            return all(truth(value) for _, value in each)
        if name == "exists":
            return any(truth(value) for _, value in each)
        true = [one for one, value in each if truth(value)]
        return true if name == "filter" else len(true) == 1

    def _each(self, items: list[Any], variable: str, body: Any) -> Iterator[tuple[Any, Any]]:
        for one in items:
            self._names[variable] = one
            value = self.value(body)
            self._spend(weight(value))
            yield one, value
