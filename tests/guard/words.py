"""Names and docstrings: enough words, one meaning each, reasons for silenced checks."""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Iterable, Iterator

from tests.guard.sources import Source

TEST_WORDS = 3  # after "test_"
SLOW_ON_PURPOSE = "tests/model_stand_in/"  # a server that can be told to answer slowly


def find_short_test_names(source: Source) -> Iterator[str]:
    """Find tests with a name of under three words, which states no behaviour."""
    for node in _tests(source):
        if len(node.name.removeprefix("test_").split("_")) < TEST_WORDS:
            yield f"{source}:{node.lineno}: {node.name} says too little"


def _tests(source: Source) -> list[ast.FunctionDef]:
    functions = [node for node in source.nodes if isinstance(node, ast.FunctionDef)]
    return [node for node in functions if node.name.startswith("test_")]


def find_unexplained_ids(source: Source) -> Iterator[str]:
    """Find docstrings of tests with an id of some list: a capital letter and two digits."""
    for node in source.nodes:
        if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Module):
            text = ast.get_docstring(node) or ""
            if found := re.search(r"\b[A-Z]\d\d\b", text):
                line = getattr(node, "lineno", 1)
                yield f"{source}:{line}: {found[0]} is explained nowhere; say it in words"


def find_missing_docstrings(source: Source) -> Iterator[str]:
    """Find modules and tests without a docstring."""
    if source.text.strip() and not ast.get_docstring(source.tree):
        yield f"{source}:1: the module has no docstring"
    for node in _tests(source):
        if not ast.get_docstring(node):
            yield f"{source}:{node.lineno}: {node.name} has no sentence"


def find_unknown_errors(sources: Iterable[Source]) -> Iterator[str]:
    """Find errors that a docstring names and no code defines, as after a renaming."""
    read = list(sources)
    nodes = [node for source in read for node in source.nodes]
    known = {*dir(builtins), *(node.name for node in nodes if isinstance(node, ast.ClassDef))}
    known |= {node.attr for node in nodes if isinstance(node, ast.Attribute)}
    known |= {node.name.rpartition(".")[2] for node in nodes if isinstance(node, ast.alias)}
    for source in read:
        for node in source.nodes:
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                named = re.findall(
                    r"\b[A-Z]\w+(?:Error|Exception)\b", ast.get_docstring(node) or ""
                )
                for each in {*named} - known:
                    yield f"{source}:{getattr(node, 'lineno', 1)}: there is no {each}"


def find_repeated_classes(sources: Iterable[Source]) -> Iterator[str]:
    """Find classes with the name of another class."""
    first: dict[str, str] = {}
    for source in sources:
        for node in source.tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                other = first.setdefault(node.name, source.path)
                if other != source.path:
                    yield f"{source}:{node.lineno}: {node.name} is a class of {other} too"


def read_glossary(page: str) -> list[str]:
    """The words explained under `## Words`, in the first column of its table."""
    section = re.search(r"^## Words\n(.*?)(?=^## |\Z)", page, re.M | re.S)
    lines = section[1].splitlines() if section else []
    cells = [line.split("|")[1] for line in lines if line.startswith("|")]
    words = [word for cell in cells[2:] for word in re.split(r"[,/·]", cell)]
    return [word.strip(" *`").lower() for word in words if word.strip(" *`")]


def find_unused_words(page: str, sources: Iterable[Source]) -> Iterator[str]:
    """Find words of the glossary that no name in the code uses, alone or as a part."""
    text = "\n".join(source.text for source in sources)
    split = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|_", " ", " ".join(re.findall(r"\w+", text))).lower()
    used = set(split.split())
    for word in read_glossary(page):
        parts = word.split()
        if not all(part in used or f"{part}s" in used for part in parts):
            yield f"docs/architecture.md:1: {word!r} is explained, and no name in the code uses it"


_PARTS = "pypi .org|python hosted|npm js.|yarn pkg.com|crates .io|ruby gems.org|golang .org"
_MORE = "repo.maven .apache|docker .io|ghcr .io|unpkg .com|js delivr|ana conda.org"
HOSTS = [each.replace(" ", "") for each in f"{_PARTS}|{_MORE}".split("|")]


def find_package_registries(source: Source) -> Iterator[str]:
    """Find host names of package registries, in any kind of text."""
    for number, line in enumerate(source.text.splitlines(), 1):
        for host in HOSTS:
            if host in line.lower():
                yield f"{source}:{number}: names the package registry {host}"


def find_unexplained_suppressions(source: Source) -> Iterator[str]:
    """Find silenced lint or type errors without a reason behind them."""
    for number, line in enumerate(source.text.splitlines(), 1):
        if re.search(r"#\s*(noqa(:\s*[A-Z0-9, ]+)?|type:\s*ignore(\[[\w, -]+\])?)\s*$", line):
            yield f"{source}:{number}: silences a check without a reason"


def find_sleeps(source: Source) -> Iterator[str]:
    """Find tests that wait for time to pass."""
    if source.path.startswith(SLOW_ON_PURPOSE):
        return
    for node in source.nodes:
        if isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] == "sleep":
            if [ast.unparse(each) for each in node.args] == ["0"]:
                continue  # only lets other tasks run
            yield f"{source}:{node.lineno}: sleeps; wait for what you wait for"
