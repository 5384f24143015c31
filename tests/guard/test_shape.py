"""The shape of the code, over the whole project: each breach is named with its file and line."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import partial

import pytest

from tests.guard import allowed
from tests.guard.arrows import (
    LONGEST_CHAIN,
    against_the_arrows,
    circles,
    forbidden_imports,
    imports_everything,
    longest_chain,
    module_graph,
    package_graph,
)
from tests.guard.clocks import MAY_ASK, MAY_MAKE, wall_clock
from tests.guard.closed_sets import bare_strings, values_by_hand
from tests.guard.purity import impure, needed_by, pure
from tests.guard.sizes import by_hand, hidden_assignments, too_long
from tests.guard.sources import BENCH, PRODUCT, ROOT, TESTS, Source, by_path, python_files
from tests.guard.wiring import methods, patched, telling
from tests.guard.words import (
    glossary,
    ids_of_elsewhere,
    registries,
    repeated_classes,
    short_test_names,
    sleeps,
    unexplained,
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


def impurities() -> list[str]:
    """What is impure in a pure file or in what it imports."""
    files = by_path(*python_files(*PRODUCT))
    roots = [path for path in files if pure(path)]
    assert len(roots) > 20, "there was nothing to look at"
    return [each for path in sorted(needed_by(roots, files)) for each in impure(files[path])]


def patches() -> list[str]:
    """What is put into objects after they were made."""
    names = methods(own_files())
    return [breach for source in own_files() for breach in patched(source, names)]


EVERYWHERE = PRODUCT + TESTS + BENCH
CHECKS: dict[str, Callable[[], Iterable[str]]] = {
    "too_long": partial(each_of, too_long, *EVERYWHERE),
    "by_hand": partial(each_of, by_hand, *EVERYWHERE),
    "hidden_assignments": partial(each_of, hidden_assignments, *PRODUCT),
    "against_the_arrows": partial(each_of, against_the_arrows, *PRODUCT),
    "forbidden_imports": partial(each_of, forbidden_imports, *PRODUCT, *TESTS),
    "imports_everything": partial(each_of, imports_everything, *PRODUCT),
    "impure": impurities,
    "bare_strings": partial(each_of, bare_strings, *PRODUCT),
    "values_by_hand": partial(each_of, values_by_hand, *PRODUCT),
    "patched": patches,
    "telling": partial(each_of, telling, *PRODUCT),
    "wall_clock": partial(each_of, wall_clock, *PRODUCT),
    "repeated_classes": lambda: repeated_classes(own_files()),
    "short_test_names": partial(each_of, short_test_names, *TESTS),
    "ids_of_elsewhere": partial(each_of, ids_of_elsewhere, *TESTS),
    "sleeps": partial(each_of, sleeps, *TESTS),
    "unexplained": partial(each_of, unexplained, *EVERYWHERE),
    "without_sentence": partial(each_of, without_sentence, *EVERYWHERE),
}


@pytest.mark.parametrize("check", CHECKS)
def test_the_code_keeps_its_shape(check: str) -> None:
    """Sizes, arrows, closed sets, names: no file breaks a rule, but for those that are known to."""
    known = allowed.FILES.get(check, set())
    breaches = [each for each in CHECKS[check]() if each.split(":")[0] not in known]
    assert not breaches, "\n" + "\n".join(breaches)


@pytest.mark.parametrize("check", allowed.FILES)
def test_the_known_breaches_only_shrink(check: str) -> None:
    """A file on the list of known breaches still has one; else it has to leave the list."""
    still = {each.split(":")[0] for each in CHECKS[check]()}
    assert sorted(allowed.FILES[check] - still) == [], "take these out of known.txt"


def test_no_modules_import_in_a_circle() -> None:
    """No file imports, by whatever way, a file that imports it."""
    assert circles(module_graph(by_path(*python_files(*PRODUCT)))) == []


def test_no_packages_import_in_a_circle() -> None:
    """No package needs one that needs it, sub-packages counted each for itself."""
    found = circles(package_graph(by_path(*python_files(*PRODUCT))))
    assert [
        each for each in found if not any(known.issuperset(each) for known in allowed.CIRCLES)
    ] == []
    for known in allowed.CIRCLES:
        assert any(known.issuperset(each) for each in found), f"take {sorted(known)} off the list"


def test_no_import_chain_is_too_long() -> None:
    """Nobody has to follow imports through more than twelve files."""
    chain = longest_chain(module_graph(by_path(*own_files())))
    assert len(chain) <= max(LONGEST_CHAIN, allowed.CHAIN), " → ".join(chain)
    assert len(chain) >= allowed.CHAIN, f"known.txt says {allowed.CHAIN}, it is {len(chain)} now"


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


@pytest.mark.parametrize("path", sorted(MAY_ASK | MAY_MAKE))
def test_nobody_asks_the_machine_for_the_time_without_need(path: str) -> None:
    """Whatever may ask for the machine's time does: the lists of them only shrink."""
    text = (ROOT / path).read_text("utf-8")
    asks = "datetime.now(" in text or "time.time(" in text
    assert asks if path in MAY_ASK else "SystemClock" in text
