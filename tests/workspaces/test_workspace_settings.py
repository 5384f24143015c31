"""Settings of one workspace, which it may not set, and errors in an installation's settings."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bot.config.settings import Settings, SettingsError
from bot.config.startup import read_settings_and_policy
from storage.digest import parse_signing_key
from tests.model_stand_in.planner import StrictPlanner
from tests.workspaces.hosting import ONE, POLICY, TWO, Hosting, plan_note

RULES = Path(__file__).parents[1] / "stories" / "rules.toml"
KEY, OTHER = "k" * 40, "o" * 40
POSTGRES = "postgresql://bot@127.0.0.1:5432/bot"
HOST_SETTINGS = {
    "COUNTERSIGN_CLIENT_ID": "1.2",
    "COUNTERSIGN_CLIENT_SECRET": "secret",
    "COUNTERSIGN_URL": "https://approve.example.com",
    "SLACK_SIGNING_SECRET": "s" * 32,
    "SLACK_APP_TOKEN": "xapp-1",
    "COUNTERSIGN_POLICY": str(RULES),
}


def load_settings(folder: Path, workspace: str = "T1", said: str = "", **given: str) -> Settings:
    """Load the settings of a workspace with these of its own, besides the installation's."""
    own = folder / workspace
    own.mkdir(parents=True, exist_ok=True)
    (own / "settings.env").write_text(said, "utf-8")
    about = {"COUNTERSIGN_WORKSPACE": workspace, "SLACK_BOT_TOKEN": "xoxb-1"}
    return Settings.load({**HOST_SETTINGS, "COUNTERSIGN_WORKSPACES": str(folder), **about, **given})


def list_problems(given: dict[str, str]) -> list[str]:
    """List what is wrong with these settings."""
    with pytest.raises(SettingsError) as raised:
        Settings.load(given)
    return list(raised.value.problems)


def test_a_workspaces_own_settings_come_first(tmp_path: Path) -> None:
    """Limits, model and operator. Others are those of the installation."""
    said = "COUNTERSIGN_MAX_TURNS=3\nOPENAI_MODEL=small\nCOUNTERSIGN_OPERATOR=UANA00001\n"
    given = {"COUNTERSIGN_MAX_TURNS": "9", "COUNTERSIGN_MAX_CALLS": "8", "OPENAI_MODEL": "big"}
    found, other = (
        load_settings(tmp_path, said=said, **given),
        load_settings(tmp_path, "T2", **given),
    )
    assert (found.max_turns, found.max_calls, found.openai_model) == (3, 8, "small")
    assert (other.max_turns, other.max_calls, other.openai_model) == (9, 8, "big")
    assert (found.operator, other.operator) == ("UANA00001", None)
    assert found.client_id is None
    assert found.url == "https://approve.example.com/w/T1"
    assert found.database_url == f"sqlite:///{tmp_path}/T1/countersign.db"
    assert found.http is None


def test_a_workspaces_own_policy_applies_only_there(tmp_path: Path) -> None:
    """It is `policy.toml` in the workspace's folder."""
    assert str(load_settings(tmp_path).policy_path) == str(RULES)
    (tmp_path / "T1" / "policy.toml").write_text(POLICY)
    assert load_settings(tmp_path).policy_path == tmp_path / "T1" / "policy.toml"
    assert str(load_settings(tmp_path, "T2").policy_path) == str(RULES)


def test_relative_paths_are_in_the_workspaces_folder(tmp_path: Path) -> None:
    """An absolute path is used as it is."""
    assert (
        load_settings(tmp_path, said="COUNTERSIGN_SHOP=shop.db").shop_path
        == tmp_path / "T1" / "shop.db"
    )
    assert load_settings(tmp_path, said="COUNTERSIGN_SHOP=/srv/shop.db").shop_path == Path(
        "/srv/shop.db"
    )


@pytest.mark.parametrize(
    "name",
    [
        *("SLACK_BOT_TOKEN", "SLACK_SIGNING_SECRET", "SLACK_API_URL", "DATABASE_URL"),
        *("COUNTERSIGN_CLIENT_ID", "COUNTERSIGN_CLIENT_SECRET", "COUNTERSIGN_WORKSPACES"),
        *("COUNTERSIGN_WORKSPACE", "COUNTERSIGN_URL", "COUNTERSIGN_HTTP"),
        *("COUNTERSIGN_TOKEN_KEYS", "COUNTERSIGN_TRACES", "COUNTERSIGN_LOG", "COUNTERSIGN_POLICY"),
        *("COUNTERSIGN_LOG_FORMAT", "COUNTERSIGN_KEEP_REMOVED_DAYS"),
    ],
)
def test_a_setting_that_is_shared_cannot_be_a_workspaces_own(tmp_path: Path, name: str) -> None:
    """The error names the file and not the value."""
    with pytest.raises(SettingsError) as raised:
        load_settings(tmp_path, said=f"{name}=something-of-its-own")
    [said] = [each for each in raised.value.problems if each.startswith(f"{name}: is one")]
    assert said == f"{name}: is one for all workspaces; take it out of {tmp_path}/T1/settings.env"
    assert "something-of-its-own" not in str(raised.value)


def test_an_unreadable_settings_file_is_named(tmp_path: Path) -> None:
    """The error says why it cannot be read."""
    load_settings(tmp_path)
    (tmp_path / "T1" / "settings.env").write_bytes(b"COUNTERSIGN_MAX_TURNS=\xff\xfe")
    about = {"COUNTERSIGN_WORKSPACE": "T1", "COUNTERSIGN_WORKSPACES": str(tmp_path)}
    said = list_problems({**HOST_SETTINGS, **about, "SLACK_BOT_TOKEN": "xoxb-1"})
    assert f"{tmp_path}/T1/settings.env is not UTF-8 text; correct or remove it" in said


def test_each_workspace_has_its_schema_and_keys_on_postgresql(tmp_path: Path) -> None:
    """Its keys are in the order of the installation's keys."""
    shared = {"DATABASE_URL": POSTGRES, "COUNTERSIGN_KEY": f"{KEY},{OTHER}"}
    found = {each: load_settings(tmp_path, each, **shared) for each in ("T1", "T2")}
    for each, settings in found.items():
        assert f"schema=countersign_{each.lower()}" in settings.database_url
    keys: set[Any] = {str(settings.signing_key) for settings in found.values()}
    assert len(keys) == 2
    assert KEY not in str(keys)
    turned = load_settings(tmp_path, **{**shared, "COUNTERSIGN_KEY": f"{OTHER},{KEY}"})
    assert turned.signing_key != found["T1"].signing_key
    assert parse_signing_key(KEY) not in (each.signing_key for each in found.values())


@pytest.mark.parametrize("workspace", ["t1", "X1", "T1/../T2", "T", "../T1"])
def test_an_invalid_workspace_id_is_refused(workspace: str, tmp_path: Path) -> None:
    """It is refused before any file is read or created."""
    about = {"COUNTERSIGN_WORKSPACE": workspace, "COUNTERSIGN_WORKSPACES": str(tmp_path)}
    said = list_problems({**HOST_SETTINGS, **about, "SLACK_BOT_TOKEN": "xoxb-1"})
    assert any("does not look like one" in each and "about, T… (or E…" in each for each in said)
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (
            {"COUNTERSIGN_CLIENT_ID": None},
            "COUNTERSIGN_CLIENT_ID: is missing beside COUNTERSIGN_CLIENT_SECRET",
        ),
        (
            {"COUNTERSIGN_CLIENT_SECRET": None},
            "COUNTERSIGN_CLIENT_SECRET: is missing beside COUNTERSIGN_CLIENT_ID",
        ),
        ({"COUNTERSIGN_URL": None}, "COUNTERSIGN_URL: is missing beside COUNTERSIGN_CLIENT_ID"),
        (
            {"SLACK_BOT_TOKEN": "xoxb-1"},
            "SLACK_BOT_TOKEN: do not set it together with COUNTERSIGN_CLIENT_ID, which is for"
            " many workspaces: each gets a token of its own",
        ),
        (
            {"DATABASE_URL": "sqlite:///one.db"},
            "DATABASE_URL: do not set it together with COUNTERSIGN_CLIENT_ID, which is for many"
            " workspaces: each has a file of its own in COUNTERSIGN_WORKSPACES. Or name a"
            " PostgreSQL database",
        ),
        (
            {"DATABASE_URL": POSTGRES, "COUNTERSIGN_KEY": KEY},
            "COUNTERSIGN_TOKEN_KEYS: is missing; with PostgreSQL no file holds the keys",
        ),
    ],
)
def test_errors_in_an_installations_settings_name_the_variable(
    changes: dict[str, str | None], sentence: str
) -> None:
    """Each error is a sentence."""
    given = {
        name: value for name, value in {**HOST_SETTINGS, **changes}.items() if value is not None
    }
    assert sentence in list_problems(given)


def test_a_command_needs_to_be_told_its_workspace() -> None:
    """The error says which variable is missing."""
    with pytest.raises(SettingsError) as raised:
        Settings.load(HOST_SETTINGS, transport=None, reading=True)
    assert any("it says which workspace the command is about" in p for p in raised.value.problems)


def test_an_installation_for_many_workspaces_loads_its_settings(tmp_path: Path) -> None:
    """It needs a client, its URL and a policy."""
    policy = tmp_path / "policy.toml"
    policy.write_text(POLICY)
    settings, _ = read_settings_and_policy({**HOST_SETTINGS, "COUNTERSIGN_POLICY": str(policy)})
    assert (settings.client_id, settings.workspace) == ("1.2", None)


def test_a_workspaces_own_model_and_limit_are_used(make_hosting: Callable[..., Hosting]) -> None:
    """The other workspace has neither."""
    hosting = make_hosting()
    hosting.start()
    model = StrictPlanner(mind=plan_note)
    model.start()
    try:
        for team in hosting.teams:
            hosting.install(team)
        one, two = hosting.workspace(ONE), hosting.workspace(TWO)
        one.stop_app()
        one.set(OPENAI_BASE_URL=model.url, COUNTERSIGN_MAX_PENDING="1")
        one.card(one.ask("the only one"))
        refused = one.ask("one too many")
        one.said(refused, "wait")
        two.card(two.ask("the first"))
        two.card(two.ask("the second"))
        assert "the only one" in str([each["input"] for each in model.requests])
        assert "the only one" not in str([each["input"] for each in hosting.planner.requests])
        assert "the second" not in str([each["input"] for each in model.requests])
    finally:
        hosting.stop()
        model.stop()
