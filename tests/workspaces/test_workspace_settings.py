"""What a workspace sets for itself, what it may not, and what is wrong with an installation's."""

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
MANY = {
    "COUNTERSIGN_CLIENT_ID": "1.2",
    "COUNTERSIGN_CLIENT_SECRET": "secret",
    "COUNTERSIGN_URL": "https://approve.example.com",
    "SLACK_SIGNING_SECRET": "s" * 32,
    "SLACK_APP_TOKEN": "xapp-1",
    "COUNTERSIGN_POLICY": str(RULES),
}


def load(folder: Path, workspace: str = "T1", said: str = "", **given: str) -> Settings:
    """The settings of a workspace with these of its own, below the installation's."""
    own = folder / workspace
    own.mkdir(parents=True, exist_ok=True)
    (own / "settings.env").write_text(said, "utf-8")
    about = {"COUNTERSIGN_WORKSPACE": workspace, "SLACK_BOT_TOKEN": "xoxb-1"}
    return Settings.load({**MANY, "COUNTERSIGN_WORKSPACES": str(folder), **about, **given})


def problems(given: dict[str, str]) -> list[str]:
    """What is said to be wrong with these settings."""
    with pytest.raises(SettingsError) as raised:
        Settings.load(given)
    return list(raised.value.problems)


def test_its_own_come_first(tmp_path: Path) -> None:
    """Limits, model and operator are its own; what it does not set is the installation's."""
    said = "COUNTERSIGN_MAX_TURNS=3\nOPENAI_MODEL=small\nCOUNTERSIGN_OPERATOR=UANA00001\n"
    given = {"COUNTERSIGN_MAX_TURNS": "9", "COUNTERSIGN_MAX_CALLS": "8", "OPENAI_MODEL": "big"}
    found, other = load(tmp_path, said=said, **given), load(tmp_path, "T2", **given)
    assert (found.max_turns, found.max_calls, found.openai_model) == (3, 8, "small")
    assert (other.max_turns, other.max_calls, other.openai_model) == (9, 8, "big")
    assert (found.operator, other.operator) == ("UANA00001", None)
    assert found.client_id is None
    assert found.url == "https://approve.example.com/w/T1"
    assert found.database_url == f"sqlite:///{tmp_path}/T1/countersign.db"
    assert found.http is None


def test_its_own_policy_is_in_force(tmp_path: Path) -> None:
    """`policy.toml` in its folder is in force there alone."""
    assert str(load(tmp_path).policy_path) == str(RULES)
    (tmp_path / "T1" / "policy.toml").write_text(POLICY)
    assert load(tmp_path).policy_path == tmp_path / "T1" / "policy.toml"
    assert str(load(tmp_path, "T2").policy_path) == str(RULES)


def test_files_are_beside_it(tmp_path: Path) -> None:
    """What it names lies in its folder; an address with a root is as it stands."""
    assert load(tmp_path, said="COUNTERSIGN_SHOP=shop.db").shop_path == tmp_path / "T1" / "shop.db"
    assert load(tmp_path, said="COUNTERSIGN_SHOP=/srv/shop.db").shop_path == Path("/srv/shop.db")


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
def test_what_is_one_for_all(tmp_path: Path, name: str) -> None:
    """It is refused in a sentence, which names the file and not the value."""
    with pytest.raises(SettingsError) as raised:
        load(tmp_path, said=f"{name}=something-of-its-own")
    [said] = [each for each in raised.value.problems if each.startswith(f"{name}: is one")]
    assert said == f"{name}: is one for all workspaces; take it out of {tmp_path}/T1/settings.env"
    assert "something-of-its-own" not in str(raised.value)


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    """The sentence says which, and why."""
    load(tmp_path)
    (tmp_path / "T1" / "settings.env").write_bytes(b"COUNTERSIGN_MAX_TURNS=\xff\xfe")
    about = {"COUNTERSIGN_WORKSPACE": "T1", "COUNTERSIGN_WORKSPACES": str(tmp_path)}
    said = problems({**MANY, **about, "SLACK_BOT_TOKEN": "xoxb-1"})
    assert f"{tmp_path}/T1/settings.env is not UTF-8 text; correct or remove it" in said


def test_its_schema_and_keys_on_postgresql(tmp_path: Path) -> None:
    """Each has a schema and keys of its own, in the order of the installation's."""
    shared = {"DATABASE_URL": POSTGRES, "COUNTERSIGN_KEY": f"{KEY},{OTHER}"}
    found = {each: load(tmp_path, each, **shared) for each in ("T1", "T2")}
    for each, settings in found.items():
        assert f"schema=countersign_{each.lower()}" in settings.database_url
    keys: set[Any] = {str(settings.signing_key) for settings in found.values()}
    assert len(keys) == 2
    assert KEY not in str(keys)
    turned = load(tmp_path, **{**shared, "COUNTERSIGN_KEY": f"{OTHER},{KEY}"})
    assert turned.signing_key != found["T1"].signing_key
    assert parse_signing_key(KEY) not in (each.signing_key for each in found.values())


@pytest.mark.parametrize("workspace", ["t1", "X1", "T1/../T2", "T", "../T1"])
def test_no_id_of_a_workspace(workspace: str, tmp_path: Path) -> None:
    """It is refused before any file is looked for."""
    about = {"COUNTERSIGN_WORKSPACE": workspace, "COUNTERSIGN_WORKSPACES": str(tmp_path)}
    said = problems({**MANY, **about, "SLACK_BOT_TOKEN": "xoxb-1"})
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
def test_what_is_wrong(changes: dict[str, str | None], sentence: str) -> None:
    """Each is said in a sentence that names the variable."""
    given = {name: value for name, value in {**MANY, **changes}.items() if value is not None}
    assert sentence in problems(given)


def test_a_command_without_a_workspace() -> None:
    """It is told which variable is missing, and where to find what to put there."""
    with pytest.raises(SettingsError) as raised:
        Settings.load(MANY, transport=None, reading=True)
    assert any("it says which workspace the command is about" in p for p in raised.value.problems)


def test_all_is_well(tmp_path: Path) -> None:
    """An installation for many starts with its client, its address and a policy."""
    policy = tmp_path / "policy.toml"
    policy.write_text(POLICY)
    settings, _ = read_settings_and_policy({**MANY, "COUNTERSIGN_POLICY": str(policy)})
    assert (settings.client_id, settings.workspace) == ("1.2", None)


def test_limits_tools_and_model_at_work(make_hosting: Callable[..., Hosting]) -> None:
    """One workspace has another model, its own shop and a limit; the other has none of them."""
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
