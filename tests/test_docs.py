"""The documentation agrees with the code: nothing is left out, and examples work."""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys
import tomllib
import types
from collections.abc import Iterator
from dataclasses import fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import SecretStr

from bot.config.settings import Settings
from bot.policy import policy_file
from bot.policy.condition_values import Facts
from bot.policy.evaluation import parse
from bot.policy.gates import Ask, Deny
from bot.tools import ChangedError, Preview, Registry, Table, Tool, ToolContext, ToolError, tool
from bot.tools.database.child_tools import build_database_tools
from bot.tools.database.config import Database, parse_databases
from countersign.durations import parse_duration
from tests.pages import PAGES, ROOT, blocks, blocks_in, named, section, table

README, OPERATING, EXTENDING, POLICY = (
    ROOT / name
    for name in ("README.md", "docs/operating.md", "docs/extending.md", "docs/policy.md")
)


def format_default(default: Any, required: bool) -> str:
    """A setting's default as the table shows it."""
    if required:
        return "**required**"
    if default is None or default == () or default == SecretStr(""):
        return "unset"
    if isinstance(default, bool):
        return "`on`" if default else "`off`"
    return f"`{default:g}`" if isinstance(default, float) else f"`{default}`"


def test_every_setting_is_explained() -> None:
    """The table has every setting with its default, and none that does not exist."""
    fields = [field for field in Settings.model_fields.values() if field.title]
    expected = {
        str(field.title): format_default(field.default, field.is_required()) for field in fields
    }
    assert {
        name: cells[0] for name, cells in table(section(OPERATING, "Settings")).items()
    } == expected


def test_every_policy_key_is_explained() -> None:
    """The table has every key of the policy file and no other, with the gates' real defaults."""
    entries = (policy_file.AskOptions, policy_file.RuleEntry, policy_file.TemplateEntry)
    keys = {key for each in entries for key in each.model_fields}
    keys |= {"readers", "shared_channels"}  # the keys outside all tables
    rows = table(section(POLICY, "Keys"))
    assert set(rows) == keys
    for key in ("post_to", "self_approval", "editors", "editor_counts"):
        default = Ask.model_fields[key].default
        assert rows[key][-1].strip("`").strip('"') == (
            str(default).lower() if default is False else default
        )
    assert parse_duration(rows["deadline"][-1].strip('`"')) == Ask.model_fields["deadline"].default


def test_every_database_key_is_explained() -> None:
    """The table has every key of a database with its default, and the example can be loaded."""
    fields = {field.alias or name: field for name, field in Database.model_fields.items()}
    text = section(OPERATING, "Databases")
    rows = table(text)
    assert set(rows) == {*fields, "url_env"}
    for key in set(fields) - {"name", "about", "url"}:
        default = fields[key].get_default()
        assert tomllib.loads(f"it = {rows[key][-1].strip('`')}")["it"] == (
            list(default) if isinstance(default, tuple) else default
        )
    [example] = [code for code in blocks(OPERATING, "toml") if "[[database]]" in code]
    shop, archive = parse_databases(
        example, {"SHOP_DATABASE_URL": "postgresql://shop@db.example/shop"}
    )
    assert (shop.dialect, shop.max_changes, archive.read_only) == ("postgres", 20, True)
    named = re.findall(r"`(\w+)`", text.partition("three tools: ")[2].partition("(")[0])
    assert [each.name for each in build_database_tools([shop, archive], None)] == named


def test_every_scope_and_event_is_explained() -> None:
    """Each one in the manifest, and no other."""
    manifest = yaml.safe_load((ROOT / "manifest.yml").read_text("utf-8"))
    scopes, events = section(OPERATING, "The Slack app").partition("Events: ")[::2]
    expected = set(manifest["oauth_config"]["scopes"]["bot"])
    assert set(re.findall(r"`([a-z_.]+:[a-z_.]+|commands)`", scopes)) == expected
    events = events.partition("\n\n")[0]
    assert set(re.findall(r"`([a-z_.]+)`", events)) == set(
        manifest["settings"]["event_subscriptions"]["bot_events"]
    )


def test_every_tool_option_is_explained() -> None:
    """The table has every option of @tool, and its defaults are the code's."""
    rows = table(section(EXTENDING, "What `@tool` takes"))
    parameters: dict[str, Any] = tool.__kwdefaults__ or {}
    assert {"title", "effect", "does", *parameters} <= set(rows)
    text = EXTENDING.read_text("utf-8")
    assert [
        each.name
        for each in fields(ToolContext)
        if f"`{each.name}`" not in text.replace("context.", "")
    ] == []
    named = [each.__name__ for each in (ToolError, ChangedError, Preview, Table)]
    assert [each for each in named if f"`{each}" not in text] == []
    assert (rows["timeout"][0], rows["max_output"][0]) == (
        f"{parameters['timeout']:g}",
        str(parameters["max_output"]),
    )


@pytest.fixture
def example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Tool[Any]]:
    """The README's tool, imported as COUNTERSIGN_TOOLS would, in a folder of its own."""
    [code] = blocks(README, "python")
    (tmp_path / "duty_tools.py").write_text(code, "utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    found = [
        each
        for each in vars(importlib.import_module("duty_tools")).values()
        if isinstance(each, Tool)
    ]
    yield found[0]
    del sys.modules["duty_tools"]


def test_the_readmes_tool_works_as_described(example: Tool[Any], tmp_path: Path) -> None:
    """It registers, says what it would do, refuses wrong arguments, and does what it says."""
    Registry().add(example)
    args = example.arguments.model_validate({"person": "Cleo"})
    assert example.effect_sentence(args) == "Put Cleo on duty for 8 hours"
    with pytest.raises(ValueError, match="less than or equal to 72"):
        example.arguments.model_validate({"person": "Cleo", "hours": 73})
    now = datetime(2026, 5, 4, 9, 30, tzinfo=UTC)
    context = ToolContext("call", "run", "T0SANDBOX", "UBEN00001", "C0SUPPORT", "1.0", now)
    assert example.function(args, context) == "Cleo is on duty."
    assert (tmp_path / "duty.txt").read_text("utf-8") == "Cleo, 8 hours from 2026-05-04 09:30 UTC"


@pytest.mark.long
def test_the_example_of_a_tool_in_the_sandbox_runs(example: Tool[Any], tmp_path: Path) -> None:
    """It runs unchanged, with its effect."""
    script = ROOT / "docs" / "try_duty.py"
    assert f"]({script.name})" in EXTENDING.read_text("utf-8")
    assert f"import {example.name}\n" in script.read_text("utf-8")
    environ = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}."}
    ended = subprocess.run(
        [sys.executable, str(script)],
        cwd=tmp_path,
        env=environ,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert ended.stdout.startswith("Cleo, 8 hours from "), ended.stderr


def test_the_preview_and_the_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The preview says what would be left, and the table has the rows.

    The change is refused once the preview no longer holds.
    """
    monkeypatch.chdir(tmp_path)
    [code] = [each for each in blocks(EXTENDING, "python") if "ChangedError" in each]
    module = types.ModuleType("stock_tools")
    exec(code, module.__dict__)
    names = module.__dict__
    module.rows("CREATE TABLE stock (item TEXT, count INTEGER)")
    module.rows("INSERT INTO stock VALUES ('mug', 5)")
    Registry().add(names["list_stock"], names["take"])
    take: Tool[Any] = names["take"]
    args = take.arguments(item="mug", count=2)
    assert take.preview is not None
    context = ToolContext(
        "call", "run", "T", "U", "C", "1.0", datetime(2026, 5, 4, tzinfo=UTC), expects="5"
    )
    shown = take.preview(args, context)
    assert shown == Preview("mug: 5 now, 3 afterwards", expects="5")
    with pytest.raises(ToolError, match="only 5 × mug"):
        take.preview(take.arguments(item="mug", count=6), context)
    assert take.function(args, context) == "3 left."
    with pytest.raises(ChangedError, match="no longer 5 × mug"):
        take.function(args, context)
    assert names["list_stock"].function(names["Nothing"](), context) == Table(
        "Stock", ("item", "count"), (("mug", 3),)
    )


def test_every_policy_shown_works() -> None:
    """Each policy in the documentation is valid, and the README's does what its sentences say."""
    examples = [(named(page), code) for page in PAGES for code in blocks(page, "toml")]
    others = ("[[database]]", "[[server]]", "[people]")
    policies = [parse(code, page) for page, code in examples if not code.startswith(others)]
    assert len(policies) >= 2
    texts = (README.read_text("utf-8"), section(POLICY, "A policy file"))
    readme, written = (parse(blocks_in(text, "toml")[0]) for text in texts)
    asked = readme.get_gate(
        Facts(tool="cancel_order", effect="destructive", requester="UBEN00001", args={})
    )
    assert isinstance(asked, Ask)
    [stage] = asked.stages
    assert (stage.approvers.groups, asked.post_to, asked.deadline) == (
        ("finance",),
        "#finance-approvals",
        4 * 3600,
    )
    assert (
        readme.get_gate(
            Facts(tool="look_up_order", effect="read", requester="UBEN00001", args={})
        ).verdict
        == "allow"
    )
    assert isinstance(
        written.get_gate(
            Facts(tool="create_channel", effect="write", requester="UBEN00001", args={})
        ),
        Deny,
    )
