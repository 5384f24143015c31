"""docs/integrations.md is right: its commands, its settings, its code."""

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
from tests.client.shop import Shop, get_result
from tests.pages import ROOT, blocks, blocks_in, section
from tests.stories.harness import SUPPORT

PAGE = ROOT / "docs" / "integrations.md"


def list_shell_lines(found: Any) -> list[str]:
    """The lines of shell anywhere in a job's description."""
    match found:
        case dict():
            mine = [found["run"]] if isinstance(found.get("run"), str) else found.get("script", [])
            return [*mine, *(line for each in found.values() for line in list_shell_lines(each))]
        case list():
            return [line for each in found for line in list_shell_lines(each)]
    return []


def test_the_pages_jobs_use_options_that_exist() -> None:
    """In the two YAML examples and in the shell example."""
    parser = argparse.ArgumentParser()
    ask.add_arguments(parser)
    jobs = [list_shell_lines(yaml.safe_load(text)) for text in blocks(PAGE, "yaml")]
    typed = [line for job in [*jobs, blocks(PAGE, "sh")] for line in job]
    lines = [line.removeprefix("exec ") for line in typed]
    asked = [line for line in lines if line.startswith("countersign ask")]
    assert len(asked) == 3
    for line in asked:
        asking, _, behind = line.partition(" -- ")
        found = parser.parse_args(shlex.split(asking)[2:])
        CommandTemplate(tuple(shlex.split(behind.replace("./deploy.sh", "echo")))).validate(
            parse_assignments(found.values)
        )
        assert found.effect == "Deploy {version} to {env}"
        assert len(found.values) == 2


def test_the_pages_hook_waits_less_than_claude_code() -> None:
    """It ends before Claude Code's time-out, and blocks if it fails.

    The same tools are asked about and reported.
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


def test_the_pages_policy_is_valid() -> None:
    """Its rule can be read."""
    [text] = blocks(PAGE, "toml")
    assert parse(text)


def test_every_error_of_the_client_is_explained() -> None:
    """And can be imported."""
    text = section(PAGE, "Any Python function")
    for each in CountersignError.__subclasses__():
        if each.__module__ == CountersignError.__module__:
            assert f"`{each.__name__}`" in text
            assert each.__name__ in countersign.__all__


@pytest.mark.parametrize("code", blocks(PAGE, "python"))
def test_the_pages_code_is_valid_python(code: str) -> None:
    """Each example compiles."""
    compile(code, str(PAGE), "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)


def test_the_pages_function_works_as_described(shop: Shop) -> None:
    """It asks in Ben's name, and handles a rejection and an approval."""
    decorated, around = blocks_in(section(PAGE, "Any Python function"), "python")
    example: dict[str, Any] = {}
    exec(decorated, example)
    future = shop.start(exec, around, example)
    shop.reject("Deploy 1.2 to prod", "not yet")
    get_result(future)
    with countersign.asking(channel=SUPPORT):
        again = shop.start(example["release"], "1.2.3")
        shop.approve("Deploy 1.2.3 to prod")
        assert get_result(again) == "1.2.3 is on prod"
