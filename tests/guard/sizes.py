"""How large functions and files may be, and how they are formatted."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from tests.guard.sources import Source

MAX_FUNCTION, MAX_FILE = 50, 500  # lines


def find_too_long(source: Source) -> Iterator[str]:
    """Find functions over 50 lines and files over 500."""
    lines = len(source.text.splitlines())
    if lines > MAX_FILE:
        yield f"{source}:{MAX_FILE + 1}: the file has {lines} lines, more than {MAX_FILE}"
    for node in source.nodes:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            if length > MAX_FUNCTION:
                where = f"{source}:{node.lineno}"
                yield f"{where}: {node.name} has {length} lines, more than {MAX_FUNCTION}"


def find_formatting_by_hand(source: Source) -> Iterator[str]:
    """Find lines that the formatter is told to leave alone."""
    for number, line in enumerate(source.text.splitlines(), 1):
        if re.search(r"#\s*fmt:\s*(skip|off)", line):
            yield f"{source}:{number}: keeps the formatter out"


def find_hidden_assignments(source: Source) -> Iterator[str]:
    """Find walruses anywhere but in the plain test of an `if`, `elif` or `while`."""
    plain = {
        id(inner)
        for node in source.nodes
        if isinstance(node, ast.If | ast.While)
        for inner in _plainly_below(node.test)
    }
    for node in source.nodes:
        if isinstance(node, ast.NamedExpr) and id(node) not in plain:
            yield f"{source}:{node.lineno}: assigns {node.target.id} in the midst of an expression"


def _plainly_below(node: ast.expr) -> Iterator[ast.AST]:
    """The node and its parts, without those that run later or only sometimes."""
    yield node
    for each in ast.iter_child_nodes(node):
        if isinstance(each, ast.expr) and not isinstance(
            each,
            ast.Lambda | ast.IfExp | ast.GeneratorExp | ast.ListComp | ast.SetComp | ast.DictComp,
        ):
            yield from _plainly_below(each)
