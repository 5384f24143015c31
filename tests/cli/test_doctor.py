"""`countersign doctor` against the local Slack and planner: what it finds, and says to do."""

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
    """One local planner for all."""
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


def look(environ: dict[str, str], policy: str | Policy = SOUND) -> dict[str, CheckResult]:
    """All checks with this policy, by what they are about."""
    parsed = parse(policy) if isinstance(policy, str) else policy
    return {
        each.subject: each
        for each in run_checks_beyond_configuration(Settings.load(environ), parsed, SystemClock())
    }


def test_a_sound_set_up_passes_every_check(environ: dict[str, str], sandbox: Sandbox) -> None:
    """Where all is well every look says so, and the exit code is 0.

    Nothing was written to Slack or to disk.
    """
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


def test_wrong_settings_and_policy_are_told_together(
    environ: dict[str, str], tmp_path: Path
) -> None:
    """Wrong settings and a wrong policy are told together, a line each, and the exit code is 1."""
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


def test_without_a_model_there_are_forms(environ: dict[str, str]) -> None:
    """No key of a model is nothing wrong; that people then ask with forms is said."""
    del environ["OPENAI_API_KEY"]
    found = look(environ)["model"]
    assert (found.level, "people ask with forms" in found.text) == ("warn", True)


def test_what_is_only_odd_does_not_fail(environ: dict[str, str]) -> None:
    """What is only odd is told as such, taken out of the way, and does not fail the look."""
    environ["SLACK_CLIENT_ID"] = "1.2"
    lines: list[str] = []
    assert print_checks(run_all_checks(environ, None, SystemClock()), lines.append) == 0
    assert any(each.startswith("warn  settings: SLACK_CLIENT_ID") for each in lines)
    assert "SLACK_CLIENT_ID" not in environ


def test_each_token_is_tried_by_itself(environ: dict[str, str]) -> None:
    """Each token is tried by itself; a wrong one is told in Slack's words, and never shown."""
    found = look(environ | {"SLACK_BOT_TOKEN": "xoxb-wrong"})
    assert (found["bot token"].level, found["app token"].level) == ("fail", "ok")
    assert "invalid_auth" in found["bot token"].text
    found = look(environ | {"SLACK_APP_TOKEN": "xapp-wrong"})
    assert (found["bot token"].level, found["app token"].level) == ("ok", "fail")
    assert "xapp-wrong" not in str(found["app token"])


def test_an_app_token_of_another_app_is_found(environ: dict[str, str], sandbox: Sandbox) -> None:
    """Both tokens have to be one app's: the other app's deliveries would go elsewhere."""
    other = sandbox.install(read_countersign_manifest())
    found = look(environ | {"SLACK_APP_TOKEN": other.app_token})
    assert found["app token"].level == "fail"
    assert f"to the app {other.id}, but the bot token to the app" in found["app token"].text
    assert found["bot token"].level == "ok"


def test_what_cannot_be_reached_is_said(environ: dict[str, str]) -> None:
    """Where neither Slack nor the model can be reached, that is said.

    The rest is still looked at.
    """
    found = look(
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
def test_scopes_are_held_against_the_manifest(
    environ: dict[str, str], take: str, add: str, level: str, named: str
) -> None:
    """The scopes Slack reports are held against the manifest.

    A missing one fails, a needless one is told; files need not be read where no model gets them.
    """
    manifest: dict[str, Any] = read_countersign_manifest()
    scopes = manifest["oauth_config"]["scopes"]
    scopes["bot"] = [each for each in [*scopes["bot"], add] if each and each != take]
    with Sandbox(manifest) as sandbox:
        here = {"SLACK_API_URL": sandbox.api_url, "SLACK_BOT_TOKEN": sandbox.bot_token}
        found = look(environ | here | {"COUNTERSIGN_FILES": "off"})
    assert found["scopes"].level == level
    assert named in found["scopes"].text
    assert (found["approvers @shop-leads"].level == "fail") is (take == "usergroups:read")


def test_managers_need_a_scope(environ: dict[str, str]) -> None:
    """Where the policy asks for them."""
    manifest: dict[str, Any] = read_countersign_manifest()
    manifest["oauth_config"]["scopes"]["bot"].remove("users.profile:read")
    policy = (
        '[manager]\nfield = "Manager"\n[[rule]]\nverdict = "ask"\n'
        'approvers = ["manager of requester"]\n'
    )
    with Sandbox(manifest) as sandbox:
        here = {"SLACK_API_URL": sandbox.api_url, "SLACK_BOT_TOKEN": sandbox.bot_token}
        found = look(environ | here, SOUND + policy)
    assert found["scopes"].level == "fail"
    assert "users.profile:read" in found["scopes"].text


def test_a_wrong_clock_is_found(environ: dict[str, str]) -> None:
    """A clock that is a minute or more from Slack's fails; deadlines hang on it."""
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
def test_the_bot_must_be_in_channels_it_posts_to(
    environ: dict[str, str], place: str, level: str, said: str
) -> None:
    """A channel that the policy names must exist, be the company's own, and have the bot in it."""
    check = look(environ, SOUND.replace("#finance-approvals", place))[f"channel {place}"]
    assert check.level == level
    assert said in str(check)


def test_an_archived_channel_takes_no_cards(environ: dict[str, str], sandbox: Sandbox) -> None:
    """Cards cannot be posted to an archived channel."""
    sandbox.archive("C0FINANCE")
    assert (
        look(environ, SOUND.replace("#finance-approvals", "C0FINANCE"))["channel C0FINANCE"].level
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
    """An approver who could never decide is found beforehand.

    That is a guest, a bot, somebody deactivated, somebody foreign, or nobody.
    """
    found = look(environ, f'[defaults]\napprovers = ["UANA00001", "UDAN00001", "{approver}"]\n')
    check = found[f"approvers {approver}" if approver.startswith("@") else f"approver {approver}"]
    assert check.level == "fail"
    assert said in check.text
    assert found["approver UANA00001"].level == "ok"


def test_a_group_of_strangers_decides_nothing(environ: dict[str, str], sandbox: Sandbox) -> None:
    """A group whose members are all guests or deactivated has nobody who may decide."""
    sandbox.set_group("shop-leads", ["gus", "zoe"])
    assert "none of its members" in look(environ)["approvers @shop-leads"].text


def test_a_single_approver_is_told(environ: dict[str, str]) -> None:
    """One approver alone cannot have own requests approved.

    Told unless the rule allows self-approval.
    """
    alone = '[defaults]\napprovers = ["@finance", "UCLEO0001"]\n'
    assert look(environ, alone)["rule 'default'"].level == "warn"
    assert "rule 'default'" not in look(environ, alone + "self_approval = true\n")
    assert "rule 'default'" not in look(environ, alone.replace("UCLEO0001", "UANA00001"))


def test_a_crowd_in_direct_messages_is_told(environ: dict[str, str]) -> None:
    """More than fifty people who would each get a direct message are worth a warning."""
    crowd = ", ".join(f'"U0CROWD{number:02}"' for number in range(50))
    policy = f'[defaults]\npost_to = "approvers"\napprovers = ["UANA00001", {crowd}]\n'
    assert "direct message" in look(environ, policy)["rule 'default'"].text
    assert (
        "direct message"
        not in look(environ, policy.replace('"approvers"', '"thread"'))["rule 'default'"].text
    )
    fewer = policy.replace('"UANA00001", "U0CROWD00"', '"UANA00001"')
    assert "direct message" not in look(environ, fewer)["rule 'default'"].text
