"""Faults planted for each check, and code that each check allows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import pytest

from tests.guard.closed_sets import find_bare_strings, find_hand_made_button_values
from tests.guard.modules import find_file_access, find_longest_chain, list_modules_of_pure_code
from tests.guard.sizes import find_formatting_by_hand, find_hidden_assignments, find_too_long
from tests.guard.sources import Source
from tests.guard.wiring import (
    find_clocks,
    find_engines_that_log_values,
    find_patched_attributes,
    find_slack_sdk_imports,
    list_method_names,
)
from tests.guard.words import (
    HOSTS,
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

Check = Callable[[Source], Iterator[str]]
LONG = "def work():\n" + "    x = 1\n" * 50
SLACK = "bot/tools/slack_tools.py"
RULES, LOOP, CARD = "bot/policy/rules.py", "bot/runs/loop.py", "bot/cards/card.py"
ROWS = "storage/outbox.py"
find_patched_wake = partial(find_patched_attributes, names=frozenset({"wake"}))

PLANTED: list[tuple[Check, str, str, str]] = [
    (find_too_long, LOOP, LONG, "1: work has 51 lines"),
    (find_too_long, LOOP, "x = 1\n" * 501, "501: the file has 501 lines"),
    (find_formatting_by_hand, LOOP, "x = 1  # fmt: " + "skip", "1: keeps the formatter out"),
    (find_hidden_assignments, LOOP, "x = (y := 1) + y", "1: assigns y"),
    (find_hidden_assignments, LOOP, "if any((y := x) for x in z): pass", "1: assigns y"),
    (find_hidden_assignments, LOOP, "x = y if (y := z) else 0", "1: assigns y"),
    (
        find_slack_sdk_imports,
        SLACK,
        "from slack_sdk import WebClient",
        "1: imports slack_sdk.WebClient",
    ),
    (find_file_access, RULES, "x = path.read_text()", "1: calls read_text()"),
    (
        find_engines_that_log_values,
        ROWS,
        "x = create_engine(url)",
        "1: an engine without hide_parameters",
    ),
    (find_clocks, LOOP, "from bot.clock import SystemClock", "1: makes a clock"),
    (find_clocks, ROWS, "x = 'SELECT CURRENT_TIMESTAMP'", "1: a statement asks"),
    (find_bare_strings, ROWS, 'row.status = "sent"', "1: \"row.status = 'sent'\" uses a bare"),
    (find_bare_strings, ROWS, 'if row.kind in ("card", "file"): pass', "1: \"row.kind in ('card',"),
    (
        find_bare_strings,
        ROWS,
        'where(col(Message.status) == "sent")',
        '1: "col(Message.status) == ',
    ),
    (find_bare_strings, ROWS, 'change(tx, row, status="sent")', "1: status= takes a bare string"),
    (find_bare_strings, ROWS, 'match row.kind:\n    case "a": pass', '1: "match row.kind'),
    (find_hand_made_button_values, LOOP, 'a, _, b = value.partition(":")', "1: cuts a value"),
    (
        find_hand_made_button_values,
        CARD,
        'value = f"{call.id}:{call.revision}"',
        "1: puts a value together",
    ),
    (find_hand_made_button_values, CARD, 'x = {"action_id": "approve"}', "1: a literal action id"),
    (find_hand_made_button_values, CARD, 'button("approve", "Approve")', "1: a literal action id"),
    (
        find_hand_made_button_values,
        LOOP,
        'x = action["action_id"] == "more"',
        "1: a literal action id",
    ),
    (find_patched_wake, LOOP, "self.core.wake = self.loop.wake", "1: patches self.core.wake"),
    (find_patched_wake, LOOP, "core.calm = lambda: None", "1: patches core.calm"),
    (find_short_test_names, "tests/a.py", "def test_two_words(): pass", "1: test_two_words says"),
    (
        find_unexplained_ids,
        "tests/a.py",
        'def f():\n    """No (Q17)."""',
        "1: Q17 is explained nowhere",
    ),
    (find_sleeps, "tests/a.py", "import time\ntime.sleep(1)", "2: sleeps"),
    (find_package_registries, "README.md", f"see {HOSTS[0]}", "1: names the package registry"),
    (find_unexplained_suppressions, LOOP, "x = 1  # noqa" + ": S101", "1: silences"),
    (
        find_missing_docstrings,
        "tests/a.py",
        "def test_a():\n    pass",
        "1: the module has no docstring",
    ),
    (
        find_missing_docstrings,
        "tests/a.py",
        '"""A."""\ndef test_a():\n    pass',
        "2: test_a has no",
    ),
]


@pytest.mark.parametrize(("check", "path", "text", "breach"), PLANTED)
def test_a_planted_fault_is_reported(check: Check, path: str, text: str, breach: str) -> None:
    """Each check reports the file and line of what it forbids."""
    [first, *_] = check(Source(path, text))
    assert first.startswith(f"{path}:{breach}")


ALLOWED: list[tuple[Check, str, str]] = [
    (find_too_long, LOOP, LONG.removesuffix("    x = 1\n")),
    (find_too_long, LOOP, "x = 1\n" * 500),
    (find_hidden_assignments, LOOP, "if y := x: pass\nelif (z := x) and z > 1: pass"),
    (find_hidden_assignments, LOOP, "while (line := read()) is not None: pass"),
    (find_slack_sdk_imports, SLACK, "if TYPE_CHECKING:\n    from slack_sdk import WebClient"),
    (find_slack_sdk_imports, SLACK, "from slack_sdk.errors import SlackApiError"),
    (find_bare_strings, ROWS, "row.status = MessageStatus.SENT"),
    (find_bare_strings, ROWS, 'if row.status == "": pass'),
    (find_bare_strings, "bot/tools/database/preview.py", 'x = statement.verb == "insert"'),
    (find_hand_made_button_values, "bot/cards/button_codec.py", 'a, _, b = value.partition(":")'),
    (find_hand_made_button_values, LOOP, 'target = row.key.rpartition(":")[2]'),
    (find_hand_made_button_values, LOOP, 'key = f"{call.id}:{call.revision}"'),
    (find_hand_made_button_values, CARD, "button(Action.APPROVE, label)"),
    (find_patched_wake, LOOP, "self.wake = loop.wake"),
    (find_patched_wake, LOOP, "core.policy = loaded.policy"),
    (find_patched_wake, LOOP, "connection.row_factory = lambda cursor, row: row"),
    (find_short_test_names, "tests/a.py", "def test_three_plain_words(): pass"),
    (find_unexplained_ids, "tests/a.py", '"""The channel C0SUPPORT, HTTP 503."""'),
    (find_unexplained_suppressions, LOOP, "x = 1  # noqa: S101  # nobody sees it"),
    (find_sleeps, "tests/a.py", "await asyncio.sleep(0)"),
]


@pytest.mark.parametrize(("check", "path", "text"), ALLOWED)
def test_allowed_code_passes(check: Check, path: str, text: str) -> None:
    """Each row is close to something forbidden."""
    assert list(check(Source(path, text))) == []


def test_the_longest_chain_of_imports_is_found() -> None:
    """Among the modules asked about, whatever else they import."""
    imports = {"a": {"b", "c"}, "b": {"c"}, "c": {"d", "z"}, "d": set[str]()}
    assert find_longest_chain(imports, imports.__getitem__) == ["a", "b", "c", "d"]


def test_modules_that_pure_code_imports_count_as_pure() -> None:
    """So that the same rule holds for what a pure module imports."""
    needed = list_modules_of_pure_code()
    assert {"bot.cards.edit_form", "bot.policy.rules", "storage.states", "bot.toml_file"} <= needed
    assert "bot.runs.loop" not in needed


def test_a_repeated_class_name_is_reported() -> None:
    """A private class (`_Name`) may repeat a name."""
    text = "class Plan: ...\nclass _Own: ..."
    assert list(find_repeated_classes([Source("a.py", text), Source("b.py", f"\n{text}")])) == [
        "b.py:2: Plan is a class of a.py too"
    ]


def test_a_docstring_naming_an_unknown_error_is_reported() -> None:
    """The error has to be defined in some file or by Python."""
    text = '"""Raises OldError, NewError or OSError."""\nclass NewError(ValueError): ...\n'
    assert list(find_unknown_errors([Source("a.py", text)])) == ["a.py:1: there is no OldError"]


def test_properties_do_not_count_as_methods() -> None:
    """Only what can be called counts as patched into another object."""
    text = "class A:\n    @property\n    def at(self): ...\n    def wake(self): ...\n"
    assert list_method_names([Source("a.py", text)]) == {"wake"}


PAGE = """## Words

| word | meaning |
|---|---|
| **inbox** | what was delivered |
| run plan | two words |
| `requester` / `oracle` | people |

## Next
| other | table |
"""


def test_glossary_words_are_read_without_marks() -> None:
    """The words are in the first column of the table under its heading."""
    assert read_glossary(PAGE) == ["inbox", "run plan", "requester", "oracle"]
    assert read_glossary("# No such heading") == []


def test_a_glossary_word_that_no_name_uses_is_reported() -> None:
    """A word is used if it or its plural is part of a name, in any spelling of names."""
    code = Source("a.py", "class RunPlans: inbox_rows = the_requester\nclass PlanRun: ...")
    [breach] = find_unused_words(PAGE, [code])
    assert "'oracle' is explained, and no name" in breach
