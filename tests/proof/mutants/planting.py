"""Puts a change into the code of this process: functions get other code, constants other values.

Modules that imported one of them by name have the change as well.
"""

from __future__ import annotations

import ast
import gc
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from types import CodeType, FunctionType, ModuleType
from typing import Any

from pydantic import BaseModel

from tests.proof.mutants.changes import Change


def plant(change: Change, functions: Sequence[FunctionType] = ()) -> bool:
    """Put the change in place; False if it cannot be, so that it is no mutant.

    `functions`: those of the module, if they are known already.
    """
    module = sys.modules[change.path.removesuffix(".py").replace("/", ".")]
    statement = change.tree.body[change.top]
    whole = compile(change.tree, str(module.__file__), "exec")
    if isinstance(statement, ast.Assign | ast.AnnAssign):
        return _plant_in_constants(module, list_dependent_constants(change.tree, change.top))
    if not isinstance(statement, ast.FunctionDef | ast.ClassDef):
        return False
    known = functions or find_functions_in({str(module.__file__)})
    if _plant_in_functions(known, str(module.__file__), whole):
        return True
    return isinstance(statement, ast.ClassDef) and _plant_in_fields(module, change.tree, change.top)


def find_functions_in(files: Collection[str]) -> list[FunctionType]:
    """Every function whose code is in one of these files, whatever wraps or holds it."""
    gc.unfreeze()  # otherwise objects from before the tests are not listed
    found = [each for each in gc.get_objects() if isinstance(each, FunctionType)]
    return [each for each in found if each.__code__.co_filename in files]


def list_assigned_names(statement: ast.AST) -> set[str]:
    """The names that a statement assigns."""
    found = (each for each in ast.walk(statement) if isinstance(each, ast.Name))
    return {each.id for each in found if isinstance(each.ctx, ast.Store)}


def list_used_names(tree: ast.AST) -> set[str]:
    """The names that a piece of code uses."""
    return {each.id for each in ast.walk(tree) if isinstance(each, ast.Name)}


def list_dependent_constants(tree: ast.Module, top: int) -> list[ast.stmt]:
    """The statements of constants made from this constant (itself first) or class."""
    begun, found = tree.body[top], list[ast.stmt]()
    names = {begun.name} if isinstance(begun, ast.ClassDef) else list_assigned_names(begun)
    if not isinstance(begun, ast.ClassDef):
        found.append(begun)
    for each in tree.body[top + 1 :]:
        if isinstance(each, ast.Assign | ast.AnnAssign) and names & list_used_names(each):
            found.append(each)
            names |= list_assigned_names(each)
    return found


def _plant_in_functions(known: Iterable[FunctionType], name: str, whole: CodeType) -> bool:
    found = dict(_iterate_codes(whole))
    planted = False
    for each in known:
        code = each.__code__
        if code.co_filename != name:
            continue
        other = found.get((code.co_qualname, code.co_firstlineno))
        if other is not None and other.co_freevars == code.co_freevars and other != code:
            each.__code__ = other
            planted = True
    return planted


def _iterate_codes(code: CodeType) -> Iterator[tuple[tuple[str, int], CodeType]]:
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield (each.co_qualname, each.co_firstlineno), each
            yield from _iterate_codes(each)


def _plant_in_fields(module: ModuleType, tree: ast.Module, top: int) -> bool:
    """Give a Pydantic model its changed fields, and rebuild the models that contain it."""
    statement, space = tree.body[top], dict(vars(module))
    assert isinstance(statement, ast.ClassDef)
    old = space[statement.name]
    if not issubclass(old, BaseModel) or hasattr(old, "__table__"):
        return False
    exec(compile(ast.Module([statement], []), str(module.__file__), "exec"), space)
    new, known = space[statement.name].model_fields, old.model_fields
    changed = {name: field for name, field in new.items() if repr(field) != repr(known[name])}
    known.update(changed)
    for each in vars(module).values() if changed else ():
        if isinstance(each, type) and issubclass(each, BaseModel) and each is not BaseModel:
            each.model_rebuild(force=True)
    if changed and (made := list_dependent_constants(tree, top)):
        _plant_in_constants(module, made)
    return bool(changed)


def _plant_in_constants(module: ModuleType, statements: Sequence[ast.stmt]) -> bool:
    names = set().union(*(list_assigned_names(each) for each in statements)) & set(vars(module))
    before = {name: vars(module)[name] for name in names}
    exec(compile(ast.Module(list(statements), []), str(module.__file__), "exec"), vars(module))
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
