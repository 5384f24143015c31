"""`countersign doctor` with a local Slack and planner: what it finds and recommends."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bot.checks.check import CheckResult, print_checks
from bot.cli.doctor.doctor import run_all_checks, run_checks_beyond_configuration
from bot.clock import SystemClock
from bot.config.settings import Settings
from bot.policy.evaluation import Policy, parse
from slack_sandbox.server import Sandbox
from slack_sandbox.workspace.clock import ShiftedClock
from tests.local_slack import build_local_slack, read_countersign_manifest
from tests.model_stand_in.planner import StrictPlanner

SOUND = '[defaults]\napprovers = ["@shop-leads", "UDAN00001"]\npost_to = "#finance-approvals"\n'


@pytest.fixture(scope="module")
def planner() -> Iterator[StrictPlanner]:
    """A local planner for all tests of this module."""
    with StrictPlanner() as server:
        yield server


@pytest.fixture
def sandbox() -> Iterator[Sandbox]:
    """A fresh local Slack."""
    with build_local_slack() as server:
        yield server


@pytest.fixture
def environ(sandbox: Sandbox, planner: StrictPlanner, tmp_path: Path) -> dict[str, str]:
    """The variables of a bot on the local Slack."""
    (tmp_path / "policy.toml").write_text(SOUND)
    return {
        "SLACK_BOT_TOKEN": sandbox.bot_token,
        "SLACK_APP_TOKEN": sandbox.app_token,
        "SLACK_API_URL": sandbox.api_url,
        "OPENAI_API_KEY": "offline",
        "OPENAI_BASE_URL": planner.url,
        "COUNTERSIGN_POLICY": str(tmp_path / "policy.toml"),
        "DATABASE_URL": f"sqlite:///{tmp_path / 'c.db'}",
    }


def run_checks(environ: dict[str, str], policy: str | Policy = SOUND) -> dict[str, CheckResult]:
    """Run all checks with this policy, and map them by subject."""
    parsed = parse(policy) if isinstance(policy, str) else policy
    return {
        each.subject: each
        for each in run_checks_beyond_configuration(Settings.load(environ), parsed, SystemClock())
    }


def test_a_sound_set_up_passes_every_check(environ: dict[str, str], sandbox: Sandbox) -> None:
    """The exit code is 0. Nothing is written to Slack or to the disk."""
    lines: list[str] = []
    assert print_checks(run_all_checks(environ, None, SystemClock()), lines.append) == 0
    assert [each for each in lines[:-1] if not each.startswith("ok ")] == []
    assert lines[-1].endswith("0 to look at, 0 wrong")
    about = "\n".join(lines)
    for word in (
        "settings",
        "policy",
        "bot token",
        "app token",
        "scopes",
        "clock",
        "channel",
        "@shop-leads",
        "UDAN00001",
    ):
        assert word in about
    for word in ("database", "disk", "model"):
        assert word in about
    called = {each.method for each in sandbox.requests}
    assert not {
        each for each in called if each.startswith(("chat.", "views.", "conversations.open"))
    }
    assert not Settings.load(environ).database_path.exists()


def test_wrong_settings_and_a_wrong_policy_are_reported_together(
    environ: dict[str, str], tmp_path: Path
) -> None:
    """Each problem has a line, and the exit code is 1."""
    (tmp_path / "policy.toml").write_text('[defaults]\napprovers = []\ndeadline = "soon"\n')
    del environ["SLACK_APP_TOKEN"]
    lines: list[str] = []
    assert print_checks(run_all_checks(environ, None, SystemClock()), lines.append) == 1
    assert [each.split(":")[0] for each in lines] == [
        "fail  settings",
        "fail  policy",
        "fail  policy",
        "0 ok, 0 to look at, 3 wrong",
    ]


def test_without_a_model_people_ask_with_forms(environ: dict[str, str]) -> None:
    """That is a warning."""
    del environ["OPENAI_API_KEY"]
    found = run_checks(environ)["model"]
    assert (found.level, "people ask with forms" in found.text) == ("warn", True)


def test_a_setting_that_is_ignored_is_only_a_warning(environ: dict[str, str]) -> None:
    """It is removed from the environment, and the exit code is 0."""
    environ["SLACK_CLIENT_ID"] = "1.2"
    lines: list[str] = []
    assert print_checks(run_all_checks(environ, None, SystemClock()), lines.append) == 0
    assert any(each.startswith("warn  settings: SLACK_CLIENT_ID") for each in lines)
    assert "SLACK_CLIENT_ID" not in environ


def test_each_token_is_tried_separately(environ: dict[str, str]) -> None:
    """A wrong one is reported in Slack's words, and never shown."""
    found = run_checks(environ | {"SLACK_BOT_TOKEN": "xoxb-wrong"})
    assert (found["bot token"].level, found["app token"].level) == ("fail", "ok")
    assert "invalid_auth" in found["bot token"].text
    found = run_checks(environ | {"SLACK_APP_TOKEN": "xapp-wrong"})
    assert (found["bot token"].level, found["app token"].level) == ("ok", "fail")
    assert "xapp-wrong" not in str(found["app token"])


def test_an_app_token_of_another_app_is_found(environ: dict[str, str], sandbox: Sandbox) -> None:
    """Both tokens have to belong to one app; another app gets other deliveries."""
    other = sandbox.install(read_countersign_manifest())
    found = run_checks(environ | {"SLACK_APP_TOKEN": other.app_token})
    assert found["app token"].level == "fail"
    assert f"to the app {other.id}, but the bot token to the app" in found["app token"].text
    assert found["bot token"].level == "ok"


def test_unreachable_slack_and_model_are_reported(environ: dict[str, str]) -> None:
    """Other checks are still made."""
    found = run_checks(
        environ
        | {"SLACK_API_URL": "http://127.0.0.1:9/api/", "OPENAI_BASE_URL": "http://127.0.0.1:9/v1"}
    )
    assert {
        each: found[each].level for each in ("bot token", "app token", "model", "database")
    } == {
        "bot token": "fail",
        "app token": "fail",
        "model": "fail",
        "database": "ok",
    }
    assert "Slack cannot be reached (Connection refused)" in found["bot token"].text
    assert "the API cannot be reached (Connection refused)" in found["model"].text


@pytest.mark.parametrize(
    ("take", "add", "level", "named"),
    [
        ("usergroups:read", "", "fail", "usergroups:read"),
        ("", "pins:write", "warn", "pins:write"),
        ("files:read", "", "ok", ""),
        ("users.profile:read", "", "ok", "without users.profile:read"),
        ("dnd:read", "", "ok", "without dnd:read"),
    ],
)
def test_scopes_are_compared_with_the_manifest(
    environ: dict[str, str], take: str, add: str, level: str, named: str
) -> None:
    """A missing scope fails, an unneeded one is a warning. files:read is for files only."""
    manifest: dict[str, Any] = read_countersign_manifest()
    scopes = manifest["oauth_config"]["scopes"]
    scopes["bot"] = [each for each in [*scopes["bot"], add] if each and each != take]
    with Sandbox(manifest) as sandbox:
        here = {"SLACK_API_URL": sandbox.api_url, "SLACK_BOT_TOKEN": sandbox.bot_token}
        found = run_checks(environ | here | {"COUNTERSIGN_FILES": "off"})
    assert found["scopes"].level == level
    assert named in found["scopes"].text
    assert (found["approvers @shop-leads"].level == "fail") is (take == "usergroups:read")


def test_a_policy_with_managers_needs_their_scope(environ: dict[str, str]) -> None:
    """Without `users.profile:read` the check fails."""
    manifest: dict[str, Any] = read_countersign_manifest()
    manifest["oauth_config"]["scopes"]["bot"].remove("users.profile:read")
    policy = (
        '[manager]\nfield = "Manager"\n[[rule]]\nverdict = "ask"\n'
        'approvers = ["manager of requester"]\n'
    )
    with Sandbox(manifest) as sandbox:
        here = {"SLACK_API_URL": sandbox.api_url, "SLACK_BOT_TOKEN": sandbox.bot_token}
        found = run_checks(environ | here, SOUND + policy)
    assert found["scopes"].level == "fail"
    assert "users.profile:read" in found["scopes"].text


def test_a_wrong_clock_is_found(environ: dict[str, str]) -> None:
    """It fails from a minute of difference from Slack's clock; deadlines depend on it."""
    settings, policy, clock = Settings.load(environ), parse(SOUND), ShiftedClock()
    clock.advance(50)
    assert (
        next(
            each
            for each in run_checks_beyond_configuration(settings, policy, clock)
            if each.subject == "clock"
        ).level
        == "ok"
    )
    clock.advance(20)
    late = next(
        each
        for each in run_checks_beyond_configuration(settings, policy, clock)
        if each.subject == "clock"
    )
    assert (late.level, "ahead of" in late.text) == ("fail", True)


@pytest.mark.parametrize(
    ("place", "level", "said"),
    [
        ("C0FINANCE", "ok", "the bot is in it"),
        ("#support", "ok", "the bot is in it"),
        ("#random", "fail", "/invite"),
        ("C0RANDOM", "fail", "/invite"),
        ("#nowhere", "fail", "does not exist"),
        ("C0NOWHERE", "fail", "does not exist"),
        ("C0PARTNER", "warn", "another company"),
    ],
)
def test_channels_to_post_to_must_exist_and_have_the_bot(
    environ: dict[str, str], place: str, level: str, said: str
) -> None:
    """A channel shared with another company is a warning."""
    check = run_checks(environ, SOUND.replace("#finance-approvals", place))[f"channel {place}"]
    assert check.level == level
    assert said in str(check)


def test_an_archived_channel_to_post_to_fails(environ: dict[str, str], sandbox: Sandbox) -> None:
    """Cards cannot be posted there."""
    sandbox.archive("C0FINANCE")
    assert (
        run_checks(environ, SOUND.replace("#finance-approvals", "C0FINANCE"))[
            "channel C0FINANCE"
        ].level
        == "fail"
    )


@pytest.mark.parametrize(
    ("approver", "said"),
    [
        ("UGUS00001", "is a guest"),
        ("UZOE00001", "is deactivated"),
        ("UEVE00001", "belongs to another workspace"),
        ("UBOT00001", "is a bot"),
        ("U0NOBODY1", "no such person"),
        ("@nobody", "is empty"),
        ("@no-such-group", "no such user group"),
    ],
)
def test_approvers_who_could_never_decide_are_found(
    environ: dict[str, str], approver: str, said: str
) -> None:
    """Guests, bots, deactivated or foreign people, and unknown ones."""
    found = run_checks(
        environ, f'[defaults]\napprovers = ["UANA00001", "UDAN00001", "{approver}"]\n'
    )
    check = found[f"approvers {approver}" if approver.startswith("@") else f"approver {approver}"]
    assert check.level == "fail"
    assert said in check.text
    assert found["approver UANA00001"].level == "ok"


def test_a_group_without_members_who_may_decide_fails(
    environ: dict[str, str], sandbox: Sandbox
) -> None:
    """Its members are a guest and a deactivated person."""
    sandbox.set_group("shop-leads", ["gus", "zoe"])
    assert "none of its members" in run_checks(environ)["approvers @shop-leads"].text


def test_a_single_approver_is_a_warning(environ: dict[str, str]) -> None:
    """Nobody could approve that person's own requests, unless the rule allows self-approval."""
    alone = '[defaults]\napprovers = ["@finance", "UCLEO0001"]\n'
    assert run_checks(environ, alone)["rule 'default'"].level == "warn"
    assert "rule 'default'" not in run_checks(environ, alone + "self_approval = true\n")
    assert "rule 'default'" not in run_checks(environ, alone.replace("UCLEO0001", "UANA00001"))


def test_direct_messages_to_many_people_are_a_warning(environ: dict[str, str]) -> None:
    """It warns from more than fifty people."""
    crowd = ", ".join(f'"U0CROWD{number:02}"' for number in range(50))
    policy = f'[defaults]\npost_to = "approvers"\napprovers = ["UANA00001", {crowd}]\n'
    assert "direct message" in run_checks(environ, policy)["rule 'default'"].text
    assert (
        "direct message"
        not in run_checks(environ, policy.replace('"approvers"', '"thread"'))["rule 'default'"].text
    )
    fewer = policy.replace('"UANA00001", "U0CROWD00"', '"UANA00001"')
    assert "direct message" not in run_checks(environ, fewer)["rule 'default'"].text
