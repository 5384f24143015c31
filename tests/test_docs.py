"""The documentation against the code: nothing of the product is left out, its examples work, its links lead on."""

from __future__ import annotations

import argparse
import importlib
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

import bot.__main__ as cli
from bot import policy_file
from bot.facts import Facts
from bot.gates import Ask, Deny
from bot.policy import parse
from bot.settings import Settings
from bot.tools import Registry, Tool, ToolContext, tool

ROOT = Path(__file__).parents[1]
PAGES = sorted([ROOT / "README.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").rglob("*.md")])
README, OPERATING, EXTENDING, POLICY = (
    ROOT / name for name in ("README.md", "docs/operating.md", "docs/extending.md", "docs/policy.md")
)
LARGEST = 300_000  # bytes of one picture
LONGEST_README, LONGEST_DECISION = 125, 40  # lines


def named(page: Path) -> str:
    """A page's path, to name its test."""
    return page.relative_to(ROOT).as_posix()


def blocks(page: Path, language: str) -> list[str]:
    """The code blocks of that language, without the indentation they have inside a list."""
    found = re.findall(rf"^( *)```{language}\n(.*?)^\1```$", page.read_text("utf-8"), re.S | re.M)
    return [re.sub(rf"^{indent}", "", code, flags=re.M) for indent, code in found]


def prose(page: Path) -> str:
    """The page without its code blocks."""
    return re.sub(r"^( *)```.*?^\1```$", "", page.read_text("utf-8"), flags=re.S | re.M)


def section(page: Path, title: str) -> str:
    """What stands below that heading, up to the next one of its level."""
    found = re.search(rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", page.read_text("utf-8"), re.S | re.M)
    assert found, f"{named(page)} has no section {title!r}"
    return found[1]


def table(text: str) -> dict[str, list[str]]:
    """The rows of the tables in a text: the first cell, without its ticks, to the others."""
    rows = [re.split(r"(?<!\\)\|", line)[1:-1] for line in text.splitlines() if line.startswith("| `")]
    return {row[0].strip().strip("`"): [cell.strip() for cell in row[1:]] for row in rows}


def written(default: Any, required: bool) -> str:
    """A setting's default as the table has it."""
    if required:
        return "**required**"
    if default is None or default == ():
        return "unset"
    if isinstance(default, bool):
        return "`on`" if default else "`off`"
    return f"`{default:g}`" if isinstance(default, float) else f"`{default}`"


def test_settings() -> None:
    """The table has every setting with its default, and none that does not exist."""
    fields = [field for field in Settings.model_fields.values() if field.title]
    expected = {str(field.title): written(field.default, field.is_required()) for field in fields}
    assert {name: cells[0] for name, cells in table(section(OPERATING, "Settings")).items()} == expected


def test_policy_keys() -> None:
    """The table has every key of the policy file and none besides; every default of a gate is the one it names."""
    keys = {*policy_file.Options.model_fields, *policy_file.RuleEntry.model_fields}
    rows = table(section(POLICY, "Keys"))
    assert set(rows) == keys
    for key in ("post_to", "self_approval", "editors", "editor_counts"):
        default = Ask.model_fields[key].default
        assert rows[key][-1].strip("`").strip('"') == (str(default).lower() if default is False else default)
    assert policy_file.seconds(rows["deadline"][-1].strip('`"')) == Ask.model_fields["deadline"].default


def test_scopes_and_events() -> None:
    """Every scope and event of the manifest is explained, and no other."""
    manifest = yaml.safe_load((ROOT / "manifest.yml").read_text("utf-8"))
    scopes, events = section(OPERATING, "The Slack app").partition("Events: ")[::2]
    expected = set(manifest["oauth_config"]["scopes"]["bot"])
    assert set(re.findall(r"`([a-z_.]+:[a-z_.]+|commands)`", scopes)) == expected
    events = events.partition("\n\n")[0]
    assert set(re.findall(r"`([a-z_.]+)`", events)) == set(manifest["settings"]["event_subscriptions"]["bot_events"])


def commands() -> Iterator[tuple[str, str]]:
    """Each command of the command line with each of its options; "" for none."""
    for action in cli._parser()._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, parser in action.choices.items():
                yield f"countersign {name}", ""
                options = (each.option_strings[-1] for each in parser._actions if each.option_strings)
                yield from ((f"countersign {name}", option) for option in options if option != "--help")
        elif action.option_strings[-1] != "--help":
            yield "countersign", action.option_strings[-1]


def test_commands() -> None:
    """Each command and option of the command line is documented, and none that is not there."""
    text = section(OPERATING, "Commands")
    known = set(commands())
    missing = [pair for pair in known if not re.search(rf"{pair[0]}\b.*{pair[1]}", text)]
    assert missing == []
    everywhere = "\n".join(page.read_text("utf-8") for page in PAGES)
    used = re.findall(r"(?<![@\w-])countersign( [a-z]+)?([^\n`|]*)[`\n]", everywhere)
    assert len(used) > 5
    for command, rest in used:
        options = re.findall(r"--[a-z-]+", rest) or [""] * bool(command)
        assert [each for each in options if (f"countersign{command}", each) not in known] == []


def test_make_targets() -> None:
    """Each target of the Makefile is documented, and each one that a page names is there."""
    makefile = (ROOT / "Makefile").read_text("utf-8")
    targets = set(re.findall(r"^([a-z./]+):(?!=)", makefile, re.M)) - {".PHONY"}
    text = section(OPERATING, "Commands")
    assert [each for each in sorted(targets) if f"`make {each}`" not in text] == []
    pages = "\n".join(page.read_text("utf-8") for page in PAGES)
    assert set(re.findall(r"(?:^\s*|`|=\S+ )make ([a-z./]+)\b", pages, re.M)) <= targets


def test_tool_options() -> None:
    """The table has every option of @tool, and its defaults are the code's."""
    rows = table(section(EXTENDING, "What `@tool` takes"))
    parameters: dict[str, Any] = tool.__kwdefaults__ or {}
    assert {"title", "effect", "does", *parameters} <= set(rows)
    assert (rows["timeout"][0], rows["max_output"][0]) == (f"{parameters['timeout']:g}", str(parameters["max_output"]))


@pytest.fixture
def example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Tool[Any]]:
    """The README's tool, imported as COUNTERSIGN_TOOLS would, in a folder of its own."""
    [code] = blocks(README, "python")
    (tmp_path / "duty_tools.py").write_text(code, "utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    found = [each for each in vars(importlib.import_module("duty_tools")).values() if isinstance(each, Tool)]
    yield found[0]
    del sys.modules["duty_tools"]


def test_the_tool_of_the_readme(example: Tool[Any], tmp_path: Path) -> None:
    """It registers, says what it would do, refuses nonsense, and does what it says."""
    Registry().add(example)
    args = example.arguments.model_validate({"person": "Cleo"})
    assert example.effect_sentence(args) == "Put Cleo on duty for 8 hours"
    with pytest.raises(ValueError, match="less than or equal to 72"):
        example.arguments.model_validate({"person": "Cleo", "hours": 73})
    now = datetime(2026, 5, 4, 9, 30, tzinfo=UTC)
    context = ToolContext("call", "run", "T0SANDBOX", "UBEN00001", "C0SUPPORT", "1.0", now)
    assert example.function(args, context) == "Cleo is on duty."
    assert (tmp_path / "duty.txt").read_text("utf-8") == "Cleo, 8 hours from 2026-05-04 09:30 UTC"


def test_the_trial_of_a_tool(example: Tool[Any], tmp_path: Path) -> None:
    """The example that drives a tool through the sandbox runs as it stands, and the tool has its effect."""
    assert example.name in EXTENDING.read_text("utf-8")
    [code] = blocks(EXTENDING, "python")
    (tmp_path / "try_duty.py").write_text(code, "utf-8")
    environ = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}."}
    ended = subprocess.run(
        [sys.executable, "try_duty.py"], cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=60
    )
    assert ended.stdout.startswith("Cleo, 8 hours from "), ended.stderr


def test_policies() -> None:
    """Every policy in the documentation is one, and the README's says what its sentences say."""
    policies = [parse(code, named(page)) for page in PAGES for code in blocks(page, "toml")]
    assert len(policies) >= 2
    readme, written = (parse(blocks(page, "toml")[0]) for page in (README, POLICY))
    asked = readme.gate(Facts(tool="cancel_order", effect="destructive", requester="UBEN00001", args={}))
    assert isinstance(asked, Ask)
    [stage] = asked.stages
    assert (stage.approvers.groups, asked.post_to, asked.deadline) == (("finance",), "#finance-approvals", 4 * 3600)
    assert readme.gate(Facts(tool="look_up_order", effect="read", requester="UBEN00001", args={})).verdict == "allow"
    assert isinstance(written.gate(Facts(tool="create_channel", effect="write", requester="UBEN00001", args={})), Deny)


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    titles = re.findall(r"^#+ (.+)$", prose(page), re.M)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_links(page: Path) -> None:
    """Every relative link and picture of a page is there, with its anchor; the path after #, too."""
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
        if target.startswith("https://"):
            continue
        path, _, anchor = target.partition("#")
        there = (page.parent / path).resolve() if path else page
        assert there.exists(), f"{target} is not there"
        assert not anchor or anchor in anchors(there), f"{target} has no such heading"


def test_paths() -> None:
    """Every path in ticks that the architecture names is there, and the table names every folder of the product."""
    text = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    paths = re.findall(r"`((?:bot|storage)/[\w/.*]*)`", text)
    assert [path for path in paths if not list(ROOT.glob(path.rstrip("/")))] == []
    folders = {f"bot/{each.name}/" for each in (ROOT / "bot").iterdir() if (each / "__init__.py").exists()}
    assert folders <= set(paths)


def test_pictures() -> None:
    """There are pictures, each is used by a page, and none is too large."""
    pictures = list((ROOT / "docs" / "pictures").glob("*.png"))
    used = "\n".join(page.read_text("utf-8") for page in PAGES)
    assert {"card.png", "decided.png", "edit.png"} <= {each.name for each in pictures}
    assert [each.name for each in pictures if f"pictures/{each.name})" not in used] == []
    assert [each.name for each in pictures if each.stat().st_size > LARGEST] == []


def test_lengths() -> None:
    """The README and the records of decisions stay short."""
    assert len(README.read_text("utf-8").splitlines()) <= LONGEST_README
    records = sorted((ROOT / "docs" / "decisions").glob("*.md"))
    assert [each.name[:4] for each in records] == [f"{number:04}" for number in range(1, len(records) + 1)]
    for record in records:
        text = record.read_text("utf-8")
        assert len(text.splitlines()) <= LONGEST_DECISION
        assert all(f"**{part}.**" in text for part in ("Context", "Decision", "Consequences")), record.name
