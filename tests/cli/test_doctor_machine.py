"""`countersign doctor` on what needs no Slack: database, disk, model, modules with tools."""

from __future__ import annotations

import os
import shutil
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import pytest

from bot.agent.prompt import INSTRUCTIONS
from bot.checks.check import CheckResult
from bot.cli.doctor.checks import (
    check_agent_databases,
    check_bot_database,
    check_tools_can_be_built,
)
from bot.cli.doctor.model_check import check_model
from bot.cli.read_only_core import FailingSlackDirectory
from bot.clock import SystemClock
from bot.config.settings import Settings
from bot.demo.model_server import Turn
from bot.toolbox import build_tool_registry
from storage.backups import BackupError, require_place_for_record
from storage.digest import key_file_path
from storage.store import ReadOnlyStore, SchemaError, Store
from tests.model_stand_in.planner import ApiFeature, StrictPlanner
from tests.storage.databases.freezing import unpack


@pytest.fixture
def environ(tmp_path: Path) -> Iterator[dict[str, str]]:
    """The variables of a bot beside a local planner."""
    (tmp_path / "policy.toml").touch()
    with StrictPlanner() as planner:
        yield {
            "SLACK_BOT_TOKEN": "xoxb-unused",
            "SLACK_APP_TOKEN": "xapp-unused",
            "OPENAI_API_KEY": "offline",
            "OPENAI_BASE_URL": planner.url,
            "COUNTERSIGN_POLICY": str(tmp_path / "policy.toml"),
            "DATABASE_URL": f"sqlite:///{tmp_path / 'c.db'}",
        }


def check_database(environ: dict[str, str]) -> CheckResult:
    """Run the check of the database."""
    return next(check_bot_database(Settings.load(environ)))


def check_one_model(environ: dict[str, str]) -> CheckResult:
    """Run the check of the model."""
    (found,) = check_model(Settings.load(environ), SystemClock())
    return found


def test_only_a_sound_database_passes(environ: dict[str, str], tmp_path: Path) -> None:
    """It is not changed. A damaged or foreign file, or one of a newer version, fails."""
    path = tmp_path / "c.db"
    with closing(sqlite3.connect(path)) as made:
        made.executescript("CREATE TABLE t (a); CREATE INDEX i ON t (a)")
        made.execute("INSERT INTO t VALUES (1)")
        made.commit()
    before = path.read_bytes()
    assert "another application" in check_database(environ).text
    assert path.read_bytes() == before

    path.unlink()
    Store(f"sqlite:///{path}").open().close()
    before = path.read_bytes()
    assert check_database(environ).level == "ok"
    assert path.read_bytes() == before
    with closing(sqlite3.connect(path)) as raw:
        raw.execute("UPDATE alembic_version SET version_num = '8888'")
        raw.commit()
    assert "newer Countersign (schema 8888)" in check_database(environ).text

    damaged = bytearray(before)
    damaged[-64:] = b"\xff" * 64
    path.write_bytes(damaged)
    assert check_database(environ).level == "fail"
    path.write_text("this is no database" * 100)
    assert check_database(environ).level == "fail"
    missing = environ | {"DATABASE_URL": "sqlite:////proc/countersign/c.db"}
    assert "not writable" in check_database(missing).text


@pytest.mark.parametrize("place", ["folder", "pipe", "device"])
def test_what_is_no_file_cannot_be_the_database(
    environ: dict[str, str], tmp_path: Path, place: str
) -> None:
    """It is neither opened, for which a pipe waits for ever, nor called sound."""
    path = tmp_path / "c.db"
    if place == "folder":
        path.mkdir()
    elif place == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to("/dev/null")
    assert "not a database" in check_database(environ).text
    with pytest.raises(SchemaError, match="not a database"):
        Store(f"sqlite:///{path}").open()
    assert "not a database" in ReadOnlyStore(path).describe_read_problem()
    with pytest.raises(BackupError, match="not a database; name a file"):
        require_place_for_record(path)


def test_a_second_name_of_the_database_is_reported(environ: dict[str, str], tmp_path: Path) -> None:
    """Each name has a log and a lock of its own: two processes would damage the file."""
    path = tmp_path / "c.db"
    Store(f"sqlite:///{path}").open().close()
    os.link(path, tmp_path / "other.db")
    assert "has a second name (a hard link)" in check_database(environ).text
    (tmp_path / "other.db").unlink()
    assert check_database(environ).level == "ok"


def test_an_upgrade_needs_free_space_for_a_copy(
    environ: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A start copies the record of an earlier version first."""
    path = unpack("0005", tmp_path).rename(tmp_path / "c.db")
    size = path.stat().st_size
    for free, level in ((size - 1, "fail"), (size, "ok")):
        found = shutil._ntuple_diskusage(0, 0, free)
        monkeypatch.setattr(shutil, "disk_usage", lambda _, found=found: found)
        assert check_database(environ).level == level


def test_a_nearly_full_disk_is_reported(
    environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With little free space it is a warning, with very little it fails."""
    levels = []
    for free in (10, 100, 5000):
        monkeypatch.setattr(
            shutil,
            "disk_usage",
            lambda _, free=free: shutil._ntuple_diskusage(0, 0, free * 1_000_000),
        )
        levels.append(list(check_bot_database(Settings.load(environ)))[-1].level)
    assert levels == ["fail", "warn", "ok"]


def test_a_model_that_the_server_lacks_fails(environ: dict[str, str]) -> None:
    """The remedy names the setting."""
    found = check_one_model(environ | {"OPENAI_MODEL": "no such/model"})
    assert found.level == "fail"
    assert "OPENAI_MODEL" in found.remedy


def test_the_model_is_tried_with_a_whole_request(environ: dict[str, str]) -> None:
    """It has the instructions and all tools, so that a too small context is found.

    The output repeats the server's error.
    """
    with StrictPlanner() as planner:
        environ["OPENAI_BASE_URL"] = planner.url
        assert check_one_model(environ).level == "ok"
        (asked,) = planner.requests
        assert asked["instructions"] == INSTRUCTIONS
        tools = build_tool_registry(
            Settings.load(environ), None, FailingSlackDirectory("without Slack")
        )
        assert [each["name"] for each in asked["tools"]] == [each.name for each in tools]
        assert asked["max_output_tokens"] <= 100
        planner.fail_next_requests(400)
        refused = check_one_model(environ)
        assert (refused.level, "refused on demand" in refused.text) == ("fail", True)
        assert "context" in refused.remedy


def test_a_model_that_does_not_reason_passes(environ: dict[str, str]) -> None:
    """It is asked again without what it does not have, as the bot asks it."""
    with StrictPlanner() as planner:
        environ |= {"OPENAI_BASE_URL": planner.url, "OPENAI_MODEL": "gpt-4.1"}
        assert check_one_model(environ).level == "ok"
        assert planner.refused == ["Encrypted content is not supported with this model."]


def test_tools_that_a_start_would_refuse_fail(environ: dict[str, str]) -> None:
    """A module is missing or has no tool, a name is used twice, or a left-out tool is unknown."""
    for modules, told in (
        ("no_such_module", "no_such_module cannot be imported (ModuleNotFoundError"),
        ("json", "the module json defines no tool"),
        ("tests.tools.twins", "two tools are named post_message"),
    ):
        (found,) = check_tools_can_be_built(Settings.load(environ | {"COUNTERSIGN_TOOLS": modules}))
        assert found.level == "fail"
        assert told in found.text
    (found,) = check_tools_can_be_built(
        Settings.load(environ | {"COUNTERSIGN_WITHOUT_TOOLS": "invite,sudo"})
    )
    assert (found.level, "WITHOUT_TOOLS: there is no tool sudo" in found.text) == ("fail", True)
    (found,) = check_tools_can_be_built(
        Settings.load(environ | {"COUNTERSIGN_WITHOUT_TOOLS": "invite"})
    )
    assert found.level == "ok"


def test_tools_without_descriptions_fail(
    environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python removes docstrings when it is told to optimise."""
    plain = {name: getattr(sys.flags, name) for name in dir(sys.flags) if name[0] != "_"}
    monkeypatch.setattr(sys, "flags", SimpleNamespace(**plain | {"optimize": 2}))
    (found,) = check_tools_can_be_built(Settings.load(environ))
    assert found.level == "fail"
    assert "PYTHONOPTIMIZE=2" in found.text


def test_a_shop_whose_file_is_missing_fails(environ: dict[str, str], tmp_path: Path) -> None:
    """Its tools would begin with an empty file."""
    shop = tmp_path / "shop.db"
    settings = Settings.load(environ | {"COUNTERSIGN_SHOP": str(shop)})
    [found] = check_agent_databases(settings)
    assert (found.level, found.text) == ("fail", f"there is no file {shop}")
    shop.touch()
    assert list(check_agent_databases(settings)) == []


def test_a_key_file_without_a_valid_key_fails(environ: dict[str, str], tmp_path: Path) -> None:
    """It fails even before there is a database."""
    key_file_path(tmp_path / "c.db").write_text("short")
    told = {each.subject: each for each in check_bot_database(Settings.load(environ))}
    assert told["key"].level == "fail"
    assert "32 characters" in told["key"].text


def test_a_model_without_a_responses_api_is_checked_by_chat(environ: dict[str, str]) -> None:
    """It gets the same request, and has to call a tool. An answer in words is a warning; a refusal
    of tools fails.
    """
    with StrictPlanner() as planner:
        environ["OPENAI_BASE_URL"] = planner.url
        planner.without = {ApiFeature.RESPONSES}
        found = check_one_model(environ)
        assert (found.level, "by the Chat Completions API" in found.text) == ("ok", True)
        first, made_to_call = planner.chats
        assert first["messages"][0] == {"role": "system", "content": INSTRUCTIONS}
        assert made_to_call["tool_choice"] == "required"
        planner.script(Turn(text="yes"), Turn(text="I cannot do that."))
        good, odd = check_model(Settings.load(environ), SystemClock())
        assert (good.level, odd.level) == ("ok", "warn")
        assert "answered in words" in odd.text
        planner.without |= {ApiFeature.REQUIRED}  # in that case it has to call one named tool
        planner.script(Turn(text="yes"), Turn(text="I cannot do that."))
        _, odd = check_model(Settings.load(environ), SystemClock())
        assert "answered in words" in odd.text
        assert planner.chats[-1]["tool_choice"]["function"] == {"name": "ready"}
        planner.without = {ApiFeature.TOOLS}
        refused = check_one_model(environ)
        assert (refused.level, "cannot call tools" in refused.text) == ("fail", True)


def test_a_configured_api_that_the_server_lacks_fails(environ: dict[str, str]) -> None:
    """The setting names the Responses API, so chat is not tried."""
    with StrictPlanner() as planner:
        environ |= {"OPENAI_BASE_URL": planner.url, "OPENAI_API": "responses"}
        planner.without = {ApiFeature.RESPONSES}
        refused = check_one_model(environ)
        assert (refused.level, "HTTP 404" in refused.text) == ("fail", True)
        assert planner.chats == []
