"""Puts a change into the code of this process: functions get other code, constants other values.

Whoever imported one of them by name has the change as well.
"""

from __future__ import annotations

import ast
import gc
import sys
from collections.abc import Iterator, Mapping
from types import CodeType, FunctionType, ModuleType
from typing import Any

from tests.proof.mutants.changes import Change


def plant(change: Change) -> bool:
    """Put it in place; False where it cannot be: then it is no mutant."""
    module = sys.modules[change.path.removesuffix(".py").replace("/", ".")]
    statement = change.tree.body[change.top]
    whole = compile(change.tree, str(module.__file__), "exec")
    if isinstance(statement, ast.FunctionDef | ast.ClassDef):
        return _functions(module, whole)
    if isinstance(statement, ast.Assign | ast.AnnAssign):
        return _constants(module, statement)
    return False


def _functions(module: ModuleType, whole: CodeType) -> bool:
    found = dict(_codes(whole))
    planted = False
    for each in _functions_of(module):
        code = each.__code__
        other = found.get((code.co_qualname, code.co_firstlineno))
        if other is not None and other.co_freevars == code.co_freevars and other != code:
            each.__code__ = other
            planted = True
    return planted


def _functions_of(module: ModuleType) -> Iterator[FunctionType]:
    """Every function whose code stands in the module, whatever wraps it or holds it."""
    name = str(module.__file__)
    gc.unfreeze()  # else what was there before the tests is not listed
    for each in gc.get_objects():
        if isinstance(each, FunctionType) and each.__code__.co_filename == name:
            yield each


def _codes(code: CodeType) -> Iterator[tuple[tuple[str, int], CodeType]]:
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield (each.co_qualname, each.co_firstlineno), each
            yield from _codes(each)


def _constants(module: ModuleType, statement: ast.Assign | ast.AnnAssign) -> bool:
    names = [statement.target] if isinstance(statement, ast.AnnAssign) else statement.targets
    before = {each.id: vars(module).get(each.id) for each in names if isinstance(each, ast.Name)}
    made = ast.Module([statement], [])
    exec(compile(made, str(module.__file__), "exec"), vars(module))
    for name, old in before.items():
        _replace(old, vars(module)[name])
    return bool(before)


def _replace(old: Any, new: Any) -> None:
    if isinstance(old, dict) and isinstance(new, Mapping):
        old.clear()
        old.update(new)
    if isinstance(old, bool | int | str | type(None)):
        return  # may be the same object by chance
    for module in list(sys.modules.values()):
        for name, value in list(getattr(module, "__dict__", {}).items()):
            if value is old:
                vars(module)[name] = new
