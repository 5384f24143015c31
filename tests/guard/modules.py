"""What no import contract checks: how far imports lead, and what pure files call."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator
from functools import cache

import grimp

from tests.guard.sources import Source

LONGEST_CHAIN = 17  # files
MAX_IMPORTS = 25  # of our own modules, by one
ASSEMBLING = {"bot.app", "bot.core"}  # they put all others together
PACKAGES = ("bot", "storage", "countersign", "slack_sandbox")
PURE = ("bot.cards", "bot.policy", "storage.states", "countersign.durations")
FILES = {"open", "read_text", "write_text"}


@cache
def build_import_graph() -> grimp.ImportGraph:
    """The modules and what each imports at run time."""
    return grimp.build_graph(*PACKAGES, exclude_type_checking_imports=True)


def find_longest_chain(modules: Iterable[str], imported: Callable[[str], set[str]]) -> list[str]:
    """The longest path along imports, from its beginning; imports have no cycles."""
    among = set(modules)

    @cache
    def chain(module: str) -> list[str]:
        return [module, *max(map(chain, sorted(imported(module) & among)), key=len, default=[])]

    return max(map(chain, among), key=len)


def find_wide_imports(modules: Iterable[str]) -> Iterator[str]:
    """Find modules that import more of these than MAX_IMPORTS, but for those that assemble all."""
    among = set(modules)
    for module in sorted(among - ASSEMBLING):
        imported = build_import_graph().find_modules_directly_imported_by(module) & among
        if len(imported) > MAX_IMPORTS:
            yield f"{module}: imports {len(imported)} modules, more than {MAX_IMPORTS}"


def list_modules_of_pure_code() -> set[str]:
    """The pure modules, and every module that they import directly or indirectly."""
    found = build_import_graph()
    pure = {each for root in PURE for each in {root, *found.find_descendants(root)}}
    return pure.union(*map(found.find_upstream_modules, pure))


def find_file_access(source: Source) -> Iterator[str]:
    """Find calls that read or write a file."""
    for node in source.nodes:
        if isinstance(node, ast.Call):
            name = ast.unparse(node.func).rpartition(".")[2]
            if name in FILES:
                yield f"{source}:{node.lineno}: calls {name}(); a pure file needs this one"
