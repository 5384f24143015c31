"""Faults planted for the checks of many files at once: circles, chains, folders, names."""

from __future__ import annotations

from tests.guard.arrows import circles, longest_chain, module_graph, package_graph
from tests.guard.purity import needed_by, pure
from tests.guard.sources import Source, by_path
from tests.guard.wiring import methods
from tests.guard.words import glossary, repeated_classes, unused_words

GUARDED = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import {}\n"


def project(**texts: str) -> dict[str, Source]:
    """Files of a project that is not there; `a__b` stands for a/b.py."""
    paths = {name.replace("__", "/") + ".py": text for name, text in texts.items()}
    return by_path(*(Source(path, text) for path, text in paths.items()))


def test_a_circle_of_modules_is_named() -> None:
    """Files that import one another are found, however many lie between them."""
    files = project(a="import b", b="from c import x", c="def f():\n    import a", d="import a")
    assert circles(module_graph(files)) == [["a.py", "b.py", "c.py"]]


def test_a_circle_for_types_alone_passes() -> None:
    """An import for the type checker does not run, and closes no circle."""
    assert circles(module_graph(project(a="import b", b=GUARDED.format("a")))) == []


def test_a_circle_of_packages_is_named() -> None:
    """Two packages that need one another are found, though none of their files does."""
    files = project(
        bot__tools__runner="from bot.tools.shop.data import x",
        bot__tools__shop__data="",
        bot__tools__shop__tools="from bot.tools.tables import y",
        bot__tools__tables="",
    )
    assert circles(module_graph(files)) == []
    assert circles(package_graph(files)) == [["bot/tools", "bot/tools/shop"]]


def test_files_right_in_bot_are_packages_of_their_own() -> None:
    """That all needs the clock and the application needs all makes no circle of bot itself."""
    files = project(
        bot__clock="", bot__runs__loop="import bot.clock", bot__app="import bot.runs.loop"
    )
    assert circles(package_graph(files)) == []


def test_the_longest_chain_is_told() -> None:
    """Of all ways along imports the longest is told; imports for types do not count."""
    files = project(a="import b, c", b="import c", c="from d import x", d=GUARDED.format("e"), e="")
    assert longest_chain(module_graph(files)) == ["a.py", "b.py", "c.py", "d.py"]


def test_a_repeated_class_is_named() -> None:
    """Two classes of one name are told, those of one file's own (`_Name`) are not."""
    files = project(a="class Plan: ...\nclass _Own: ...", b="\nclass Plan: ...\nclass _Own: ...")
    assert list(repeated_classes(files.values())) == ["b.py:2: Plan is a class of a.py too"]


def test_purity_is_followed_through_imports() -> None:
    """A file that a pure file imports is held to the same rule, however it is imported."""
    files = project(
        bot__policy__rules="from bot import helper",
        bot__helper="import bot.cards.slack_text",
        bot__cards__slack_text=GUARDED.format("bot.clock"),
        bot__clock="",
    )
    needed = {"bot/policy/rules.py", "bot/helper.py", "bot/cards/slack_text.py"}
    assert needed_by(["bot/policy/rules.py"], files) == needed


def test_pure_are_messages_and_policy() -> None:
    """Messages, policy, states and durations are pure; who may decide has to be looked up."""
    paths = ("bot/cards/edit_form.py", "bot/policy/rules.py", "storage/states.py")
    assert all(map(pure, (*paths, "client/countersign/durations.py")))
    assert not any(map(pure, ("bot/policy/authority.py", "bot/runs/loop.py")))


def test_properties_are_no_methods() -> None:
    """Only what can be called counts as put into another object."""
    text = "class A:\n    @property\n    def at(self): ...\n    def wake(self): ...\n"
    assert methods([Source("a.py", text)]) == {"wake"}


PAGE = """## Words

| word | meaning |
|---|---|
| **inbox** | what was delivered |
| run plan | two words |
| `requester` / `oracle` | people |

## Next
| other | table |
"""


def test_the_glossary_is_read() -> None:
    """Its words are the first column of the table under its heading, without their marks."""
    assert glossary(PAGE) == ["inbox", "run plan", "requester", "oracle"]
    assert glossary("# No such heading") == []


def test_a_word_that_no_name_uses_is_told() -> None:
    """A word counts as used when it is part of a name, in any spelling of names, or its plural."""
    code = Source("a.py", "class RunPlans: inbox_rows = the_requester\nclass PlanRun: ...")
    [breach] = unused_words(PAGE, [code])
    assert "'oracle' is explained, and no name" in breach
