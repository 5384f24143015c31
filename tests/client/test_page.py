"""What docs/integrations.md says is so: its commands, its settings, its code."""

from __future__ import annotations

import argparse
import ast
import json
import re
import shlex
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml
from starlette.datastructures import QueryParams

import countersign
from bot.http.api import parse_hook_options
from bot.policy.evaluation import parse
from countersign.cli import ask, hook
from countersign.cli.approval_wait import parse_wait_option
from countersign.cli.ask import CommandTemplate
from countersign.cli.console import parse_assignments
from countersign.request import CountersignError
from tests.client.shop import Shop, ended
from tests.pages import ROOT, blocks, blocks_in, section
from tests.stories.harness import SUPPORT

PAGE = ROOT / "docs" / "integrations.md"


def scripts(found: Any) -> list[str]:
    """The lines of shell anywhere in a job's description."""
    match found:
        case dict():
            mine = [found["run"]] if isinstance(found.get("run"), str) else found.get("script", [])
            return [*mine, *(line for each in found.values() for line in scripts(each))]
        case list():
            return [line for each in found for line in scripts(each)]
    return []


def test_jobs_ask_with_options_that_are_there() -> None:
    """Both examples are YAML, and what they type is understood; so is the shell's."""
    parser = argparse.ArgumentParser()
    ask.add_arguments(parser)
    jobs = [scripts(yaml.safe_load(text)) for text in blocks(PAGE, "yaml")]
    typed = [line for job in [*jobs, blocks(PAGE, "sh")] for line in job]
    asked = [line for line in typed if line.startswith("countersign ask")]
    assert len(asked) == 3
    for line in asked:
        asking, _, behind = line.partition(" -- ")
        found = parser.parse_args(shlex.split(asking)[2:])
        CommandTemplate(tuple(shlex.split(behind.replace("./deploy.sh", "echo")))).validate(
            parse_assignments(found.values)
        )
        assert found.effect == "Deploy {version} to {env}"
        assert len(found.values) == 2


def test_the_hook_of_the_page_waits_less_than_claude_code() -> None:
    """Its settings are JSON; each ends before its time-out, and blocks where it fails; the same
    tools are asked about and told of.
    """
    by_command, by_http = (json.loads(text)["hooks"] for text in blocks(PAGE, "json"))
    assert by_command.keys() == {"PreToolUse", "PostToolUse", "PostToolUseFailure"}
    assert len({entry["matcher"] for [entry] in by_command.values()}) == 1
    parser = argparse.ArgumentParser()
    hook.add_arguments(parser)
    for [entry] in by_command.values():
        [each] = entry["hooks"]
        parser.parse_args(shlex.split(each["command"])[2:])
    for [entry] in (by_command["PreToolUse"], by_http["PreToolUse"]):
        assert re.fullmatch(entry["matcher"], "mcp__github__create_issue")
        [mine] = entry["hooks"]
        assert mine["onFailure"] == "block"
        if mine["type"] == "command":
            wait = parse_wait_option(parser.parse_args(shlex.split(mine["command"])[2:]))
        else:
            terms = parse_hook_options(QueryParams(urlsplit(mine["url"]).query))
            wait = terms.wait_seconds
            assert terms.channel == "#support"
            assert (
                mine["headers"]["Authorization"].removeprefix("Bearer $") in mine["allowedEnvVars"]
            )
        assert wait < mine["timeout"]


def test_the_policy_of_the_page_is_one() -> None:
    """Its rule is read."""
    [text] = blocks(PAGE, "toml")
    assert parse(text)


def test_all_troubles_are_explained() -> None:
    """Each error that a program may meet is in the page, and importable."""
    text = section(PAGE, "Any Python function")
    for each in CountersignError.__subclasses__():
        if each.__module__ == CountersignError.__module__:
            assert f"`{each.__name__}`" in text
            assert each.__name__ in countersign.__all__


@pytest.mark.parametrize("code", blocks(PAGE, "python"))
def test_the_code_of_the_page_is_python(code: str) -> None:
    """Each example can be read."""
    compile(code, str(PAGE), "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)


def test_the_function_of_the_page(shop: Shop) -> None:
    """It is asked as the page says, in Ben's name, and says what came of it."""
    decorated, around = blocks_in(section(PAGE, "Any Python function"), "python")
    example: dict[str, Any] = {}
    exec(decorated, example)
    future = shop.begin(exec, around, example)
    shop.reject("Deploy 1.2 to prod", "not yet")
    ended(future)
    with countersign.asking(channel=SUPPORT):
        again = shop.begin(example["release"], "1.2.3")
        shop.approve("Deploy 1.2.3 to prod")
        assert ended(again) == "1.2.3 is on prod"
