"""Tools, surfaces and sources that other packages add by entry points."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from bot.checks.check import CheckLevel
from bot.cli.doctor.checks import check_surfaces, check_tools_can_be_built
from bot.config.settings import Settings
from bot.runs.surfaces import EntryPointKind
from countersign.cli.commands import main
from tests.added_package import add_package
from tests.pages import ROOT, blocks

TOOLS, SURFACES = "countersign.tools", "countersign.surfaces"
DUTY = next(
    each for each in blocks(ROOT / "docs" / "extending.md", "python") if "def duty(" in each
)


def test_tools_of_another_package_are_available(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The family of docs/extending.md is added to the bot's own; doctor names it."""
    [before] = check_tools_can_be_built(settings)
    add_package(monkeypatch, tmp_path, "duty_board", DUTY, {TOOLS: "duty = duty_board:duty"})
    [found] = check_tools_can_be_built(settings)
    assert found.level is CheckLevel.OK
    assert int(found.text.split()[0]) == int(before.text.split()[0]) + 1
    assert found.text.endswith("available, with duty of duty_board 1.0")


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("raise RuntimeError('no licence')", "cannot be loaded (RuntimeError: no licence)"),
        ("x = 1", "cannot be loaded (AttributeError"),
        ("def duty(deps): raise OSError('no board')", "makes no tools (OSError: no board)"),
        ("def duty(deps): return ['take over']", "makes str, which is not a tool"),
    ],
)
def test_a_broken_tool_family_stops_the_start(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str, said: str
) -> None:
    """The error names it. The bot does not start without tools that people rely on."""
    add_package(monkeypatch, tmp_path, "duty_broken", code, {TOOLS: "duty = duty_broken:duty"})
    [found] = check_tools_can_be_built(settings)
    assert found.level is CheckLevel.FAIL
    assert "duty" in found.text
    assert "duty_broken 1.0" in found.text
    assert said in found.text


def test_two_tool_families_of_one_name_are_refused(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A package cannot replace the bot's own tools."""
    code = "def slack(deps): return []"
    add_package(monkeypatch, tmp_path, "slack_twin", code, {TOOLS: "slack = slack_twin:slack"})
    [found] = check_tools_can_be_built(settings)
    assert found.level is CheckLevel.FAIL
    assert "two entry points named slack: Countersign and slack_twin 1.0" in found.text


def test_a_start_loads_no_http_server() -> None:
    """The server at the local socket is imported when somebody first connects."""
    code = (
        "import sys, bot.app; from bot.runs.surfaces import EntryPointKind, load_surface_classes\n"
        "print([each.name for kind in EntryPointKind for each in load_surface_classes(kind)])\n"
        "print(sorted({'fastapi', 'starlette', 'uvicorn', 'h11'} & set(sys.modules)))"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert ended.stdout == "['terminal and programs']\n[]\n", ended.stderr


def test_doctor_names_surfaces_and_sources() -> None:
    """Slack, the terminal and programs are always there."""
    assert [(each.subject, each.level, each.text) for each in check_surfaces()] == [
        ("surfaces", CheckLevel.OK, "Slack, terminal and programs"),
        ("sources", CheckLevel.OK, "Slack"),
    ]


def test_a_class_that_is_no_surface_or_source_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Surfaces and sources are classes with start and stop."""
    code = "class Lamp:\n    def start(self): ..."
    for kind in EntryPointKind:
        entry = {kind.entry_point_group: f"lamp = half_{kind}:Lamp"}
        add_package(monkeypatch, tmp_path, f"half_{kind}", code, entry)
        [found] = [each for each in check_surfaces() if each.subject == f"{kind}s"]
        assert found.level is CheckLevel.FAIL
        assert f"lamp of half_{kind} 1.0 is no {kind}" in found.text


def test_a_broken_surface_stops_the_start(
    settings: Settings,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """`countersign run` prints its name and its exception."""
    code = (
        "class Lamp:\n"
        "    def __init__(self, host): raise OSError('no bulb')\n"
        "    def start(self): ...\n"
        "    def stop(self): ...\n"
    )
    add_package(monkeypatch, tmp_path, "dark_lamp", code, {SURFACES: "lamp = dark_lamp:Lamp"})
    settings.policy_path.write_text('[defaults]\napprovers = ["@shop-leads"]\n')
    for name, value in {
        "SLACK_BOT_TOKEN": settings.slack_bot_token.get_secret_value(),
        "SLACK_APP_TOKEN": settings.slack_app_token.get_secret_value(),
        "SLACK_API_URL": settings.slack_api_url,
        "COUNTERSIGN_POLICY": str(settings.policy_path),
        "DATABASE_URL": settings.database_url,
    }.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    assert main(["run"]) == 2
    said = capsys.readouterr().err
    assert "lamp of dark_lamp 1.0 cannot be made (OSError: no bulb)" in said
