"""What no import contract says: how far imports lead, and what pure files call."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator
from functools import cache

import grimp

from tests.guard.sources import Source

LONGEST_CHAIN = 17  # files
PACKAGES = ("bot", "storage", "countersign", "slack_sandbox")
PURE = ("bot.cards", "bot.policy", "storage.states", "countersign.durations")
FILES = {"open", "read_text", "write_text"}


@cache
def graph() -> grimp.ImportGraph:
    """The modules and what each imports when it runs."""
    return grimp.build_graph(*PACKAGES, exclude_type_checking_imports=True)


def longest_chain(modules: Iterable[str], imported: Callable[[str], set[str]]) -> list[str]:
    """The longest way along imports, from its beginning; they lead in no circle."""
    among = set(modules)

    @cache
    def chain(module: str) -> list[str]:
        return [module, *max(map(chain, sorted(imported(module) & among)), key=len, default=[])]

    return max(map(chain, among), key=len)


def needed_when_pure() -> set[str]:
    """The pure modules and every one that they import, by whatever way."""
    found = graph()
    pure = {each for root in PURE for each in {root, *found.find_descendants(root)}}
    return pure.union(*map(found.find_upstream_modules, pure))


def opens_files(source: Source) -> Iterator[str]:
    """Calls that read or write a file."""
    for node in source.nodes:
        if isinstance(node, ast.Call):
            name = ast.unparse(node.func).rpartition(".")[2]
            if name in FILES:
                yield f"{source}:{node.lineno}: calls {name}(); a pure file needs this one"
