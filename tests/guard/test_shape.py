"""The shape of the code, over the whole project: each breach is named with its file and line."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import partial

import pytest

from tests.guard.closed_sets import bare_strings, values_by_hand
from tests.guard.modules import LONGEST_CHAIN, graph, longest_chain, needed_when_pure, opens_files
from tests.guard.sizes import by_hand, hidden_assignments, too_long
from tests.guard.sources import BENCH, PRODUCT, ROOT, TESTS, Source, python_files
from tests.guard.wiring import MAY_MAKE, clocks, methods, patched, slack_clients, telling
from tests.guard.words import (
    glossary,
    ids_of_elsewhere,
    registries,
    repeated_classes,
    short_test_names,
    sleeps,
    unexplained,
    unknown_errors,
    unused_words,
    without_sentence,
)

STAND_INS = ("sandbox/slack_sandbox/", "bot/demo/")
TEXTS = {".py", ".md", ".toml", ".txt", ".yml", ".yaml", ".cfg", ".html", ".css", ".js", ".mako"}


def each_of(check: Callable[[Source], Iterator[str]], *folders: str) -> list[str]:
    """What the check finds in every Python file below these folders."""
    files = python_files(*folders)
    assert len(files) > 5, "there was nothing to look at"
    return [breach for source in files for breach in check(source)]


def own_files() -> list[Source]:
    """The product's files without the local Slack and the demo, which stand for others."""
    return [each for each in python_files(*PRODUCT) if not each.path.startswith(STAND_INS)]


def files_of_pure() -> list[str]:
    """What opens files in a pure file or in what it imports."""
    needed = needed_when_pure()
    assert len(needed) > 20, "there was nothing to look at"
    return [
        breach for each in own_files() if module(each) in needed for breach in opens_files(each)
    ]


def module(source: Source) -> str:
    """The name by which a file is imported."""
    path = source.path.removeprefix("client/").removeprefix("sandbox/").removesuffix(".py")
    return path.removesuffix("/__init__").replace("/", ".")


def patches() -> list[str]:
    """What is put into objects after they were made."""
    names = methods(own_files())
    return [breach for source in own_files() for breach in patched(source, names)]


EVERYWHERE = PRODUCT + TESTS + BENCH
CHECKS: dict[str, Callable[[], Iterable[str]]] = {
    "too_long": partial(each_of, too_long, *EVERYWHERE),
    "by_hand": partial(each_of, by_hand, *EVERYWHERE),
    "hidden_assignments": partial(each_of, hidden_assignments, *PRODUCT),
    "files_of_pure": files_of_pure,
    "bare_strings": partial(each_of, bare_strings, *PRODUCT),
    "values_by_hand": partial(each_of, values_by_hand, *PRODUCT),
    "patched": patches,
    "telling": partial(each_of, telling, *PRODUCT),
    "clocks": partial(each_of, clocks, *PRODUCT),
    "slack_clients": partial(each_of, slack_clients, *PRODUCT),
    "repeated_classes": lambda: repeated_classes(own_files()),
    "unknown_errors": lambda: unknown_errors(python_files(*PRODUCT)),
    "short_test_names": partial(each_of, short_test_names, *TESTS),
    "ids_of_elsewhere": partial(each_of, ids_of_elsewhere, *TESTS),
    "sleeps": partial(each_of, sleeps, *TESTS),
    "unexplained": partial(each_of, unexplained, *EVERYWHERE),
    "without_sentence": partial(each_of, without_sentence, *EVERYWHERE),
}


@pytest.mark.parametrize("check", CHECKS)
def test_the_code_keeps_its_shape(check: str) -> None:
    """Sizes, closed sets, names: no file breaks a rule."""
    breaches = list(CHECKS[check]())
    assert not breaches, "\n" + "\n".join(breaches)


def test_no_import_chain_is_too_long() -> None:
    """Nobody has to follow imports through more files than today."""
    modules = map(module, own_files())
    chain = longest_chain(modules, graph().find_modules_directly_imported_by)
    assert len(chain) <= LONGEST_CHAIN, " → ".join(chain)
    assert len(chain) == LONGEST_CHAIN, f"it is {len(chain)} now: lower LONGEST_CHAIN"


def test_no_package_registry_is_named() -> None:
    """No text of the project names the host of a package registry."""
    hidden = re.compile(r"(^|/)(\.(?!ci/)[^/]*|build|var|[^/]*\.egg-info|__pycache__)(/|$)")
    tops = [path for path in ROOT.iterdir() if not hidden.search(path.name)]
    found = [path for top in [*tops, ROOT / ".ci" / "run"] for path in (top, *top.rglob("*"))]
    paths = [path for path in found if not hidden.search(path.relative_to(ROOT).as_posix())]
    texts = [
        path for path in paths if path.is_file() and path.suffix in {*TEXTS, ".sh", ".lock", ""}
    ]
    assert ROOT / "pyproject.toml" in texts
    sources = [
        Source(str(path.relative_to(ROOT)), path.read_text(errors="replace")) for path in texts
    ]
    breaches = [breach for source in sources for breach in registries(source)]
    assert not breaches, "\n" + "\n".join(breaches)


def test_the_glossary_is_what_the_code_says() -> None:
    """Each word that the architecture explains is a name, or a part of one, in the code."""
    page = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    if not glossary(page):
        pytest.skip("the glossary is not written yet")
    assert list(unused_words(page, own_files())) == []


@pytest.mark.parametrize("path", sorted(MAY_MAKE))
def test_nobody_makes_a_clock_without_need(path: str) -> None:
    """Whatever may make a clock does: the list only shrinks."""
    assert "SystemClock" in (ROOT / path).read_text("utf-8")
