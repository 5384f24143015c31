"""The demo begins with two days of requests that really went through the bot."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

import pytest
from sqlmodel import col, select

from bot.config.environment import read_dotenv_file
from bot.demo.demo import build_visitor_guide, choose_http_address, start_demo, write_demo_settings
from bot.demo.first_days import PAST_REQUESTS
from countersign.cli.commands import main
from storage.models import Call, Run
from storage.states import CallStatus
from storage.transaction import fetch_rows
from tests.local_slack import build_local_slack
from tests.missing import missing
from tests.model_stand_in.planner import StrictPlanner
from tests.pages import ROOT
from tests.record_checks import find_first_broken_row
from tests.stories.messages import words

C = CallStatus


def test_the_demos_past_requests_happen_and_some_still_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """They end as planned, programs' requests too, and the clock is at now.

    Ana can list and decide what waits at a terminal in the demo's folder.
    """
    with ExitStack() as stack:
        before = time.process_time()
        demo = start_demo(stack, tmp_path, 0, {}, StrictPlanner)
        assert time.process_time() - before < 8
        with demo.app.core.store.read() as tx:
            runs = fetch_rows(tx, Run, select(Run).order_by(col(Run.created_at)))
            calls = fetch_rows(tx, Call, select(Call).order_by(col(Call.created_at)))
            assert find_first_broken_row(tx) is None
        assert len(runs) == len(PAST_REQUESTS) + 2
        assert [call.status for call in calls] == [
            C.SUCCEEDED,
            C.SUCCEEDED,
            C.REJECTED,
            C.SUCCEEDED,
            C.EXPIRED,
            C.SUCCEEDED,  # done by a program itself
            C.SUCCEEDED,
            C.PENDING,
            C.PENDING,
            C.PENDING,
        ]
        assert [run.client for run in runs if run.client] == ["ci", "help-desk"]
        assert (runs[-1].created_at - runs[0].created_at).days == 1
        assert abs((demo.sandbox.clock.now() - datetime.now(UTC)).total_seconds()) < 60
        cleo = demo.sandbox.person("cleo")
        cleo.open_home()
        seen = words(demo.sandbox.wait(cleo.home))
        assert "Refund 9.50 EUR" in seen
        assert "Update product" in seen
        assert "Refund 12.00 EUR" in seen  # asked by a program
        assert "Asked by <@UDAN00001> through “help-desk”" in seen
        threads = " ".join(words(each) for each in cleo.everything("C0ORDERS"))
        assert cleo.everything("C0SUPPORT") == []  # left to the visitor
        assert "“help-desk”, for Dan Weber, asks: “Refund 12.00 EUR" in threads
        assert "Asked by Dan Weber through “help-desk”" in threads
        monkeypatch.chdir(tmp_path)
        assert main(["pending"]) == 0
        listed = capsys.readouterr().out
        assert "asked by Dan Weber (UDAN00001) through “help-desk” in #orders" in listed
        [wanted] = re.findall(r"^(\S+)  Refund 9.50 EUR", listed, re.M)
        assert main(["approve", wanted]) == 0
        assert "Approved: Refund 9.50 EUR" in capsys.readouterr().out


def test_waiting_requests_of_the_past_outlive_the_visitors(tmp_path: Path) -> None:
    """Moving the clock past the new request's deadline expires only that one.

    The guide mentions the new card only, and names the people.
    """
    with ExitStack() as stack:
        demo = start_demo(stack, tmp_path, 0, {}, StrictPlanner)
        slack, ben = demo.sandbox, demo.sandbox.person("ben")
        guide = build_visitor_guide(slack.world)
        assert len(guide["waiting"]) == 3
        assert [each["id"][1:4] for each in guide["people"]] == ["BEN", "ANA", "CLE", "DAN"]
        assert slack.world.guide is not None
        assert slack.world.guide(slack.world)["waiting"] == []
        asked = f"<@{slack.bot_user_id}> cancel order 1043"
        ben.say("C0SUPPORT", asked)
        [card] = slack.wait(lambda: slack.world.guide(slack.world)["waiting"])
        assert (card["place"], card["deciders"]) == ("#finance-approvals", ["UCLEO0001"])
        slack.clock.advance(card["due"] - slack.world.now() + 1)
        slack.wait(lambda: not slack.world.guide(slack.world)["waiting"])
        assert len(build_visitor_guide(slack.world)["waiting"]) == 3


def test_commands_in_the_demos_folder_find_own_tools(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A request with the README's tool is listed in the demo's folder."""
    code = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text("utf-8"), re.S)
    assert code
    (tmp_path / "own_duty.py").write_text(code[1], "utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    folder = tmp_path / "var" / "demo"
    with ExitStack() as stack:
        given = {"COUNTERSIGN_TOOLS": "own_duty"}
        demo = start_demo(stack, folder, 0, given, StrictPlanner)
        slack, ben = demo.sandbox, demo.sandbox.person("ben")
        ben.say("C0SUPPORT", f"<@{slack.bot_user_id}> put Ana on duty for 12 hours")
        assert slack.world.guide is not None
        guide = slack.world.guide
        slack.wait(lambda: guide(slack.world)["waiting"])
        environ = {each: os.environ[each] for each in ("PATH", "HOME") if each in os.environ}
        done = subprocess.run(
            [sys.executable, "-m", "bot", "pending"],
            cwd=folder,
            env={**environ, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert "Put Ana on duty for 12 hours" in done.stdout, done.stderr


@pytest.mark.parametrize("named", [True, False])
def test_the_demo_uses_ones_own_policy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, named: bool
) -> None:
    """COUNTERSIGN_POLICY, else `policy.toml` where the demo starts. There is no past then."""
    monkeypatch.chdir(tmp_path)
    file = tmp_path / ("mine.toml" if named else "policy.toml")
    file.write_text('[defaults]\napprovers = ["UDAN00001"]\ndeadline = "7m"\n', "utf-8")
    environ = {"COUNTERSIGN_POLICY": file.name} if named else {}
    with ExitStack() as stack:
        demo = start_demo(stack, tmp_path / "demo", 0, environ, StrictPlanner)
        slack, ben = demo.sandbox, demo.sandbox.person("ben")
        assert ben.everything("C0ORDERS") == []
        ben.say("C0SUPPORT", f"<@{slack.bot_user_id}> cancel order 1043")
        assert slack.world.guide is not None
        guide = slack.wait(lambda: (g := slack.world.guide(slack.world))["waiting"] and g)
        assert guide["waiting"][0]["deciders"] == ["UDAN00001"]
        assert guide["waiting"][0]["due"] - slack.world.now() <= 7 * 60
        assert guide["people"][1]["text"] == "is in @shop-leads."
        written = (tmp_path / "demo" / ".env").read_text("utf-8")
        assert f"COUNTERSIGN_POLICY='{file}'" in written


def test_the_demo_without_the_serve_extra_opens_no_port(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the extra `serve` it listens at a free port."""
    assert int(choose_http_address(0).removeprefix("127.0.0.1:")) > 1024
    assert int(choose_http_address(None).rpartition(":")[2]) in range(8080, 8100)
    missing(monkeypatch, "uvicorn", "bot.http.server", "bot.http.http_side")
    assert choose_http_address(0) == ""


def test_databases_and_servers_can_be_named_for_the_demo(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In files, which commands in the demo's folder find too, with the variables they use.

    Without files there are no servers, and only the shop.
    """
    servers = '[[server]]\nname = "warehouse"\ncommand = "python"\nargs = ["$FROM"]\n'
    (tmp_path / "servers.toml").write_text(servers, "utf-8")
    databases = '[[database]]\nname = "stock"\nabout = "Stock"\nurl_env = "STOCK_URL"\n'
    (tmp_path / "stock.toml").write_text(databases, "utf-8")
    named = {
        "COUNTERSIGN_SERVERS": "servers.toml",
        "COUNTERSIGN_DATABASES": "stock.toml",
        "FROM": "stock.py",
        "STOCK_URL": "sqlite:///stock.db",
        "SLACK_SIGNING_SECRET": "of another app",
    }
    monkeypatch.chdir(tmp_path)
    with build_local_slack() as sandbox, StrictPlanner() as planner:
        settings = write_demo_settings(tmp_path, sandbox, planner, named, "")
        assert settings.servers is not None
        [server] = settings.servers.servers
        assert [each.get_secret_value() for each in server.args] == ["stock.py"]
        assert [each.name for each in settings.databases] == ["stock"]
        assert not settings.slack_signing_secret.get_secret_value()
        written = read_dotenv_file(tmp_path / ".env")
        assert written["COUNTERSIGN_SERVERS"] == str(tmp_path / "servers.toml")
        assert written["COUNTERSIGN_DATABASES"] == str(tmp_path / "stock.toml")
        assert written["OPENAI_API_KEY"] == "offline"
        settings = write_demo_settings(tmp_path, sandbox, planner, {}, "")
        assert settings.servers is None
        assert [each.name for each in settings.databases] == ["shop"]
        write_demo_settings(tmp_path, sandbox, None, {"OPENAI_API_KEY": "sk-mine"}, "")
        assert "sk-mine" not in (tmp_path / ".env").read_text("utf-8")
