"""The text of a condition, read into a small tree: nodes named as in the grammar, without those
that only wrap. PURE.

The grammar is the library's. Literals stand in the tree as values, chains of `||` and `&&` as one
node.
"""

from __future__ import annotations

import re
from typing import Any

from celpy.celparser import CELParseError, CELParser
from celpy.evaluation import celstr
from lark import Tree

from bot.policy.condition_values import UnknownValueError, number

MOST_DEPTH = 64
_WRAPS = frozenset(
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
_LISTED = frozenset({"ident_arg", "member_dot_arg", "list_lit"})  # their exprlist is spliced in
_ESCAPED = re.compile(
    r"""(?:[^\\]|\\[abfnrtv"'\\]|\\[0-3][0-7]{2}|\\x[0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\U[0-9a-fA-F]{8})*"""
)


def parse_condition(source: str) -> Tree[Any]:
    """The tree of a condition. Raises UnknownValueError for what is no CEL or too deep."""
    try:
        tree: Tree[Any] = _folded(CELParser().parse(source), 0)
        return tree
    except CELParseError as error:
        where = (
            f" (line {error.line}, column {error.column})" if error.line and error.column else ""
        )
        raise UnknownValueError(
            f"is not CEL{where}; compare, combine with && and ||, negate with !"
        ) from None
    except RecursionError:
        raise UnknownValueError("is nested too deeply; split the rule") from None


def _folded(node: Any, depth: int) -> Any:
    while isinstance(node, Tree) and node.data in _WRAPS and len(node.children) == 1:
        node = node.children[0]
    if not isinstance(node, Tree):
        return node
    if depth > MOST_DEPTH:
        raise UnknownValueError("is nested too deeply; split the rule")
    if node.data == "literal":
        return Tree("literal", [_literal(node.children[0])])
    kind, parts = str(node.data), list(node.children)
    if kind in ("conditionalor", "conditionaland"):
        parts = _chain(kind, node)
    elif kind in ("relation", "addition", "multiplication", "unary"):
        sign, right = parts
        kind, parts = str(sign.data), [*sign.children, right]
    elif kind in _LISTED and parts and isinstance(parts[-1], Tree) and parts[-1].data == "exprlist":
        parts = [*parts[:-1], *parts[-1].children]
    return Tree(kind, [_folded(each, depth + 1) for each in parts])


def _chain(kind: str, node: Any) -> list[Any]:
    """The parts of `a || b || c`, which the grammar nests to the left."""
    parts: list[Any] = []
    while isinstance(node, Tree) and node.data == kind and len(node.children) == 2:
        node, right = node.children
        parts.insert(0, right)
    return [node, *parts]


def _literal(token: Any) -> Any:
    if token.type in ("INT_LIT", "FLOAT_LIT", "UINT_LIT"):
        text = token.value.rstrip("uU")
        return number(int(text, 16) if "x" in text.lower() else text)
    if token.type in ("BOOL_LIT", "NULL_LIT"):
        return {"true": True, "false": False, "null": None}[token.value]
    raw = token.value[0] in "rR"
    plain = token.value[1:] if raw else token.value
    quotes = 3 if token.type == "MLSTRING_LIT" else 1
    inner = plain[quotes:-quotes]
    if token.type == "BYTES_LIT" or "\n" in inner or "\r" in inner:
        raise UnknownValueError(
            "holds bytes or a text over several lines, which a condition has no use for"
        )
    if (raw and inner.endswith("\\")) or not (raw or _ESCAPED.fullmatch(inner)):
        raise UnknownValueError(
            'has a backslash that means nothing; write \\\\ for one, or r"…" around the text'
        )
    return inner if raw else str(celstr(token))
