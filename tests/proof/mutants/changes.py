"""The small changes that a module is tried with: one comparison, condition, constant or call each.

Annotations, docstrings, log lines and texts of errors stay as they are.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

COMPARED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
COMBINED: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
}
QUIET = ("log", "logging")


@dataclass(frozen=True)
class Change:
    """One change to one module."""

    path: str
    line: int
    top: int  # the number of the module's statement that it is in
    what: str
    tree: ast.Module


def list_changes(path: Path, root: Path) -> Iterator[Change]:
    """Every change to the module at `path`."""
    source = path.read_text("utf-8")
    tree = ast.parse(source)
    for number, statement in enumerate(tree.body):
        for at, (node, _, what) in enumerate(_list_places(statement)):
            made = copy.deepcopy(tree)
            twin, edit, _ = next(islice(_list_places(made.body[number]), at, None))
            edit(twin)
            ast.fix_missing_locations(made)
            line = getattr(node, "lineno", 0)
            yield Change(str(path.relative_to(root)), line, number, what, made)


def _list_places(top: ast.AST) -> Iterator[tuple[ast.AST, Callable[[ast.AST], None], str]]:
    """Each node that can be changed, the function that changes it, and a description."""
    for node in _walk(top):
        match node:
            case ast.Compare(ops=ops):
                for number, op in enumerate(ops):
                    if other := COMPARED.get(type(op)):
                        yield (
                            node,
                            _replace_comparison(number, other),
                            f"{_get_name(op)} -> {other.__name__}",
                        )
            case ast.BoolOp(op=ast.And()):
                yield node, _set_attribute("op", ast.Or()), "and -> or"
            case ast.BoolOp(op=ast.Or()):
                yield node, _set_attribute("op", ast.And()), "or -> and"
            case ast.UnaryOp(op=ast.Not()):
                yield node, _remove_not, "not is gone"
            case ast.BinOp(op=op) if other_op := COMBINED.get(type(op)):
                yield (
                    node,
                    _set_attribute("op", other_op()),
                    f"{_get_name(op)} -> {other_op.__name__}",
                )
            case ast.Constant(value=bool() as value):
                yield node, _set_attribute("value", not value), f"{value} -> {not value}"
            case ast.Constant(value=int() as value):
                yield node, _set_attribute("value", value + 1), f"{value} -> {value + 1}"
            case ast.If(test=test) | ast.IfExp(test=test) if not _is_changed_elsewhere(test):
                yield node, _negate_test, "the condition is turned round"
            case ast.Set(elts=elements) if len(elements) > 1:
                for number, each in enumerate(elements):
                    yield node, _drop_member("elts", number), f"without {ast.unparse(each)}"
            case ast.Return(value=ast.expr() as value) if not _is_constant(value):
                yield node, _return_nothing, "returns None"


def _walk(top: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a statement, without annotations, docstrings and log lines."""
    yield top
    for name, value in ast.iter_fields(top):
        if name in ("annotation", "returns", "decorator_list", "bases"):
            continue
        for each in value if isinstance(value, list) else [value]:
            if isinstance(each, ast.AST) and not _is_quiet(each):
                yield from _walk(each)


def _is_quiet(node: ast.AST) -> bool:
    match node:
        case ast.Expr(value=ast.Constant()) | ast.Assert() | ast.Raise():
            return True
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id=name)))):
            return name in QUIET
        case _:
            return False


def _get_name(op: ast.AST) -> str:
    return type(op).__name__


def _is_changed_elsewhere(test: ast.expr) -> bool:
    """Whether another change already inverts this test."""
    return isinstance(test, ast.Compare) or (
        isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not)
    )


def _is_constant(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant)


def _replace_comparison(number: int, other: type[ast.cmpop]) -> Callable[[ast.AST], None]:
    def change(node: ast.AST) -> None:
        assert isinstance(node, ast.Compare)
        node.ops[number] = other()

    return change


def _set_attribute(name: str, value: object) -> Callable[[ast.AST], None]:
    def change(node: ast.AST) -> None:
        setattr(node, name, value)

    return change


def _drop_member(name: str, number: int) -> Callable[[ast.AST], None]:
    def change(node: ast.AST) -> None:
        del getattr(node, name)[number]

    return change


def _remove_not(node: ast.AST) -> None:
    assert isinstance(node, ast.UnaryOp)
    node.op, node.operand = ast.Not(), ast.UnaryOp(ast.Not(), node.operand)


def _negate_test(node: ast.AST) -> None:
    assert isinstance(node, ast.If | ast.IfExp)
    node.test = ast.UnaryOp(ast.Not(), node.test)


def _return_nothing(node: ast.AST) -> None:
    assert isinstance(node, ast.Return)
    node.value = ast.Constant(None)
