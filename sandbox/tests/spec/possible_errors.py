"""Which of Slack's error codes the code of a Web API method can raise, found by reading the code.

It follows every call into slack_sandbox and collects the codes that stand there as strings, so it
finds rather too many than too few. A default of a parameter counts where a call leaves it out.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Iterator
from functools import cache
from types import FunctionType, ModuleType
from typing import Any

from slack_sandbox.spec.facts import ERRORS
from slack_sandbox.web_api.arguments import Args
from slack_sandbox.workspace.state import World

CODES = frozenset(code for codes in ERRORS.values() for code in codes)
# what the variables of these names are, everywhere in the sandbox
KNOWN_AS = {"world": World, "args": Args}


def raised_by(method: Callable[..., Any]) -> set[str]:
    """All codes in the functions that are reached from `method`."""
    todo: list[FunctionType] = [inspect.unwrap(method)]  # type: ignore[list-item]  # methods are plain functions
    done: set[FunctionType] = set()
    codes: set[str] = set()
    while todo:
        function = todo.pop()
        if function in done:
            continue
        done.add(function)
        found, called = _read(function)
        codes |= found
        todo += called
    return codes


@cache
def _read(function: FunctionType) -> tuple[frozenset[str], frozenset[FunctionType]]:
    """The codes in one function, those that it leaves to defaults, and the functions it names."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(function))).body[0]
    assert isinstance(tree, ast.FunctionDef)
    codes: set[str] = set()
    named: set[FunctionType] = set()
    for statement in tree.body:
        for node in _may_be_raised(statement):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                codes |= {node.value} & CODES
            if isinstance(node, ast.Name | ast.Attribute) and (target := _target(function, node)):
                named.add(target)
            if isinstance(node, ast.Call) and (target := _target(function, node.func)):
                codes |= _defaults(target, node) & CODES
    return frozenset(codes), frozenset(named)


def _may_be_raised(node: ast.AST) -> Iterator[ast.AST]:
    """The node and all below it but compared strings, and strings and lists in dicts (answers)."""
    yield node
    for child in ast.iter_child_nodes(node):
        if isinstance(node, ast.Dict | ast.Compare) and isinstance(child, ast.Constant | ast.List):
            continue
        yield from _may_be_raised(child)


def _target(function: FunctionType, node: ast.expr) -> FunctionType | None:
    """The function of slack_sandbox that an expression names, or None."""
    found: Any = None
    code = function.__code__
    if isinstance(node, ast.Name) and node.id not in code.co_varnames + code.co_cellvars:
        found = function.__globals__.get(node.id)
    elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        owner = function.__globals__.get(node.value.id, KNOWN_AS.get(node.value.id))
        if isinstance(owner, ModuleType | type):
            found = inspect.getattr_static(owner, node.attr, None)
    found = getattr(found, "fget", None) or found
    return (
        found
        if isinstance(found, FunctionType) and found.__module__.startswith("slack_sandbox")
        else None
    )


def _defaults(target: FunctionType, call: ast.Call) -> set[str]:
    """The strings that the parameters left out by this call have by default."""
    bound = isinstance(call.func, ast.Attribute) and call.func.attr in vars(World) | vars(Args)
    names = list(inspect.signature(target).parameters.values())[1 if bound else 0 :]
    given = {each.arg for each in call.keywords}
    left = [
        each
        for number, each in enumerate(names)
        if number >= len(call.args) and each.name not in given
    ]
    return {each.default for each in left if isinstance(each.default, str)}
