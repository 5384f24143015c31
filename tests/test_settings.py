"""The settings: what is read, what is refused all at once, and that no secret is ever shown."""

from __future__ import annotations

import traceback
from pathlib import Path

import pytest
from pydantic import ValidationError

from bot.config.environment import remove_variables_slack_misreads
from bot.config.settings import Settings, SettingsError

SECRET = "s3cr3t"
UNREAD = ("warnings", "transport")  # what no variable says


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """The least that a start needs."""
    policy = tmp_path / "policy.toml"
    policy.touch()
    return {
        "SLACK_BOT_TOKEN": f"xoxb-{SECRET}",
        "SLACK_APP_TOKEN": f"xapp-{SECRET}",
        "OPENAI_API_KEY": f"sk-{SECRET}",
        "COUNTERSIGN_POLICY": str(policy),
    }


def refused(environ: dict[str, str]) -> SettingsError:
    """The error that these variables lead to."""
    with pytest.raises(SettingsError) as caught:
        Settings.load(environ)
    return caught.value


def test_documented_defaults_hold(environ: dict[str, str]) -> None:
    """With only the required variables the documented defaults hold, without a warning."""
    settings = Settings.load(environ)
    assert settings.slack_bot_token.get_secret_value() == f"xoxb-{SECRET}"
    assert settings.policy_path == Path(environ["COUNTERSIGN_POLICY"])
    assert settings.slack_api_url == "https://slack.com/api/"
    assert settings.database_path == Path("countersign.db")
    assert (
        settings.openai_base_url,
        settings.reasoning_effort,
        settings.key,
        settings.shop_path,
    ) == (None,) * 4
    limits = (
        settings.max_turns,
        settings.max_calls,
        settings.max_cards,
        settings.max_tokens,
        settings.max_pending,
    )
    assert limits == (20, 50, 10, 200_000, 20)
    assert (settings.workers, settings.lease, settings.tick, settings.log_level) == (
        8,
        60.0,
        30.0,
        "info",
    )
    assert (settings.model_timeout, settings.model_retries, settings.model_backoff) == (
        120.0,
        4,
        1.0,
    )
    assert (settings.tool_modules, settings.slack_tools, settings.warnings) == ((), True, ())


def test_reading_needs_no_tokens(environ: dict[str, str]) -> None:
    """To look only, tokens and keys may be missing, and are empty then; a wrong one is refused."""
    least = {"COUNTERSIGN_POLICY": environ["COUNTERSIGN_POLICY"]}
    settings = Settings.load(least, reading=True)
    for each in (settings.slack_bot_token, settings.slack_app_token, settings.openai_api_key):
        assert each.get_secret_value() == ""
    assert len(refused(least).problems) == 2
    with pytest.raises(SettingsError, match="SLACK_BOT_TOKEN"):
        Settings.load({**least, "SLACK_BOT_TOKEN": "no token"}, reading=True)


def test_what_is_given_counts(environ: dict[str, str]) -> None:
    """What is set is taken, typed and trimmed; blank means unset."""
    settings = Settings.load(
        environ
        | {
            "SLACK_API_URL": " http://127.0.0.1:8765/api ",
            "DATABASE_URL": "sqlite:////var/lib/countersign/c.db",
            "COUNTERSIGN_TOOLS": "shop.tools, crm,crm",
            "COUNTERSIGN_SLACK_TOOLS": "off",
            "COUNTERSIGN_WITHOUT_TOOLS": "invite, set_topic,invite",
            "OPENAI_API": "chat",
            "COUNTERSIGN_TICK": "0.5",
            "COUNTERSIGN_KEY": "k" * 32,
            "COUNTERSIGN_REASONING_EFFORT": "low",
            "OPENAI_MODEL": "  ",
        }
    )
    assert settings.slack_api_url == "http://127.0.0.1:8765/api/"
    assert settings.database_path == Path("/var/lib/countersign/c.db")
    assert settings.tool_modules == ("shop.tools", "crm")
    assert (settings.without_tools, settings.openai_api) == (("invite", "set_topic"), "chat")
    assert (settings.slack_tools, settings.tick, settings.reasoning_effort) == (False, 0.5, "low")
    assert settings.openai_model == Settings.model_fields["openai_model"].default


def test_the_dotenv_file_counts(environ: dict[str, str], tmp_path: Path) -> None:
    """A .env file fills in what the environment leaves out or blank, and is taken literally."""
    path = tmp_path / ".env"
    path.write_text(
        "OPENAI_API_KEY=a${HOME}\nOPENAI_MODEL=from-file\nCOUNTERSIGN_LOG=debug\nCOUNTERSIGN_KEY\n"
        "COUNTERSIGN_TICK=1.5\nCOUNTERSIGN_TICK=\n"
    )
    del environ["OPENAI_API_KEY"]
    settings = Settings.load(environ | {"COUNTERSIGN_LOG": "error", "OPENAI_MODEL": ""}, path)
    assert settings.openai_api_key.get_secret_value() == "a${HOME}"
    assert (settings.openai_model, settings.log_level) == ("from-file", "error")
    assert settings.tick == Settings.model_fields["tick"].default
    path.write_bytes(b"OPENAI_API_KEY=\xff\xfe")
    with pytest.raises(SettingsError, match="UTF-8"):
        Settings.load(environ, path)


def test_everything_missing_is_said() -> None:
    """All that is missing is listed at once, each with where to get it."""
    found = refused({}).problems
    assert [each.split(":")[0] for each in found] == [
        "SLACK_BOT_TOKEN",
        "SLACK_APP_TOKEN",
        "COUNTERSIGN_POLICY",
    ]
    assert all(len(each.split("is missing. ")[1]) > 20 for each in found)
    assert "doctor --init" in found[2]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("SLACK_BOT_TOKEN", f"xapp-{SECRET}"),
        ("SLACK_BOT_TOKEN", "xoxb-"),
        ("SLACK_APP_TOKEN", f"xoxb-{SECRET}"),
        ("SLACK_APP_TOKEN", f"xapp-{SECRET}\nX-Evil: 1"),
        ("OPENAI_API_KEY", f"{SECRET} {SECRET}"),
        ("COUNTERSIGN_KEY", SECRET),
        ("COUNTERSIGN_POLICY", f"/{SECRET}/policy.toml"),
        ("SLACK_API_URL", f"slack.com/{SECRET}"),
        ("SLACK_API_URL", f"https://ana:{SECRET}@slack.com/api/"),
        ("SLACK_API_URL", f"http://[{SECRET}"),
        ("OPENAI_BASE_URL", f"file:///{SECRET}"),
        ("DATABASE_URL", f"postgresql://ana:{SECRET}@db"),
        ("DATABASE_URL", "sqlite://"),
        ("DATABASE_URL", "sqlite:///:memory:"),
        ("DATABASE_URL", "sqlite:///folder/"),
        ("DATABASE_URL", "sqlite:///c.db?mode=ro"),
        ("COUNTERSIGN_TOOLS", "my tools"),
        ("COUNTERSIGN_TOOLS", "a,,b"),
        ("COUNTERSIGN_WITHOUT_TOOLS", "cancel order"),
        ("COUNTERSIGN_WITHOUT_TOOLS", "a,,b"),
        ("OPENAI_API", "completions"),
        ("COUNTERSIGN_TICK", "31"),
        ("COUNTERSIGN_TICK", "0"),
        ("COUNTERSIGN_TICK", "nan"),
        ("COUNTERSIGN_LEASE", "inf"),
        ("COUNTERSIGN_MAX_CARDS", "0"),
        ("COUNTERSIGN_MAX_TURNS", "ten"),
        ("COUNTERSIGN_WORKERS", "1.5"),
        ("COUNTERSIGN_MODEL_RETRIES", "-1"),
        ("COUNTERSIGN_LOG", "loud"),
        ("COUNTERSIGN_LOG_FORMAT", "xml"),
        ("COUNTERSIGN_TRACES", f"http://ana:{SECRET}@collector/v1/traces"),
        ("COUNTERSIGN_REASONING_EFFORT", "extreme"),
        ("COUNTERSIGN_SLACK_TOOLS", "perhaps"),
    ],
)
def test_wrong_values_are_said(environ: dict[str, str], name: str, value: str) -> None:
    """A wrong value is refused by its variable's name, with a remedy.

    The value is not even in the traceback.
    """
    error = refused(environ | {name: value})
    (problem,) = error.problems
    assert problem.startswith(f"{name}: ")
    assert problem.endswith(Settings.model_fields[field(name)].description or "-")
    assert SECRET not in "".join(traceback.format_exception(error))


def field(variable: str) -> str:
    """The field that a variable sets."""
    return next(key for key, each in Settings.model_fields.items() if each.title == variable)


def test_every_variable_has_its_sentence() -> None:
    """Every variable has one field and one sentence."""
    titles = [each.title for key, each in Settings.model_fields.items() if key not in UNREAD]
    assert len(set(titles)) == len(titles)
    assert all(
        each.description and each.description.endswith(".")
        for each in Settings.model_fields.values()
    )


def test_policy_path_survives(environ: dict[str, str]) -> None:
    """Where other settings are wrong, the policy's path is known, so its problems are told too."""
    assert refused(environ | {"COUNTERSIGN_TICK": "31"}).policy_path == Path(
        environ["COUNTERSIGN_POLICY"]
    )
    assert refused(environ | {"COUNTERSIGN_POLICY": "/nowhere"}).policy_path is None


def test_secrets_are_never_shown(environ: dict[str, str]) -> None:
    """Neither repr nor dump of the settings shows a secret."""
    settings = Settings.load(environ | {"COUNTERSIGN_KEY": SECRET * 6})
    assert (
        SECRET
        not in f"{settings!r} {settings} {settings.model_dump()} {settings.model_dump_json()}"
    )


def test_settings_cannot_be_changed(environ: dict[str, str]) -> None:
    """Settings do not change after they are read."""
    settings = Settings.load(environ)
    with pytest.raises(ValidationError):
        settings.tick = 1.0  # type: ignore[misc]  # that is the point


def test_harmless_oddities_are_told(environ: dict[str, str]) -> None:
    """OAuth variables, a proxy, an unencrypted address and a misspelt setting are told."""
    odd = {
        "SLACK_CLIENT_ID": "1.2",
        "HTTPS_PROXY": f"http://ana:{SECRET}@proxy",
        "OPENAI_BASE_URL": "http://models.example/v1",
        "COUNTERSIGN_MAX_CARD": "3",
        "OPENAI_MODLE": "x",
        "OPENAI_API_KEYS": "meant for another, since OPENAI_API_KEY is there",
    }
    text = "\n".join(Settings.load(environ | odd).warnings)
    assert "SLACK_CLIENT_ID" in text
    assert "Slack goes through it" in text
    assert "OPENAI_BASE_URL is http" in text
    assert "COUNTERSIGN_MAX_CARD is not a setting; did you mean COUNTERSIGN_MAX_CARDS?" in text
    assert "OPENAI_MODLE is not a setting; did you mean OPENAI_MODEL?" in text
    assert "OPENAI_API_KEYS" not in text
    assert SECRET not in text


def test_a_misspelt_setting_is_told_beside_what_is_missing(environ: dict[str, str]) -> None:
    """What is missing because its name is misspelt says so."""
    environ["SLACK_APP_TOKNE"] = environ.pop("SLACK_APP_TOKEN")
    assert refused(environ).problems[1:] == (
        "SLACK_APP_TOKNE is not a setting; did you mean SLACK_APP_TOKEN?",
    )


def test_swapped_tokens_are_noticed(environ: dict[str, str]) -> None:
    """The bot's token in the place of the app's, and the other way round, is told as that."""
    swapped = {"SLACK_BOT_TOKEN": f"xapp-{SECRET}", "SLACK_APP_TOKEN": f"xoxb-{SECRET}"}
    told = refused(environ | swapped).problems
    assert ["they are swapped" in each for each in told] == [True, True]


def test_why_dotenv_cannot_be_read(environ: dict[str, str], tmp_path: Path) -> None:
    """A .env file that is no text, one that is a folder, and one that cannot be opened."""
    with pytest.raises(SettingsError, match="is a folder; put a file in its place"):
        Settings.load(environ, tmp_path)
    (tmp_path / ".env").write_bytes(b"\xff\xfe")
    with pytest.raises(SettingsError, match="is not UTF-8 text"):
        Settings.load(environ, tmp_path / ".env")
    with pytest.raises(SettingsError, match=r"cannot be read \(Input/output error\)"):
        Settings.load(environ, "/proc/self/mem")  # nobody reads its first byte, not even root


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("SLACK_BOT_TOKEN xoxb-very-secret", 1),
        ("A=1\n\n# words\n\nSLACK_BOT_TOKEN xoxb-very-secret\nB=2\n", 5),
        ('A=1\r\nOPENAI_API_KEY="very-secret\r\nB=2\r\n', 2),
        ("<<<<<<< HEAD\nKEY=very-secret", 1),
    ],
)
def test_a_line_of_dotenv_that_sets_nothing(
    environ: dict[str, str],
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    text: str,
    line: int,
) -> None:
    """It is named by its number alone, and by nobody else: there may be a secret in it."""
    path = tmp_path / ".env"
    path.write_bytes(text.encode())
    with pytest.raises(SettingsError) as caught:
        Settings.load(environ, path)
    assert caught.value.problems == (f"{path}:{line}: write it as NAME=value, or remove it",)
    assert caplog.records == []


def test_oauth_variables_are_removed(environ: dict[str, str]) -> None:
    """What would make Bolt ignore the bot token is taken out of the environment."""
    environ |= {"SLACK_CLIENT_ID": "1.2", "SLACK_CLIENT_SECRET": SECRET}
    remove_variables_slack_misreads(environ, Settings.load(environ).slack_api_url)
    assert not {"SLACK_CLIENT_ID", "SLACK_CLIENT_SECRET"} & set(environ)


@pytest.mark.parametrize(
    ("url", "no_proxy", "kept"),
    [
        ("https://slack.com/api/", "", True),
        ("https://slack.com/api/", "internal.example", True),
        ("https://slack.com/api/", ".slack.com,slack.com", False),
        ("https://slack.com/api/", "*", False),
        ("http://127.0.0.1:8765/api/", "", False),
        ("http://localhost:8765/api/", "", False),
    ],
)
def test_no_proxy_counts_for_slack(
    environ: dict[str, str], url: str, no_proxy: str, kept: bool
) -> None:
    """NO_PROXY counts for Slack too: its proxy goes where it does not apply.

    It stays there for the model's client.
    """
    environ |= {"SLACK_API_URL": url, "HTTPS_PROXY": "http://proxy:3128", "NO_PROXY": no_proxy}
    remove_variables_slack_misreads(environ, Settings.load(environ).slack_api_url)
    assert ("HTTPS_PROXY" in environ) is kept
    assert (environ.get("ALL_PROXY") == "http://proxy:3128") is not kept
    assert kept or "127.0.0.1" in environ["no_proxy"].split(",")
