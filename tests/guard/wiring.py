"""An object gets what it uses when it is made: functions to call, a clock, a client."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from tests.guard.sources import Source, list_imports

MAY_MAKE = {  # files that may make a clock, with the reason
    "bot/clock.py": "it is the clock",
    "bot/signals.py": "the scheduler goes by the machine's clock; the loop also looks by itself",
}
OF_ITS_OWN = ("sandbox/slack_sandbox/", "bot/demo/")  # with clocks of their own
IN_SQL = ("CURRENT_TIMESTAMP", "strftime(", "unixepoch(", "datetime('now'")
HOOKS = {"row_factory", "text_factory"}  # libraries set these after making the object


def list_method_names(sources: Iterable[Source]) -> frozenset[str]:
    """The names of all methods of the project's classes; properties count as values."""
    return frozenset(
        each.name
        for source in sources
        for node in source.nodes
        if isinstance(node, ast.ClassDef)
        for each in node.body
        if isinstance(each, ast.FunctionDef)
        and not any("property" in ast.unparse(mark) for mark in each.decorator_list)
    )


def find_patched_attributes(source: Source, names: frozenset[str]) -> Iterator[str]:
    """Find functions put into another object's attribute: a method, a lambda or a partial.

    An object may set its own attributes (`self.x = …`).
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


def find_engines_that_log_values(source: Source) -> Iterator[str]:
    """Find engines whose errors would show the values of a statement, in the log and elsewhere."""
    for node in source.nodes:
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("create_engine"):
            given = {each.arg: ast.unparse(each.value) for each in node.keywords}
            if given.get("hide_parameters") != "True":
                yield f"{source}:{node.lineno}: an engine without hide_parameters=True"


def find_clocks(source: Source) -> Iterator[str]:
    """Find clocks made where one is to be passed in, and statements that ask the database's."""
    if source.path.startswith(OF_ITS_OWN):
        return
    if source.path not in MAY_MAKE and not source.path.startswith(("bot/cli/", "bot/app.py")):
        for each in list_imports(source):
            if each.name == "bot.clock.SystemClock":
                yield f"{source}:{each.line}: makes a clock; it is to be given one"
    for node in source.nodes:
        is_record = source.path.startswith("storage/") and isinstance(node, ast.Constant)
        if is_record and any(each in str(node.value) for each in IN_SQL):
            yield f"{source}:{node.lineno}: a statement asks its database's clock"


def find_slack_sdk_imports(source: Source) -> Iterator[str]:
    """Find Slack tools that import more of the SDK than errors: a client is passed to them."""
    for each in list_imports(source) if source.path.startswith("bot/tools/slack_") else ():
        if each.within("slack_sdk") and not each.within("slack_sdk.errors") and not each.typing:
            yield f"{source}:{each.line}: imports {each.name}; Slack tools are handed a client"
