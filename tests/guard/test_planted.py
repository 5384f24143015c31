"""Faults planted for each check of a single file, which it names, and what it lets pass."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import pytest

from tests.guard.arrows import against_the_arrows, forbidden_imports, imports_everything
from tests.guard.clocks import wall_clock
from tests.guard.closed_sets import bare_strings, values_by_hand
from tests.guard.purity import impure
from tests.guard.sizes import by_hand, hidden_assignments, too_long
from tests.guard.sources import Source
from tests.guard.wiring import patched, telling
from tests.guard.words import (
    HOSTS,
    ids_of_elsewhere,
    registries,
    short_test_names,
    sleeps,
    unexplained,
    without_sentence,
)

Check = Callable[[Source], Iterator[str]]
BOTH_EDGES = "from bot.agent.planner import Planner\nfrom bot.slack.channel_queues import Outbox"
LONG = "def work():\n" + "    x = 1\n" * 50
SHOP, SLACK = "bot/tools/shop_tools.py", "bot/tools/slack_tools.py"
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
    (against_the_arrows, RULES, "from bot.tools import Tool", "1: imports bot.tools.Tool"),
    (against_the_arrows, "bot/approvals/votes.py", "import bot.runs.loop", "1: imports bot.runs"),
    (
        against_the_arrows,
        "bot/agent/prompt.py",
        "import storage.runs",
        "1: imports storage.runs",
    ),
    (against_the_arrows, "bot/runs/a.py", "from bot.slack import a", "1: imports bot.slack.a"),
    (against_the_arrows, "bot/clock.py", "import bot.policy", "1: imports bot.policy"),
    (
        against_the_arrows,
        "sandbox/slack_sandbox/server.py",
        "import bot.clock",
        "1: imports bot.clock",
    ),
    (forbidden_imports, "storage/a.py", "\nfrom bot import clock", "2: imports bot.clock"),
    (forbidden_imports, "storage/migrations/a.py", "import slack_sdk.web", "1: imports slack_sdk"),
    (forbidden_imports, "bot/agent/a.py", "def f():\n    import slack_bolt", "2: imports slack_b"),
    (forbidden_imports, SHOP, "from slack_sdk.errors import X", "1: imports slack_sdk.errors.X"),
    (forbidden_imports, SLACK, "from slack_sdk import WebClient", "1: imports slack_sdk.WebCli"),
    (forbidden_imports, "bot/slack/a.py", "from openai import OpenAI", "1: imports openai.OpenAI"),
    (forbidden_imports, LOOP, "import slack_sandbox.server", "1: imports slack_sandbox.server"),
    (
        forbidden_imports,
        "bot/a.py",
        "from slack_sandbox.spec import x",
        "1: imports slack_sandbox.spec.x",
    ),
    (forbidden_imports, LOOP, "from bot.app import build", "1: imports bot.app.build"),
    (imports_everything, LOOP, BOTH_EDGES, "1: imports Slack's edge and the model's"),
    (impure, RULES, "from time import monotonic", "1: imports time.monotonic"),
    (telling, ROWS, "x = create_engine(url)", "1: an engine without hide_parameters"),
    (impure, RULES, "x = datetime.now(UTC)", "1: calls now()"),
    (wall_clock, LOOP, "x = datetime.now(UTC)", "1: datetime.now"),
    (wall_clock, LOOP, "x = time.time()", "1: time.time"),
    (wall_clock, LOOP, "from time import time_ns", "1: imports time.time_ns"),
    (wall_clock, LOOP, "from bot.clock import SystemClock", "1: makes a clock"),
    (wall_clock, ROWS, "x = 'SELECT CURRENT_TIMESTAMP'", "1: a statement asks"),
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
    (
        against_the_arrows,
        LOOP,
        "from bot.approvals.facts import facts_of\nimport storage.runs",
    ),
    (
        against_the_arrows,
        "bot/slack/command_answers.py",
        "from bot.explain.explanation import explain",
    ),
    (against_the_arrows, "bot/demo/demo.py", "from bot.app import build"),
    (
        against_the_arrows,
        "sandbox/slack_sandbox/server.py",
        "from slack_sandbox.spec.table import x",
    ),
    (forbidden_imports, SLACK, "if TYPE_CHECKING:\n    from slack_sdk import WebClient"),
    (forbidden_imports, SLACK, "from slack_sdk.errors import SlackApiError"),
    (forbidden_imports, "bot/cli/demo.py", "from bot.demo.demo import run"),
    (imports_everything, "bot/app.py", BOTH_EDGES),
    (imports_everything, LOOP, "from bot.agent.turn import Proposal\nimport bot.slack.text"),
    (impure, RULES, "if TYPE_CHECKING:\n    from sqlmodel import Session"),
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
