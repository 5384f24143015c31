"""The shape of the code, as a test: the checks of guard_checks over the whole project, and faults
planted for each.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import pytest

from tests.guard_checks import (
    HOSTS,
    PURE,
    PURE_IF_THERE,
    ROOT,
    TEXTS,
    Source,
    forbidden_imports,
    imports_everything,
    impure,
    needed_by,
    python_files,
    registries,
    sleeps,
    too_long,
    unexplained,
    without_sentence,
)

Check = Callable[[Source], Iterator[str]]
PRODUCT, TESTS, BENCH = ("bot", "storage"), ("tests",), ("bench",)
WALKS: list[tuple[Check, tuple[str, ...]]] = [
    (too_long, PRODUCT + TESTS + BENCH),
    (forbidden_imports, PRODUCT + TESTS),
    (imports_everything, PRODUCT),
    (sleeps, TESTS),
    (unexplained, PRODUCT + TESTS + BENCH),
    (without_sentence, PRODUCT + TESTS + BENCH),
]


@pytest.mark.parametrize(("check", "folders"), WALKS, ids=[check.__name__ for check, _ in WALKS])
def test_the_code_keeps_its_shape(check: Check, folders: tuple[str, ...]) -> None:
    """Sizes, arrows, sentences: no file breaks the rule.

    Each breach is named with file and line.
    """
    files = python_files(*folders)
    assert len(files) > 5, "there was nothing to look at"
    breaches = [breach for source in files for breach in check(source)]
    assert not breaches, "\n" + "\n".join(breaches)


def test_pure_files_are_pure() -> None:
    """Cards, fields, texts, policy and states do no I/O, and neither does anything they import."""
    files = {source.path: source for source in python_files(*PRODUCT)}
    assert [path for path in PURE if path not in files] == []
    breaches = [
        each
        for path in sorted(needed_by(PURE + PURE_IF_THERE, files))
        for each in impure(files[path])
    ]
    assert not breaches, "\n" + "\n".join(breaches)


def test_no_package_registry_is_named() -> None:
    """No text of the project names the host of a package registry."""
    hidden = re.compile(r"(^|/)(\.(?!ci/)[^/]*|build|var|[^/]*\.egg-info|__pycache__)(/|$)")
    tops = [path for path in ROOT.iterdir() if not hidden.search(path.name)] + [
        ROOT / ".ci" / "run"
    ]
    found = [path for top in tops for path in (top, *top.rglob("*"))]
    paths = [path for path in found if not hidden.search(path.relative_to(ROOT).as_posix())]
    texts = [path for path in paths if path.is_file() and path.suffix in TEXTS]
    assert ROOT / "pyproject.toml" in texts
    sources = [
        Source(path.relative_to(ROOT).as_posix(), path.read_text(errors="replace"))
        for path in texts
    ]
    breaches = [breach for source in sources for breach in registries(source)]
    assert not breaches, "\n" + "\n".join(breaches)


BOTH_EDGES = "from bot.agent.planner import Planner\nfrom bot.slack.outbox import Outbox"
LONG = "def work():\n" + "    x = 1\n" * 50
PLANTED: list[tuple[Check, str, str, str]] = [
    (too_long, "bot/a.py", LONG, "bot/a.py:1: work has 51 lines"),
    (too_long, "bot/a.py", "x = 1\n" * 301, "bot/a.py:301: the file has 301 lines"),
    (
        forbidden_imports,
        "storage/a.py",
        "\nfrom bot import clock",
        "storage/a.py:2: imports bot.clock",
    ),
    (
        forbidden_imports,
        "storage/migrations/a.py",
        "import slack_sdk.web",
        "storage/migrations/a.py:1: imports",
    ),
    (
        forbidden_imports,
        "bot/agent/a.py",
        "def f():\n    import slack_bolt",
        "bot/agent/a.py:2: imports slack_bolt",
    ),
    (
        forbidden_imports,
        "bot/tools/shop/tools.py",
        "from slack_sdk.errors import X",
        "bot/tools/shop/tools.py:1: imports",
    ),
    (
        forbidden_imports,
        "bot/tools/slack/tools.py",
        "from slack_sdk import WebClient",
        "bot/tools/slack/tools.py:1: imports",
    ),
    (
        forbidden_imports,
        "bot/slack/a.py",
        "from openai import OpenAI",
        "bot/slack/a.py:1: imports openai.OpenAI",
    ),
    (
        forbidden_imports,
        "bot/runs/loop.py",
        "from bot import sandbox",
        "bot/runs/loop.py:1: imports bot.sandbox",
    ),
    (
        forbidden_imports,
        "bot/runs/loop.py",
        "from .sandbox.blocks import x",
        "bot/runs/loop.py:1: imports bot.sandbox.blockkit.blocks.x",
    ),
    (
        forbidden_imports,
        "bot/runs/worker.py",
        "from bot.app import build",
        "bot/runs/worker.py:1: imports bot.app.build",
    ),
    (
        imports_everything,
        "bot/runs/loop.py",
        BOTH_EDGES,
        "bot/runs/loop.py:1: imports Slack's edge and the model's",
    ),
    (
        impure,
        "bot/policy/evaluate.py",
        "from time import monotonic",
        "bot/policy/evaluate.py:1: imports time.monotonic",
    ),
    (
        impure,
        "bot/policy/evaluate.py",
        "x = datetime.now(UTC)",
        "bot/policy/evaluate.py:1: calls now()",
    ),
    (sleeps, "tests/a.py", "import time\ntime.sleep(1)", "tests/a.py:2: sleeps"),
    (registries, "README.md", f"see {HOSTS[0]}", "README.md:1: names the package registry"),
    (unexplained, "bot/a.py", "x = 1  # noqa" + ": S101", "bot/a.py:1: silences"),
    (
        without_sentence,
        "tests/a.py",
        "def test_a():\n    pass",
        "tests/a.py:1: the module has no docstring",
    ),
]


@pytest.mark.parametrize(("check", "path", "text", "breach"), PLANTED)
def test_a_planted_fault_is_named(check: Check, path: str, text: str, breach: str) -> None:
    """Each rule notices what it forbids and says where."""
    assert [each[: len(breach)] for each in check(Source(path, text))][:1] == [breach]


FINE: list[tuple[Check, str, str]] = [
    (too_long, "bot/a.py", LONG.removesuffix("    x = 1\n")),
    (too_long, "bot/a.py", "x = 1\n" * 300),
    (
        forbidden_imports,
        "bot/tools/slack/tools.py",
        "if TYPE_CHECKING:\n    from slack_sdk import WebClient",
    ),
    (forbidden_imports, "bot/tools/slack/tools.py", "from slack_sdk.errors import SlackApiError"),
    (forbidden_imports, "bot/cli/demo.py", "from bot.sandbox.demo import run"),
    (imports_everything, "bot/app.py", BOTH_EDGES),
    (
        imports_everything,
        "bot/runs/worker.py",
        "from bot.agent.turn import Plan\nfrom bot.slack import sentences",
    ),
    (unexplained, "bot/a.py", "x = 1  # noqa: S101  # nobody sees it"),
    (sleeps, "tests/a.py", "await asyncio.sleep(0)"),
]


@pytest.mark.parametrize(("check", "path", "text"), FINE)
def test_what_is_allowed_passes(check: Check, path: str, text: str) -> None:
    """The rules stop where the design does."""
    assert list(check(Source(path, text))) == []


def test_purity_is_followed_through_imports() -> None:
    """A file that a pure file imports is held to the same rule, however it is imported."""
    texts = {
        "bot/policy/evaluate.py": "from bot import helper",
        "bot/helper.py": "import bot.messages.text",
        "bot/messages/text.py": "",
        "bot/clock.py": "",
    }
    files = {path: Source(path, text) for path, text in texts.items()}
    assert needed_by(("bot/policy/evaluate.py",), files) == {
        "bot/policy/evaluate.py",
        "bot/helper.py",
        "bot/messages/text.py",
    }
