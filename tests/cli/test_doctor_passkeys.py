"""What `countersign doctor` and `policy check` say where a rule asks for signatures."""

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


def said(settings: Settings, policy: str, **changed: object) -> list[str]:
    """What is said of this policy with these settings."""
    made = settings.model_copy(update=changed)
    return [str(each) for each in check_signing_setup(made, parse(policy))]


def test_all_that_it_takes_is_there(settings: Settings) -> None:
    """One line says where people sign; nothing is said where nobody has to."""
    found = said(settings, f"[defaults]\n{SIGNED}", **READY)
    assert found == ["ok    passkeys: people sign at https://approve.example.com"]
    assert said(settings, '[defaults]\napprovers = ["@shop-leads"]\n') == []


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
def test_what_is_missing(
    settings: Settings, policy: str, changed: dict[str, object], part: str
) -> None:
    """Each is a failure: until it is mended, nothing that has to be signed can be approved."""
    found = said(settings, f"[defaults]\n{SIGNED}{policy}", **{**READY, **changed})
    [line] = [each for each in found if not each.startswith("ok")]
    assert line.startswith("fail  passkeys: ")
    assert part in line


def test_there_is_no_record_yet(settings: Settings) -> None:
    """Before the first start nobody can have a passkey, and all the other checks are made."""
    made = settings.model_copy(update={**READY, "openai_api_key": MISSING})
    policy = parse(f"[defaults]\n{SIGNED}")
    found = [str(each) for each in run_checks_beyond_configuration(made, policy, SystemClock())]
    assert "ok    passkeys: people sign at https://approve.example.com" in found
    assert any("is created at the first start" in each for each in found)


def test_nobody_could_approve_a_passkey(settings: Settings) -> None:
    """Where only a channel's members sign, nobody is named who could let a passkey count."""
    policy = '[defaults]\napprovers = ["channel"]\nsignature = "passkey"\n'
    [_, line] = said(settings, policy, **READY)
    assert "nobody could approve a new passkey" in line
    assert len(said(settings, f'{policy}[passkeys]\nenrol = "self"\n', **READY)) == 1


def test_models_need_their_makers() -> None:
    """A model is its maker's word, so a policy that names models names certificates."""
    with pytest.raises(PolicyError, match="only the maker"):
        parse(f'[defaults]\n{SIGNED}[passkeys]\nmodels = ["{MODEL}"]\n')


def test_a_policy_is_checked_without_a_workspace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`policy check` says what it can without Slack."""
    monkeypatch.chdir(tmp_path)
    for name in ("SLACK_BOT_TOKEN", "SLACK_APP_TOKEN", "DATABASE_URL", "COUNTERSIGN_URL"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "p.toml").write_text(f"[defaults]\n{SIGNED}")
    assert main(["policy", "check", "--policy", "p.toml"]) == 1
    assert "fail  passkeys: COUNTERSIGN_URL is not set" in capsys.readouterr().out
