"""The commands in the documentation: all exist, none is left out, and those that can run do."""

from __future__ import annotations

import argparse
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from bot.policy.evaluation import parse
from countersign.cli.commands import build_parser, list_installed_commands, main
from tests.pages import PAGES, ROOT, blocks

README, COMMANDS = ROOT / "README.md", ROOT / "docs" / "commands.md"


def list_commands() -> Iterator[tuple[str, str]]:
    """Each command of the command line with each of its options; "" for none."""
    found = list_installed_commands()
    parser = build_parser({name: entry.load() for name, entry in found.items()}, found)
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, options_of in action.choices.items():
                yield f"countersign {name}", ""
                options = (
                    each.option_strings[-1] for each in options_of._actions if each.option_strings
                )
                yield from (
                    (f"countersign {name}", option) for option in options if option != "--help"
                )
        elif action.option_strings[-1] != "--help":
            yield "countersign", action.option_strings[-1]


def test_commands_and_their_documentation_agree() -> None:
    """Each command and option is documented, and none that does not exist."""
    text = COMMANDS.read_text("utf-8")
    known = set(list_commands())
    missing = [pair for pair in known if not re.search(rf"{pair[0]}\b.*{pair[1]}", text)]
    assert missing == []
    everywhere = "\n".join(page.read_text("utf-8") for page in PAGES)
    used = re.findall(
        r"(?<!from )(?<![@\w-])countersign( [a-z]+(?:-[a-z]+)*)?([^\n`|]*)[`\n]", everywhere
    )
    assert len(used) > 5
    for command, rest in used:
        options = re.findall(r"--[a-z-]+", rest) or [""] * bool(command)
        assert [each for each in options if (f"countersign{command}", each) not in known] == []


def list_shell_commands(page: Path) -> list[str]:
    """The commands of a page's shell blocks without comments; one over several lines is one."""
    lines = "\n".join(blocks(page, "sh")).replace('-c "\n', '-c "').splitlines()
    return [re.sub(r"\s+#.*", "", line).replace(".venv/bin/", "") for line in lines if line]


def test_the_first_commands_of_the_readme_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """make knows each target, and the doctor writes the policy that it then reads."""
    monkeypatch.chdir(tmp_path)
    made = [
        line.split()[-1]
        for line in list_shell_commands(README)
        if re.match(r"(\w+=\S+ )?make ", line)
    ]
    assert {"demo", "test", "run"} <= set(made)
    for target in made:
        command = ["make", "-n", "PYTHON=python3", target]
        assert subprocess.run(command, cwd=ROOT, capture_output=True, timeout=60, check=True).stdout
    doctor = [
        line.split()[1:]
        for line in list_shell_commands(README)
        if line.startswith("countersign doctor")
    ]
    assert main(doctor[0]) == 0
    assert parse((tmp_path / "policy.toml").read_text("utf-8")).default is not None
    assert main(doctor[1]) == 1  # there are no tokens here
    assert "SLACK_BOT_TOKEN" in capsys.readouterr().out


def test_make_targets_and_their_documentation_agree() -> None:
    """Each target is documented, and each one that a page names exists."""
    makefile = (ROOT / "Makefile").read_text("utf-8")
    targets = set(re.findall(r"^([a-z./-]+):(?!=)", makefile, re.M)) - {".PHONY"}
    pages = "\n".join(page.read_text("utf-8") for page in PAGES)
    assert [
        each for each in sorted(targets) if not re.search(rf"make {re.escape(each)}\b", pages)
    ] == []
    assert set(re.findall(r"(?:^\s*|`|=\S+ )make ([a-z./-]+)\b", pages, re.M)) <= targets
