"""The shape of the code, checked over the whole project; a breach has its file and line."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import partial

import pytest

from tests.guard.closed_sets import find_bare_strings, find_hand_made_button_values
from tests.guard.modules import (
    LONGEST_CHAIN,
    build_import_graph,
    find_file_access,
    find_longest_chain,
    find_wide_imports,
    list_modules_of_pure_code,
)
from tests.guard.sizes import find_formatting_by_hand, find_hidden_assignments, find_too_long
from tests.guard.sources import BENCH, PRODUCT, ROOT, TESTS, Source, read_python_files
from tests.guard.wiring import (
    MAY_MAKE,
    find_clocks,
    find_engines_that_log_values,
    find_patched_attributes,
    find_slack_sdk_imports,
    list_method_names,
)
from tests.guard.words import (
    find_missing_docstrings,
    find_package_registries,
    find_repeated_classes,
    find_short_test_names,
    find_sleeps,
    find_unexplained_ids,
    find_unexplained_suppressions,
    find_unknown_errors,
    find_unused_words,
    read_glossary,
)

STAND_INS = ("sandbox/slack_sandbox/", "bot/demo/")
TEXTS = {".py", ".md", ".toml", ".txt", ".yml", ".yaml", ".cfg", ".html", ".css", ".js", ".mako"}


def check_files(check: Callable[[Source], Iterator[str]], *folders: str) -> list[str]:
    """Run the check on every Python file below these folders."""
    files = read_python_files(*folders)
    assert len(files) > 5, "there was nothing to look at"
    return [breach for source in files for breach in check(source)]


def list_own_files() -> list[Source]:
    """The product's files without the local Slack and the demo, which stand in for others."""
    return [each for each in read_python_files(*PRODUCT) if not each.path.startswith(STAND_INS)]


def find_file_access_of_pure_code() -> list[str]:
    """Find file access in pure modules and in those they import."""
    needed = list_modules_of_pure_code()
    assert len(needed) > 20, "there was nothing to look at"
    return [
        breach
        for each in list_own_files()
        if get_module_name(each) in needed
        for breach in find_file_access(each)
    ]


def get_module_name(source: Source) -> str:
    """The name by which a file is imported."""
    path = source.path.removeprefix("client/").removeprefix("sandbox/").removesuffix(".py")
    return path.removesuffix("/__init__").replace("/", ".")


def find_patches() -> list[str]:
    """Find functions put into objects after they were made."""
    names = list_method_names(list_own_files())
    return [
        breach for source in list_own_files() for breach in find_patched_attributes(source, names)
    ]


EVERYWHERE = PRODUCT + TESTS + BENCH
CHECKS: dict[str, Callable[[], Iterable[str]]] = {
    "too_long": partial(check_files, find_too_long, *EVERYWHERE),
    "by_hand": partial(check_files, find_formatting_by_hand, *EVERYWHERE),
    "hidden_assignments": partial(check_files, find_hidden_assignments, *PRODUCT),
    "files_of_pure": find_file_access_of_pure_code,
    "bare_strings": partial(check_files, find_bare_strings, *PRODUCT),
    "values_by_hand": partial(check_files, find_hand_made_button_values, *PRODUCT),
    "patched": find_patches,
    "telling": partial(check_files, find_engines_that_log_values, *PRODUCT),
    "clocks": partial(check_files, find_clocks, *PRODUCT),
    "slack_clients": partial(check_files, find_slack_sdk_imports, *PRODUCT),
    "repeated_classes": lambda: find_repeated_classes(list_own_files()),
    "unknown_errors": lambda: find_unknown_errors(read_python_files(*PRODUCT)),
    "short_test_names": partial(check_files, find_short_test_names, *TESTS),
    "ids_of_elsewhere": partial(check_files, find_unexplained_ids, *TESTS),
    "sleeps": partial(check_files, find_sleeps, *TESTS),
    "unexplained": partial(check_files, find_unexplained_suppressions, *EVERYWHERE),
    "without_sentence": partial(check_files, find_missing_docstrings, *EVERYWHERE),
}


@pytest.mark.parametrize("check", CHECKS)
def test_no_file_breaks_the_rule(check: str) -> None:
    """No file breaks the rule."""
    breaches = list(CHECKS[check]())
    assert not breaches, "\n" + "\n".join(breaches)


def test_no_import_chain_is_too_long() -> None:
    """Readers follow imports through LONGEST_CHAIN files at most."""
    modules = map(get_module_name, list_own_files())
    chain = find_longest_chain(modules, build_import_graph().find_modules_directly_imported_by)
    assert len(chain) <= LONGEST_CHAIN, " → ".join(chain)
    assert len(chain) == LONGEST_CHAIN, f"it is {len(chain)} now: lower LONGEST_CHAIN"


def test_no_module_imports_too_many() -> None:
    """Somebody who reads a module has to know only so many others."""
    breaches = list(find_wide_imports(map(get_module_name, list_own_files())))
    assert not breaches, "\n".join(breaches)


def test_no_package_registry_is_named() -> None:
    """No text of the project has the host name of one."""
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
    breaches = [breach for source in sources for breach in find_package_registries(source)]
    assert not breaches, "\n" + "\n".join(breaches)


def test_the_code_uses_every_word_of_the_glossary() -> None:
    """Each word in the architecture is a name in the code, or part of one."""
    page = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    if not read_glossary(page):
        pytest.skip("the glossary is not written yet")
    assert list(find_unused_words(page, list_own_files())) == []


@pytest.mark.parametrize("path", sorted(MAY_MAKE))
def test_each_file_that_may_make_a_clock_does(path: str) -> None:
    """So that the list of exceptions only shrinks."""
    assert "SystemClock" in (ROOT / path).read_text("utf-8")
