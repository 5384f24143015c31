"""Nothing is patched: an object gets what it calls when it is made, an engine its discretion."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from tests.guard.sources import Source

HOOKS = {"row_factory", "text_factory"}  # a library's way to be told, after it made the object


def methods(sources: Iterable[Source]) -> frozenset[str]:
    """The names of all methods of the project's classes; properties are values, not methods."""
    return frozenset(
        each.name
        for source in sources
        for node in source.nodes
        if isinstance(node, ast.ClassDef)
        for each in node.body
        if isinstance(each, ast.FunctionDef)
        and not any("property" in ast.unparse(mark) for mark in each.decorator_list)
    )


def patched(source: Source, names: frozenset[str]) -> Iterator[str]:
    """Functions put into another object's attribute: a method, a lambda or a partial.

    What one object is told by its own attribute (`self.x = …`) is its own affair.
    """
    for node in source.nodes:
        if not isinstance(node, ast.Assign) or not _is_function(node.value, names):
            continue
        for target in node.targets:
            if not isinstance(target, ast.Attribute) or target.attr in HOOKS:
                continue
            if ast.unparse(target.value) != "self":
                yield f"{source}:{node.lineno}: patches {ast.unparse(target)} after construction"


def _is_function(value: ast.expr, names: frozenset[str]) -> bool:
    match value:
        case ast.Lambda() | ast.Call(func=ast.Name(id="partial")):
            return True
        case ast.Attribute(attr=name):
            return name in names
    return False


def telling(source: Source) -> Iterator[str]:
    """Engines whose errors would tell the values of a statement, in the log and elsewhere."""
    for node in source.nodes:
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("create_engine"):
            given = {each.arg: ast.unparse(each.value) for each in node.keywords}
            if given.get("hide_parameters") != "True":
                yield f"{source}:{node.lineno}: an engine without hide_parameters=True"
