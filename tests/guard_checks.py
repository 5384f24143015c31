"""What test_guard checks: sizes, import rules, no sleeping tests, no package registries, everything
explained.

Each check takes a Source and yields "file:line: what is wrong"; it reads nothing itself, so that
faults can be planted.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache, cached_property
from pathlib import Path

ROOT = Path(__file__).parents[1]
MAX_FUNCTION, MAX_FILE = 50, 300  # lines
TEXTS = {
    ".py",
    ".md",
    ".toml",
    ".txt",
    ".yml",
    ".yaml",
    ".cfg",
    ".html",
    ".css",
    ".js",
    ".mako",
    ".sh",
    ".lock",
    "",
}


@dataclass(frozen=True)
class Source:
    """One file: its path below the root, with slashes, and its text."""

    path: str
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        """The parsed module."""
        return ast.parse(self.text, self.path)

    def __str__(self) -> str:
        return self.path


@dataclass(frozen=True)
class Import:
    """One imported name, dotted in full; `typing` when it is there for the type checker only."""

    name: str
    line: int
    typing: bool

    def within(self, *packages: str) -> bool:
        """Whether it is one of these packages or inside one."""
        return any(
            self.name == package or self.name.startswith(f"{package}.") for package in packages
        )


def imports(source: Source) -> list[Import]:
    """Every import of a file; `from a import b` counts as a.b."""
    guarded = {
        id(inner)
        for node in ast.walk(source.tree)
        if isinstance(node, ast.If)
        and ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING")
        for statement in node.body
        for inner in ast.walk(statement)
    }
    found = []
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            package = ".".join(source.path.split("/")[: -node.level]) if node.level else ""
            module = ".".join(part for part in (package, node.module) if part)
            names = [f"{module}.{alias.name}" for alias in node.names]
        else:
            continue
        found += [Import(name, node.lineno, id(node) in guarded) for name in names]
    return found


def python_files(*folders: str) -> list[Source]:
    """Every Python file below these folders of the project."""
    paths = sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))
    return [_source(path) for path in paths]


@cache
def _source(path: Path) -> Source:
    """A file, read and parsed once for all checks."""
    return Source(path.relative_to(ROOT).as_posix(), path.read_text())


# Checks.


def too_long(source: Source) -> Iterator[str]:
    """Functions over 50 lines and files over 300."""
    lines = len(source.text.splitlines())
    if lines > MAX_FILE:
        yield f"{source}:{MAX_FILE + 1}: the file has {lines} lines, more than {MAX_FILE}"
    for node in ast.walk(source.tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            if length > MAX_FUNCTION:
                yield f"{source}:{node.lineno}: {node.name} has {length} lines, more than {MAX_FUNCTION}"


@dataclass(frozen=True)
class Rule:
    """Files (patterns) that may not import these packages, but for `allowed` ones, and why."""

    files: tuple[str, ...]
    banned: tuple[str, ...]
    why: str
    but: tuple[str, ...] = ()  # files the rule does not concern
    allowed: tuple[str, ...] = ()  # packages inside the banned ones
    typing: bool = False  # imports for the type checker are fine

    def broken(self, source: Source) -> Iterator[str]:
        """Each import of the file that the rule bans."""
        if not any(fnmatchcase(source.path, each) for each in self.files):
            return
        if any(fnmatchcase(source.path, each) for each in self.but):
            return
        for each in imports(source):
            if (
                each.within(*self.banned)
                and not each.within(*self.allowed)
                and not (self.typing and each.typing)
            ):
                yield f"{source}:{each.line}: imports {each.name}; {self.why}"


SLACK = ("slack_sdk", "slack_bolt")
SLACK_TOOLS = ("bot/tools/slack/tools.py", "bot/tools/slack_*.py")
RULES = (
    Rule(("storage/*",), ("bot",), "storage never looks back at the bot"),
    Rule(
        ("storage/*",),
        (*SLACK, "openai", "apscheduler"),
        "storage knows no Slack, OpenAI or scheduler",
    ),
    Rule(("bot/agent/*",), (*SLACK, "bot.slack"), "the agent knows no Slack client"),
    Rule(
        ("bot/tools/*",),
        ("bot.slack", "bot.agent", "openai"),
        "tools know neither Slack's edge nor the model's",
    ),
    Rule(("bot/tools/*",), SLACK, "tools know no Slack client", but=SLACK_TOOLS),
    Rule(
        SLACK_TOOLS,
        SLACK,
        "Slack tools are handed a client",
        allowed=("slack_sdk.errors",),
        typing=True,
    ),
    Rule(("bot/slack/*",), ("openai", "bot.agent.planner"), "Slack's edge knows no OpenAI"),
    Rule(
        ("*",),
        ("bot.sandbox",),
        "the sandbox is for its two commands and tests",
        ("bot/cli/demo.py", "bot/cli/sandbox.py", "bot/sandbox/*", "tests/*"),
    ),
    Rule(
        ("*",),
        ("bot.app",),
        "only the entry points build it all",
        ("bot/cli/run.py", "bot/sandbox/*", "tests/*"),
    ),
)


def forbidden_imports(source: Source) -> Iterator[str]:
    """Imports against the arrows of the design."""
    for rule in RULES:
        yield from rule.broken(source)


SLACK_EDGE = (*SLACK, *(f"bot.slack.{name}" for name in ("listeners", "outbox", "directory")))
MODEL_EDGE = ("openai", "bot.agent.planner")


def imports_everything(source: Source) -> Iterator[str]:
    """A second composition root: a file of the product, other than bot/app.py, that knows both
    edges to the world.
    """
    there = [each for each in imports(source) if not each.typing]
    if source.path != "bot/app.py" and all(
        any(each.within(*edge) for each in there) for edge in (SLACK_EDGE, MODEL_EDGE)
    ):
        yield f"{source}:1: imports Slack's edge and the model's; only bot/app.py puts everything together"


PURE = (
    "bot/messages/cards/card.py",
    "bot/messages/forms/form.py",
    "bot/messages/text.py",
    "bot/policy/evaluate.py",
    "bot/policy/gates.py",
    "bot/policy/rules.py",
    "bot/policy/conditions/condition.py",
    "storage/states.py",
)
PURE_IF_THERE = ("bot/slack/home.py",)
_IO = "sqlalchemy sqlmodel sqlite3 openai requests httpx apscheduler socket threading os time subprocess asyncio logging"
IO = (*SLACK, *_IO.split(), "random", "secrets")
ASKS = {"now", "utcnow", "today", "open", "read_text", "write_text"}


def impure(source: Source) -> Iterator[str]:
    """I/O modules, the clock or the file system in a file that should be pure."""
    for each in imports(source):
        if each.within(*IO):
            yield f"{source}:{each.line}: imports {each.name}; this file is pure, or a pure one needs it"
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Call):
            name = (
                node.func.attr
                if isinstance(node.func, ast.Attribute)
                else getattr(node.func, "id", "")
            )
            if name in ASKS:
                yield f"{source}:{node.lineno}: calls {name}(); this file is pure, or a pure one needs it"


def needed_by(paths: tuple[str, ...], files: dict[str, Source]) -> set[str]:
    """These files and every file of the project that importing them imports."""
    found: set[str] = set()
    waiting = list(paths)
    while waiting:
        path = waiting.pop()
        if path in found or path not in files:
            continue
        found.add(path)
        for each in imports(files[path]):
            parts = each.name.split(".")
            stems = ["/".join(parts[:length]) for length in range(1, len(parts) + 1)]
            waiting += [
                f"{stem}{end}"
                for stem in stems
                for end in (".py", "/__init__.py")
                if not each.typing
            ]
    return found


def sleeps(source: Source) -> Iterator[str]:
    """Tests that wait for time to pass."""
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] == "sleep":
            if [ast.unparse(each) for each in node.args] == ["0"]:
                continue  # lets other tasks run, takes no time
            yield f"{source}:{node.lineno}: sleeps; wait for what you wait for"


HOSTS = [
    "".join(parts)
    for parts in (
        ("pypi", ".org"),
        ("python", "hosted"),
        ("npm", "js."),
        ("yarn", "pkg.com"),
        ("crates", ".io"),
        ("ruby", "gems.org"),
        ("golang", ".org"),
        ("repo.maven", ".apache"),
        ("docker", ".io"),
        ("ghcr", ".io"),
        ("unpkg", ".com"),
        ("js", "delivr"),
        ("ana", "conda.org"),
    )
]


def registries(source: Source) -> Iterator[str]:
    """Host names of package registries, in any kind of text."""
    for number, line in enumerate(source.text.splitlines(), 1):
        for host in HOSTS:
            if host in line.lower():
                yield f"{source}:{number}: names the package registry {host}"


def unexplained(source: Source) -> Iterator[str]:
    """Silenced lint or type errors without a reason behind them."""
    for number, line in enumerate(source.text.splitlines(), 1):
        if re.search(r"#\s*(noqa(:\s*[A-Z0-9, ]+)?|type:\s*ignore(\[[\w, -]+\])?)\s*$", line):
            yield f"{source}:{number}: silences a check without a reason"


def without_sentence(source: Source) -> Iterator[str]:
    """Modules without a docstring, and tests without their sentence."""
    if source.text.strip() and not ast.get_docstring(source.tree):
        yield f"{source}:1: the module has no docstring"
    for node in ast.walk(source.tree):
        if (
            isinstance(node, ast.FunctionDef)
            and node.name.startswith("test_")
            and not ast.get_docstring(node)
        ):
            yield f"{source}:{node.lineno}: {node.name} has no sentence"
