"""`countersign doctor` and `policy check` on rules that require signatures."""

from __future__ import annotations

from pathlib import Path

import pytest

from bot.checks.people_checks import check_signing_setup
from bot.cli.doctor.doctor import run_checks_beyond_configuration
from bot.clock import SystemClock
from bot.config.connection_settings import MISSING, ListeningAddress
from bot.config.settings import Settings
from bot.policy.evaluation import PolicyError, parse
from countersign.cli.commands import main

SIGNED = 'approvers = ["@shop-leads"]\nsignature = "passkey"\n'
READY = {"url": "https://approve.example.com", "http": ListeningAddress("127.0.0.1", 0)}
MODEL = "2fc0579f-8113-47ea-b116-bb5a8db9202a"


def check_signing(settings: Settings, policy: str, **changed: object) -> list[str]:
    """List the lines about this policy with these settings."""
    made = settings.model_copy(update=changed)
    return [str(each) for each in check_signing_setup(made, parse(policy))]


def test_a_complete_set_up_for_signing_is_fine(settings: Settings) -> None:
    """A line says where people sign; there is none if nobody has to sign."""
    found = check_signing(settings, f"[defaults]\n{SIGNED}", **READY)
    assert found == ["ok    passkeys: people sign at https://approve.example.com"]
    assert check_signing(settings, '[defaults]\napprovers = ["@shop-leads"]\n') == []


@pytest.mark.parametrize(
    ("policy", "changed", "part"),
    [
        ("", {"url": None}, "COUNTERSIGN_URL is not set"),
        ("", {"url": "http://approve.example.com"}, "browsers sign only over https"),
        ("", {"http": None}, "nothing serves the page on which people sign"),
        (
            f'[passkeys]\nmodels = ["{MODEL}"]\nroots = "-----BEGIN CERTIFICATE-----"\n',
            {},
            "the certificates in roots cannot be read",
        ),
    ],
)
def test_an_incomplete_set_up_for_signing_fails(
    settings: Settings, policy: str, changed: dict[str, object], part: str
) -> None:
    """Until it is mended, calls that have to be signed cannot be approved."""
    found = check_signing(settings, f"[defaults]\n{SIGNED}{policy}", **{**READY, **changed})
    [line] = [each for each in found if not each.startswith("ok")]
    assert line.startswith("fail  passkeys: ")
    assert part in line


def test_signing_is_checked_before_there_is_a_record(settings: Settings) -> None:
    """Nobody can have a passkey before the first start."""
    made = settings.model_copy(update={**READY, "openai_api_key": MISSING})
    policy = parse(f"[defaults]\n{SIGNED}")
    found = [str(each) for each in run_checks_beyond_configuration(made, policy, SystemClock())]
    assert "ok    passkeys: people sign at https://approve.example.com" in found
    assert any("is created at the first start" in each for each in found)


def test_new_passkeys_that_nobody_could_approve_are_reported(settings: Settings) -> None:
    """Only members of a channel sign, so the policy names no approver of passkeys."""
    policy = '[defaults]\napprovers = ["channel"]\nsignature = "passkey"\n'
    [_, line] = check_signing(settings, policy, **READY)
    assert "nobody could approve a new passkey" in line
    assert len(check_signing(settings, f'{policy}[passkeys]\nenrol = "self"\n', **READY)) == 1


def test_a_policy_with_passkey_models_needs_certificates() -> None:
    """Only the maker's certificates prove which model a passkey is."""
    with pytest.raises(PolicyError, match="only the maker"):
        parse(f'[defaults]\n{SIGNED}[passkeys]\nmodels = ["{MODEL}"]\n')


def test_policy_check_reports_signing_problems_without_slack(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """No token is set."""
    monkeypatch.chdir(tmp_path)
    for name in ("SLACK_BOT_TOKEN", "SLACK_APP_TOKEN", "DATABASE_URL", "COUNTERSIGN_URL"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "p.toml").write_text(f"[defaults]\n{SIGNED}")
    assert main(["policy", "check", "--policy", "p.toml"]) == 1
    assert "fail  passkeys: COUNTERSIGN_URL is not set" in capsys.readouterr().out
