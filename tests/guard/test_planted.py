"""Faults planted for each check, which it names, and what it lets pass."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import pytest

from tests.guard.closed_sets import bare_strings, values_by_hand
from tests.guard.modules import longest_chain, needed_when_pure, opens_files
from tests.guard.sizes import by_hand, hidden_assignments, too_long
from tests.guard.sources import Source
from tests.guard.wiring import clocks, methods, patched, slack_clients, telling
from tests.guard.words import (
    HOSTS,
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

Check = Callable[[Source], Iterator[str]]
LONG = "def work():\n" + "    x = 1\n" * 50
SLACK = "bot/tools/slack_tools.py"
RULES, LOOP, CARD = "bot/policy/rules.py", "bot/runs/loop.py", "bot/cards/card.py"
ROWS = "storage/outbox.py"
wiring = partial(patched, names=frozenset({"wake"}))

PLANTED: list[tuple[Check, str, str, str]] = [
    (too_long, LOOP, LONG, "1: work has 51 lines"),
    (too_long, LOOP, "x = 1\n" * 501, "501: the file has 501 lines"),
    (by_hand, LOOP, "x = 1  # fmt: " + "skip", "1: keeps the formatter out"),
    (hidden_assignments, LOOP, "x = (y := 1) + y", "1: assigns y"),
    (hidden_assignments, LOOP, "if any((y := x) for x in z): pass", "1: assigns y"),
    (hidden_assignments, LOOP, "x = y if (y := z) else 0", "1: assigns y"),
    (slack_clients, SLACK, "from slack_sdk import WebClient", "1: imports slack_sdk.WebClient"),
    (opens_files, RULES, "x = path.read_text()", "1: calls read_text()"),
    (telling, ROWS, "x = create_engine(url)", "1: an engine without hide_parameters"),
    (clocks, LOOP, "from bot.clock import SystemClock", "1: makes a clock"),
    (clocks, ROWS, "x = 'SELECT CURRENT_TIMESTAMP'", "1: a statement asks"),
    (bare_strings, ROWS, 'row.status = "sent"', "1: \"row.status = 'sent'\" uses a bare"),
    (bare_strings, ROWS, 'if row.kind in ("card", "file"): pass', "1: \"row.kind in ('card',"),
    (bare_strings, ROWS, 'where(col(Message.status) == "sent")', '1: "col(Message.status) == '),
    (bare_strings, ROWS, 'change(tx, row, status="sent")', "1: status= takes a bare string"),
    (bare_strings, ROWS, 'match row.kind:\n    case "a": pass', '1: "match row.kind'),
    (values_by_hand, LOOP, 'a, _, b = value.partition(":")', "1: cuts a value"),
    (values_by_hand, CARD, 'value = f"{call.id}:{call.revision}"', "1: puts a value together"),
    (values_by_hand, CARD, 'x = {"action_id": "approve"}', "1: a literal action id"),
    (values_by_hand, CARD, 'button("approve", "Approve")', "1: a literal action id"),
    (values_by_hand, LOOP, 'x = action["action_id"] == "more"', "1: a literal action id"),
    (wiring, LOOP, "self.core.wake = self.loop.wake", "1: patches self.core.wake"),
    (wiring, LOOP, "core.calm = lambda: None", "1: patches core.calm"),
    (short_test_names, "tests/a.py", "def test_two_words(): pass", "1: test_two_words says"),
    (
        ids_of_elsewhere,
        "tests/a.py",
        'def f():\n    """No (Q17)."""',
        "1: Q17 is explained nowhere",
    ),
    (sleeps, "tests/a.py", "import time\ntime.sleep(1)", "2: sleeps"),
    (registries, "README.md", f"see {HOSTS[0]}", "1: names the package registry"),
    (unexplained, LOOP, "x = 1  # noqa" + ": S101", "1: silences"),
    (without_sentence, "tests/a.py", "def test_a():\n    pass", "1: the module has no docstring"),
    (without_sentence, "tests/a.py", '"""A."""\ndef test_a():\n    pass', "2: test_a has no"),
]


@pytest.mark.parametrize(("check", "path", "text", "breach"), PLANTED)
def test_a_planted_fault_is_named(check: Check, path: str, text: str, breach: str) -> None:
    """Each rule notices what it forbids and says where."""
    [first, *_] = check(Source(path, text))
    assert first.startswith(f"{path}:{breach}")


FINE: list[tuple[Check, str, str]] = [
    (too_long, LOOP, LONG.removesuffix("    x = 1\n")),
    (too_long, LOOP, "x = 1\n" * 500),
    (hidden_assignments, LOOP, "if y := x: pass\nelif (z := x) and z > 1: pass"),
    (hidden_assignments, LOOP, "while (line := read()) is not None: pass"),
    (slack_clients, SLACK, "if TYPE_CHECKING:\n    from slack_sdk import WebClient"),
    (slack_clients, SLACK, "from slack_sdk.errors import SlackApiError"),
    (bare_strings, ROWS, "row.status = MessageStatus.SENT"),
    (bare_strings, ROWS, 'if row.status == "": pass'),
    (bare_strings, "bot/tools/database/preview.py", 'x = statement.verb == "insert"'),
    (values_by_hand, "bot/cards/button_codec.py", 'a, _, b = value.partition(":")'),
    (values_by_hand, LOOP, 'target = row.key.rpartition(":")[2]'),
    (values_by_hand, LOOP, 'key = f"{call.id}:{call.revision}"'),
    (values_by_hand, CARD, "button(Action.APPROVE, label)"),
    (wiring, LOOP, "self.wake = loop.wake"),
    (wiring, LOOP, "core.policy = loaded.policy"),
    (wiring, LOOP, "connection.row_factory = lambda cursor, row: row"),
    (short_test_names, "tests/a.py", "def test_three_plain_words(): pass"),
    (ids_of_elsewhere, "tests/a.py", '"""The channel C0SUPPORT, HTTP 503."""'),
    (unexplained, LOOP, "x = 1  # noqa: S101  # nobody sees it"),
    (sleeps, "tests/a.py", "await asyncio.sleep(0)"),
]


@pytest.mark.parametrize(("check", "path", "text"), FINE)
def test_what_is_allowed_passes(check: Check, path: str, text: str) -> None:
    """The rules stop where the design does."""
    assert list(check(Source(path, text))) == []


def test_the_longest_chain_is_told() -> None:
    """Of all ways along imports among the modules asked about the longest is told."""
    imports = {"a": {"b", "c"}, "b": {"c"}, "c": {"d", "z"}, "d": set[str]()}
    assert longest_chain(imports, imports.__getitem__) == ["a", "b", "c", "d"]


def test_purity_is_followed_through_imports() -> None:
    """What a pure module imports is held to the same rule."""
    needed = needed_when_pure()
    assert {"bot.cards.edit_form", "bot.policy.rules", "storage.states", "bot.toml_file"} <= needed
    assert "bot.runs.loop" not in needed


def test_a_repeated_class_is_named() -> None:
    """Two classes of one name are told, those of one file's own (`_Name`) are not."""
    text = "class Plan: ...\nclass _Own: ..."
    assert list(repeated_classes([Source("a.py", text), Source("b.py", f"\n{text}")])) == [
        "b.py:2: Plan is a class of a.py too"
    ]


def test_an_error_that_is_called_otherwise_is_named() -> None:
    """What a docstring says is raised has to be there, in some file or as Python's own."""
    text = '"""Raises OldError, NewError or OSError."""\nclass NewError(ValueError): ...\n'
    assert list(unknown_errors([Source("a.py", text)])) == ["a.py:1: there is no OldError"]


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
