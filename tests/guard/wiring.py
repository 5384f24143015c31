"""An object gets what it uses when it is made: what it calls, a clock, a client."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from tests.guard.sources import Source, imports

MAY_MAKE = {  # clocks, and why
    "bot/clock.py": "it is the clock",
    "bot/signals.py": "the scheduler goes by the machine's clock; the loop also looks by itself",
}
OF_ITS_OWN = ("sandbox/slack_sandbox/", "bot/demo/")  # they have another clock
IN_SQL = ("CURRENT_TIMESTAMP", "strftime(", "unixepoch(", "datetime('now'")
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


def clocks(source: Source) -> Iterator[str]:
    """Clocks that are made where one is to be given, and statements that ask the database's."""
    if source.path.startswith(OF_ITS_OWN):
        return
    if source.path not in MAY_MAKE and not source.path.startswith(("bot/cli/", "bot/app.py")):
        for each in imports(source):
            if each.name == "bot.clock.SystemClock":
                yield f"{source}:{each.line}: makes a clock; it is to be given one"
    for node in source.nodes:
        is_record = source.path.startswith("storage/") and isinstance(node, ast.Constant)
        if is_record and any(each in str(node.value) for each in IN_SQL):
            yield f"{source}:{node.lineno}: a statement asks its database's clock"


def slack_clients(source: Source) -> Iterator[str]:
    """Slack tools that import more of its SDK than errors: they are handed a client."""
    for each in imports(source) if source.path.startswith("bot/tools/slack_") else ():
        if each.within("slack_sdk") and not each.within("slack_sdk.errors") and not each.typing:
            yield f"{source}:{each.line}: imports {each.name}; Slack tools are handed a client"
