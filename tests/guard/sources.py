"""The project's files for the checks: text, syntax, imports.

Checks take a Source and yield "file:line: what is wrong"; they read no files themselves, so that
faults can be planted.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

ROOT = Path(__file__).parents[2]
PRODUCT = ("bot", "storage", "client/countersign", "sandbox/slack_sandbox")
TESTS, BENCH = ("tests", "client/tests", "sandbox/tests"), ("bench",)


@dataclass(frozen=True)
class Source:
    """One file: its path below the root, with slashes, and its text."""

    path: str
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        """The parsed module."""
        return ast.parse(self.text, self.path)

    @cached_property
    def nodes(self) -> list[ast.AST]:
        """The whole tree, walked once."""
        return list(ast.walk(self.tree))

    def __str__(self) -> str:
        return self.path


@dataclass(frozen=True)
class Import:
    """One imported name, dotted in full; `typing` if only the type checker imports it."""

    name: str
    line: int
    typing: bool

    def within(self, *packages: str) -> bool:
        """Whether it is one of these packages or inside one."""
        return any(
            self.name == package or self.name.startswith(f"{package}.") for package in packages
        )


@cache
def list_imports(source: Source) -> tuple[Import, ...]:
    """Every import of a file; `from a import b` counts as a.b."""
    guarded = {
        id(inner)
        for node in source.nodes
        if isinstance(node, ast.If)
        and ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING")
        for statement in node.body
        for inner in ast.walk(statement)
    }
    found: list[Import] = []
    for node in source.nodes:
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            package = ".".join(source.path.split("/")[: -node.level]) if node.level else ""
            module = ".".join(part for part in (package, node.module) if part)
            names = [f"{module}.{alias.name}" for alias in node.names]
        else:
            continue
        found += [Import(name, node.lineno, id(node) in guarded) for name in names]
    return tuple(found)


@cache
def read_python_files(*folders: str) -> tuple[Source, ...]:
    """The project's Python files below these folders, each read and parsed once."""
    return tuple(each for folder in sorted(folders) for each in _below(folder))


@cache
def _below(folder: str) -> tuple[Source, ...]:
    return tuple(
        Source(path.relative_to(ROOT).as_posix(), path.read_text("utf-8"))
        for path in sorted((ROOT / folder).rglob("*.py"))
    )
