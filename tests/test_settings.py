"""The settings: what is read, what is refused all at once, and that no secret is ever shown."""

from __future__ import annotations

import traceback
from pathlib import Path

import pytest
from pydantic import ValidationError

from bot.config.environment import remove_variables_slack_misreads
from bot.config.settings import Settings, SettingsError

SECRET = "s3cr3t"
UNREAD = ("warnings", "transport")  # fields that no variable sets


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """The required variables."""
    policy = tmp_path / "policy.toml"
    policy.touch()
    return {
        "SLACK_BOT_TOKEN": f"xoxb-{SECRET}",
        "SLACK_APP_TOKEN": f"xapp-{SECRET}",
        "OPENAI_API_KEY": f"sk-{SECRET}",
        "COUNTERSIGN_POLICY": str(policy),
    }


def get_settings_error(environ: dict[str, str]) -> SettingsError:
    """The error that these variables lead to."""
    with pytest.raises(SettingsError) as caught:
        Settings.load(environ)
    return caught.value


def test_documented_defaults_hold(environ: dict[str, str]) -> None:
    """With only the required variables, and without a warning."""
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


def test_a_command_that_only_looks_needs_no_tokens(environ: dict[str, str]) -> None:
    """Missing tokens and keys are empty then; a wrong one is refused."""
    least = {"COUNTERSIGN_POLICY": environ["COUNTERSIGN_POLICY"]}
    settings = Settings.load(least, reading=True)
    for each in (settings.slack_bot_token, settings.slack_app_token, settings.openai_api_key):
        assert each.get_secret_value() == ""
    assert len(get_settings_error(least).problems) == 2
    with pytest.raises(SettingsError, match="SLACK_BOT_TOKEN"):
        Settings.load({**least, "SLACK_BOT_TOKEN": "no token"}, reading=True)


def test_given_values_are_parsed_and_trimmed(environ: dict[str, str]) -> None:
    """A blank value counts as unset."""
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


def test_dotenv_fills_in_unset_and_blank_variables(environ: dict[str, str], tmp_path: Path) -> None:
    """Its values are taken literally, and it has to be UTF-8."""
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


def test_all_missing_variables_are_listed_at_once() -> None:
    """Each with where to get it."""
    found = get_settings_error({}).problems
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
        ("DATABASE_URL", f"postgresql://ana:x@{SECRET}@db/record"),
        ("DATABASE_URL", f"postgresql://ana:x@y:{SECRET}@db:5432/record"),
        ("DATABASE_URL", "postgresql://ana@one:5432,two:5432/record"),
        ("DATABASE_URL", "postgresql://ana@db/record?schema=countersign_T0123ABCD"),
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
def test_a_wrong_value_is_refused_by_its_variables_name(
    environ: dict[str, str], name: str, value: str
) -> None:
    """With a remedy. The value is not even in the traceback."""
    error = get_settings_error(environ | {name: value})
    (problem,) = error.problems
    assert problem.startswith(f"{name}: ")
    assert problem.endswith(Settings.model_fields[find_field_name(name)].description or "-")
    assert SECRET not in "".join(traceback.format_exception(error))


def find_field_name(variable: str) -> str:
    """The field that a variable sets."""
    return next(key for key, each in Settings.model_fields.items() if each.title == variable)


def test_every_variable_has_one_field_and_one_sentence() -> None:
    """No two fields have the same variable."""
    titles = [each.title for key, each in Settings.model_fields.items() if key not in UNREAD]
    assert len(set(titles)) == len(titles)
    assert all(
        each.description and each.description.endswith(".")
        for each in Settings.model_fields.values()
    )


def test_the_policy_path_is_known_when_other_settings_are_wrong(environ: dict[str, str]) -> None:
    """So that problems of the policy are reported together with the others."""
    assert get_settings_error(environ | {"COUNTERSIGN_TICK": "31"}).policy_path == Path(
        environ["COUNTERSIGN_POLICY"]
    )
    assert get_settings_error(environ | {"COUNTERSIGN_POLICY": "/nowhere"}).policy_path is None


def test_secrets_are_never_shown(environ: dict[str, str]) -> None:
    """Neither repr nor dump of the settings shows a secret."""
    settings = Settings.load(environ | {"COUNTERSIGN_KEY": SECRET * 6})
    assert (
        SECRET
        not in f"{settings!r} {settings} {settings.model_dump()} {settings.model_dump_json()}"
    )


def test_settings_cannot_be_changed(environ: dict[str, str]) -> None:
    """Assigning to a field raises."""
    settings = Settings.load(environ)
    with pytest.raises(ValidationError):
        settings.tick = 1.0  # type: ignore[misc]  # that is the point


def test_odd_variables_are_warned_about(environ: dict[str, str]) -> None:
    """A token that expires, OAuth, a proxy, an unencrypted address and a misspelt setting."""
    odd = {
        "SLACK_BOT_TOKEN": f"xoxe.xoxb-1-{SECRET}",
        "SLACK_CLIENT_ID": "1.2",
        "HTTPS_PROXY": f"http://ana:{SECRET}@proxy",
        "OPENAI_BASE_URL": "http://models.example/v1",
        "COUNTERSIGN_MAX_CARD": "3",
        "OPENAI_MODLE": "x",
        "COUNTERSIGN_KEY": f'"{SECRET * 6}"',
        "OPENAI_API_KEYS": "meant for another, since OPENAI_API_KEY is there",
    }
    text = "\n".join(Settings.load(environ | odd).warnings)
    assert "SLACK_BOT_TOKEN expires" in text
    assert "SLACK_CLIENT_ID" in text
    assert "Slack goes through it" in text
    assert "OPENAI_BASE_URL is http" in text
    assert "COUNTERSIGN_MAX_CARD is not a setting; did you mean COUNTERSIGN_MAX_CARDS?" in text
    assert "OPENAI_MODLE is not a setting; did you mean OPENAI_MODEL?" in text
    assert "OPENAI_API_KEYS" not in text
    assert "the quotes around COUNTERSIGN_KEY are part of its value" in text
    assert SECRET not in text


def test_a_misspelt_setting_is_named_beside_the_missing_one(environ: dict[str, str]) -> None:
    """The right name is suggested."""
    environ["SLACK_APP_TOKNE"] = environ.pop("SLACK_APP_TOKEN")
    assert get_settings_error(environ).problems[1:] == (
        "SLACK_APP_TOKNE is not a setting; did you mean SLACK_APP_TOKEN?",
    )


def test_quotes_are_named_beside_the_value_that_they_spoil(environ: dict[str, str]) -> None:
    """Docker's --env-file does not remove them."""
    environ["DATABASE_URL"] = "'sqlite:///c.db'"
    assert get_settings_error(environ).problems[1:] == (
        "the quotes around DATABASE_URL are part of its value; Docker's --env-file keeps them",
    )


def test_swapped_tokens_are_noticed(environ: dict[str, str]) -> None:
    """The bot's token in the place of the app's, and the other way round."""
    swapped = {"SLACK_BOT_TOKEN": f"xapp-{SECRET}", "SLACK_APP_TOKEN": f"xoxb-{SECRET}"}
    told = get_settings_error(environ | swapped).problems
    assert ["they are swapped" in each for each in told] == [True, True]


def test_an_unreadable_dotenv_file_is_refused_with_the_reason(
    environ: dict[str, str], tmp_path: Path
) -> None:
    """It is a folder, is not text, or cannot be opened."""
    with pytest.raises(SettingsError, match="is a folder; put a file in its place"):
        Settings.load(environ, tmp_path)
    (tmp_path / ".env").write_bytes(b"\xff\xfe")
    with pytest.raises(SettingsError, match="is not UTF-8 text"):
        Settings.load(environ, tmp_path / ".env")
    with pytest.raises(SettingsError, match=r"cannot be read \(Input/output error\)"):
        Settings.load(environ, "/proc/self/mem")  # not even root can read its first byte


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("SLACK_BOT_TOKEN xoxb-very-secret", 1),
        ("A=1\n\n# words\n\nSLACK_BOT_TOKEN xoxb-very-secret\nB=2\n", 5),
        ('A=1\r\nOPENAI_API_KEY="very-secret\r\nB=2\r\n', 2),
        ("<<<<<<< HEAD\nKEY=very-secret", 1),
    ],
)
def test_a_dotenv_line_that_sets_nothing_is_refused(
    environ: dict[str, str],
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    text: str,
    line: int,
) -> None:
    """By its number alone, and nothing logs it: there may be a secret in it."""
    path = tmp_path / ".env"
    path.write_bytes(text.encode())
    with pytest.raises(SettingsError) as caught:
        Settings.load(environ, path)
    assert caught.value.problems == (f"{path}:{line}: write it as NAME=value, or remove it",)
    assert caplog.records == []


def test_oauth_variables_are_removed(environ: dict[str, str]) -> None:
    """With them Bolt would ignore the bot token."""
    environ |= {"SLACK_CLIENT_ID": "1.2", "SLACK_CLIENT_SECRET": SECRET}
    remove_variables_slack_misreads(environ, Settings.load(environ).slack_api_url)
    assert not {"SLACK_CLIENT_ID", "SLACK_CLIENT_SECRET"} & set(environ)


def test_a_proxy_without_a_scheme_is_used_for_socket_mode_too(environ: dict[str, str]) -> None:
    """Many write HTTPS_PROXY=host:port (slackapi/python-slack-sdk, issue 948); slack_sdk's Web API
    client and others take that.
    """
    environ |= {"HTTPS_PROXY": "ana:x@proxy:3128", "http_proxy": "https://proxy", "HTTP_PROXY": " "}
    remove_variables_slack_misreads(environ, Settings.load(environ).slack_api_url)
    assert environ["HTTPS_PROXY"] == "http://ana:x@proxy:3128"
    assert (environ["http_proxy"], environ["HTTP_PROXY"]) == ("https://proxy", " ")


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
def test_no_proxy_is_respected_for_slack(
    environ: dict[str, str], url: str, no_proxy: str, kept: bool
) -> None:
    """Where NO_PROXY excludes Slack, only the model's client keeps the proxy."""
    environ |= {"SLACK_API_URL": url, "HTTPS_PROXY": "http://proxy:3128", "NO_PROXY": no_proxy}
    remove_variables_slack_misreads(environ, Settings.load(environ).slack_api_url)
    assert ("HTTPS_PROXY" in environ) is kept
    assert (environ.get("ALL_PROXY") == "http://proxy:3128") is not kept
    assert kept or "127.0.0.1" in environ["no_proxy"].split(",")
