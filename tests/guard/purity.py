"""Files that do no I/O, and all that they import."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase

from tests.guard.arrows import SLACK, module_graph
from tests.guard.sources import Source, imports

PURE = ("bot/cards/*", "bot/policy/*", "client/countersign/durations.py", "storage/states.py")
NOT_PURE = ("bot/policy/authority.py",)  # looks people up, and remembers for a while
_IO = "sqlalchemy sqlmodel sqlite3 openai requests httpx apscheduler socket threading os time"
IO = (*SLACK, *_IO.split(), "subprocess", "asyncio", "logging", "random", "secrets")
ASKS = {"now", "utcnow", "today", "open", "read_text", "write_text"}


def pure(path: str) -> bool:
    """Whether this file is to be pure."""
    return any(fnmatchcase(path, each) for each in PURE) and path not in NOT_PURE


def impure(source: Source) -> Iterator[str]:
    """I/O modules, the clock or the file system in a file that should be pure."""
    why = "this file is pure, or a pure one needs it"
    for each in imports(source):
        if each.within(*IO) and not each.typing:
            yield f"{source}:{each.line}: imports {each.name}; {why}"
    for node in source.nodes:
        if isinstance(node, ast.Call):
            called = node.func
            name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
            if name in ASKS:
                yield f"{source}:{node.lineno}: calls {name}(); {why}"


def needed_by(paths: list[str], files: Mapping[str, Source]) -> set[str]:
    """These files and every file of the project that importing them imports."""
    graph = module_graph(files)
    found: set[str] = set()
    waiting = list(paths)
    while waiting:
        path = waiting.pop()
        if path not in found:
            found.add(path)
            waiting += graph[path]
    return found
