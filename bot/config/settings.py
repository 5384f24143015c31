"""The settings: read once, from the environment and an optional .env file, into one frozen model.

Values are never printed or logged: messages name the variable and the remedy only.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, MutableMapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import SplitResult, urlsplit
from urllib.request import proxy_bypass_environment  # type: ignore[attr-defined] # public, not in the stubs

from dotenv import dotenv_values
from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, field_validator
from pydantic_core import ErrorDetails

from bot.config import connection_settings
from bot.mcp.server_file import ServerFile, read_server_file
from bot.monitoring.logs import LogFormat
from bot.toml_file import TomlFileError
from bot.tools.database.config import Database, read_databases
from storage.backend import build_local_path, is_postgres_url, normalize_postgres_url
from storage.digest import SigningKey, parse_signing_key

# Checks of the environment besides the settings: proxies, plain http, unknown names.

PROXIES = ("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy")
_PREFIX = "COUNTERSIGN_"
_OF_PROGRAMS = frozenset({"COUNTERSIGN_API_KEY"})  # that ask by HTTP
_LOOPBACK = ("127.0.0.1", "localhost", "::1")


def split_url(url: str) -> SplitResult:
    """Return the parts of `url`; all are empty if it is not a valid URL."""
    try:
        return urlsplit(url)
    except ValueError:
        return urlsplit("")


def _require_plain_url(url: str) -> str:
    parts = split_url(url)
    odd = parts.query or parts.fragment or parts.username or parts.password
    if parts.scheme not in ("https", "http") or not parts.hostname or odd:
        raise ValueError("it is not a plain http(s) address")
    return url


def is_exempt_from_proxy(url: str, environ: Mapping[str, str]) -> bool:
    """Return whether `url` is to be reached without a proxy."""
    host = split_url(url).hostname or ""
    no_proxy = environ.get("no_proxy") or environ.get("NO_PROXY") or ""
    return host in _LOOPBACK or bool(proxy_bypass_environment(host, {"no": no_proxy}))


class DotenvError(Exception):
    """Raised if the .env file cannot be read; the text says why."""


def read_environment_variables(
    environ: Mapping[str, str], dotenv_path: Path | str | None
) -> dict[str, str]:
    """Return the variables in `environ` and the .env file; `environ` wins, blank means unset.

    Raises DotenvError.
    """
    try:
        from_file = dotenv_values(dotenv_path, interpolate=False) if dotenv_path else {}
    except UnicodeDecodeError:
        raise DotenvError(f"{dotenv_path} is not UTF-8 text; correct or remove it") from None
    except OSError as error:
        why = f"{dotenv_path} cannot be read ({error.strerror})"
        raise DotenvError(f"{why}; let Countersign read it, or remove it") from None
    both = (*from_file.items(), *environ.items())
    return {name: value.strip() for name, value in both if value and value.strip()}


def describe_odd_environment_variables(
    environ: Mapping[str, str], known: Collection[str]
) -> Iterator[str]:
    """Yield sentences about odd but harmless variables; `known`: the names of all settings."""
    if "SLACK_CLIENT_ID" in environ or "SLACK_CLIENT_SECRET" in environ:
        yield "SLACK_CLIENT_ID and SLACK_CLIENT_SECRET are ignored: one workspace needs no OAuth"
    slack = environ.get("SLACK_API_URL", "https://slack.com/api/")
    if any(each in environ for each in PROXIES):
        how = "goes past" if is_exempt_from_proxy(slack, environ) else "goes through"
        yield f"a proxy is set: Slack {how} it, as SLACK_API_URL and NO_PROXY say"
    for name in ("SLACK_API_URL", "OPENAI_BASE_URL"):
        parts = split_url(environ.get(name, ""))
        if parts.scheme == "http" and parts.hostname not in _LOOPBACK:
            yield f"{name} is http: tokens and messages travel unencrypted"
    if "OPENAI_BASE_URL" in environ and "OPENAI_API_KEY" not in environ:
        yield "OPENAI_BASE_URL means nothing without OPENAI_API_KEY: give it any word"
    yield from describe_misspelt_setting_names(environ, known)


def describe_misspelt_setting_names(
    environ: Mapping[str, str], known: Collection[str]
) -> Iterator[str]:
    """Yield sentences about variables that seem to be misspelt names of settings."""
    for name in sorted(environ.keys() - _OF_PROGRAMS - set(known)):
        own = name.startswith(_PREFIX)
        close = get_close_matches(name, known, 1, 0.6 if own else 0.88)
        if own or (close and close[0] not in environ):
            yield f"{name} is no setting" + (f"; is {close[0]} meant?" if close else "")


def remove_variables_slack_misreads(environ: MutableMapping[str, str], slack_api_url: str) -> None:
    """Remove from `environ` what the Slack libraries would misread; call this before using Bolt.

    SLACK_CLIENT_ID and _SECRET would turn Bolt's OAuth on and our token off. slack_sdk sends
    everything through HTTP(S)_PROXY and ignores NO_PROXY: if Slack's address is exempt or on this
    machine, those variables are replaced by ALL_PROXY.
    """
    for name in ("SLACK_CLIENT_ID", "SLACK_CLIENT_SECRET"):
        environ.pop(name, None)
    if is_exempt_from_proxy(slack_api_url, environ):
        proxies = [environ.pop(name, "").strip() for name in PROXIES]
        # the model's client honours both of these, slack_sdk neither
        for proxy in filter(None, proxies):
            environ.setdefault("ALL_PROXY", proxy)
        spared = environ.get("no_proxy") or environ.get("NO_PROXY") or ""
        environ["no_proxy"] = ",".join(filter(None, (spared, "127.0.0.1", "localhost")))


class SettingsError(ValueError):
    """Raised if the settings cannot be used.

    `problems` has one line each: the variable, what is wrong, what to do.
    """

    def __init__(self, problems: list[str], policy_path: Path | None = None) -> None:
        """`policy_path` is the policy file, still to be checked; None if that setting is wrong."""
        self.problems = tuple(problems)
        self.policy_path = policy_path
        super().__init__("\n  ".join(["the settings cannot be used:", *problems]))


class FileSettings(BaseModel):
    """All of it, as settings: `title` is the variable, the description the sentence for people."""

    databases: tuple[Database, ...] = Field(
        (),
        title="COUNTERSIGN_DATABASES",
        description="A TOML file that names the databases the agent may use.",
    )
    servers: ServerFile | None = Field(
        None,
        title="COUNTERSIGN_SERVERS",
        description="A TOML file that names MCP servers whose tools the agent may use.",
    )


def read_files_named_in_settings(values: dict[str, Any], given: Mapping[str, str]) -> Sequence[str]:
    """Replace file names in `values` by the files' parsed content; return the problems found.

    `given`: the variables that the files may refer to.
    """
    problems: list[str] = []
    for name, read in (("databases", read_databases), ("servers", read_server_file)):
        try:
            if name in values:
                values[name] = read(Path(values[name]), given)
        except TomlFileError as error:
            del values[name]
            problems += error.problems
    return problems


class MonitoringSettings(BaseModel):
    """All of it, as settings: `title` is the variable, the description the sentence for people."""

    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", title="COUNTERSIGN_LOG", description="How much is logged."
    )
    log_format: LogFormat = Field(
        LogFormat.TEXT,
        title="COUNTERSIGN_LOG_FORMAT",
        description="text for people, json for programs: an object on each line.",
    )
    traces: str | None = Field(
        None,
        title="COUNTERSIGN_TRACES",
        description="Where a collector takes traces, OTLP over HTTP, ending in /v1/traces.",
    )

    @field_validator("traces")
    @classmethod
    def _validate_traces_address(cls, value: str | None) -> str | None:
        return None if value is None else _require_plain_url(value)


# The settings of the operator, and of how long requests are kept.

LEAST = 90  # days that are kept: rules may count what was done that long ago


class OperatorAndRetentionSettings(BaseModel):
    """All of it, as settings: `title` is the variable, the description the sentence for people."""

    operator: str | None = Field(
        None,
        title="COUNTERSIGN_OPERATOR",
        pattern="^[UW][A-Z0-9]{2,30}$",
        description="Whom `countersign approve` and `reject` decide for: a Slack user id, U….",
    )
    keep_days: int | None = Field(
        None,
        title="COUNTERSIGN_KEEP_DAYS",
        ge=LEAST,
        le=36_500,
        description="After how many days what was said in a request is purged; unset: never.",
    )


# The settings that limit how much one run and one person may use.

Count = Annotated[int, Field(ge=1, le=1_000_000)]


class LimitSettings(BaseModel):
    """The limits, as settings: `title` is the variable, the description the sentence for people."""

    max_turns: Count = Field(
        20, title="COUNTERSIGN_MAX_TURNS", description="How often one run may ask the model."
    )
    max_calls: Count = Field(
        50, title="COUNTERSIGN_MAX_CALLS", description="How many tool calls one run may propose."
    )
    max_rounds: Count = Field(
        3, title="COUNTERSIGN_MAX_ROUNDS", description="How often one plan may be sent back."
    )
    max_cards: Count = Field(
        10, title="COUNTERSIGN_MAX_CARDS", description="How many plans one run may show people."
    )
    max_depth: int = Field(
        2,
        title="COUNTERSIGN_MAX_DEPTH",
        ge=0,
        le=5,
        description="How many sub-agents may stand one below the other; 0 for none at all.",
    )
    max_tokens: int = Field(
        200_000,
        title="COUNTERSIGN_MAX_TOKENS",
        ge=1000,
        le=1_000_000_000,
        description="How many tokens, in and out, one run may use.",
    )
    max_pending: Count = Field(
        20, title="COUNTERSIGN_MAX_PENDING", description="Undecided calls of one requester."
    )
    max_asked_per_hour: Count = Field(
        60,
        title="COUNTERSIGN_MAX_ASKED_PER_HOUR",
        description="About how many calls of one requester people are asked within an hour.",
    )
    max_tokens_per_day: int = Field(
        2_000_000,
        title="COUNTERSIGN_MAX_TOKENS_PER_DAY",
        ge=1000,
        le=1_000_000_000,
        description="How many tokens, in and out, the requests of one person may use in 24 hours.",
    )


CREDENTIALS = ("slack_bot_token", "openai_api_key")  # that a start cannot do without


class Settings(
    connection_settings.ModelSettings,
    connection_settings.ConnectionSettings,
    LimitSettings,
    OperatorAndRetentionSettings,
    MonitoringSettings,
    FileSettings,
):
    """All of the bot's settings.

    Each field's `title` is its environment variable, its description the sentence for people.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    policy_path: Path = Field(
        title="COUNTERSIGN_POLICY",
        description="The policy file (TOML); "
        "`countersign doctor --init --approver U…` writes a first one.",
    )
    database_url: str = Field(
        "sqlite:///countersign.db",
        title="DATABASE_URL",
        repr=False,  # a password may be in it
        description="Where the record is kept: sqlite:///file (relative), sqlite:////folder/file, "
        "or postgresql://user:password@host/database.",
    )
    key: SecretStr | None = Field(
        None,
        title="COUNTERSIGN_KEY",
        description="The secret behind fingerprints, 32 characters or more; "
        "unset: a key file beside the database. "
        "Older ones that still hold stand behind it, after commas.",
    )
    lost_key: str | None = Field(
        None,
        title="COUNTERSIGN_LOST_KEY",
        pattern="^[0-9a-f]{8}$",
        description="The id of a key that is lost: "
        "what waits under it is closed, undone, at the start.",
    )
    tool_modules: tuple[str, ...] = Field(
        (),
        title="COUNTERSIGN_TOOLS",
        description="Python modules with tools of your own, separated by commas.",
    )
    without_tools: tuple[str, ...] = Field(
        (),
        title="COUNTERSIGN_WITHOUT_TOOLS",
        description="Tools that are left out, by name, separated by commas.",
    )
    workers: int = Field(
        8,
        title="COUNTERSIGN_WORKERS",
        ge=1,
        le=256,
        description="How many runs are worked on at once.",
    )
    lease: float = Field(
        60.0,
        title="COUNTERSIGN_LEASE",
        ge=connection_settings.SECONDS_MIN,
        le=3600,
        description="Seconds a worker holds a run without a sign of life.",
    )
    tick: float = Field(
        30.0,
        title="COUNTERSIGN_TICK",
        ge=connection_settings.SECONDS_MIN,
        le=30,
        description="Seconds between two looks at the clock when nothing happens.",
    )
    shop_path: Path | None = Field(
        None,
        title="COUNTERSIGN_SHOP",
        description="The demo shop's SQLite file; set: the orders tools are on.",
    )
    slack_tools: bool = Field(
        True,
        title="COUNTERSIGN_SLACK_TOOLS",
        description="Whether the agent has the Slack tools: on or off.",
    )
    warnings: tuple[str, ...] = Field((), description="What was odd but harmless.")

    @classmethod
    def load(
        cls,
        environ: Mapping[str, str],
        dotenv_path: Path | str | None = None,
        *,
        reading: bool = False,
        transport: connection_settings.Transport | None = connection_settings.Transport.SOCKET,
    ) -> Settings:
        """Read the settings from `environ` and the .env file; `environ` wins, blank means unset.

        `reading`: tokens and keys may be missing, and are then empty: enough to look, not to run.
        `transport`: how Slack's deliveries arrive, whose secret is required; None: the one whose
        secret is given. Raises SettingsError with all problems.
        """
        try:
            given = read_environment_variables(environ, dotenv_path)
        except DotenvError as error:
            raise SettingsError([str(error)]) from None
        values: dict[str, Any] = {
            key: given[field.title]
            for key, field in cls.model_fields.items()
            if field.title is not None and field.title in given
        }
        if reading:
            values = dict.fromkeys(CREDENTIALS, connection_settings.MISSING) | values
        values["transport"] = connection_settings.choose_transport(values, transport)
        problems: list[str] = []
        if not reading:
            problems += connection_settings.describe_missing_secret(values, values["transport"])
        problems += read_files_named_in_settings(values, given)
        known = [field.title for field in cls.model_fields.values() if field.title]
        try:
            odd = tuple(describe_odd_environment_variables(given, known))
            settings = cls(**values, warnings=odd)
        except ValidationError as error:
            errors = error.errors(include_input=False, include_url=False)
            problems += map(_describe_validation_error, errors)
        if problems:
            problems = _sort_problems_by_setting(problems, known)
            problems += describe_misspelt_setting_names(given, known)
        path = Path(values["policy_path"]) if "policy_path" in values else None
        if path and not path.is_file():
            remedy = cls.model_fields["policy_path"].description
            wrong = "it is a folder, no file" if path.is_dir() else "there is no such file"
            problems.append(f"COUNTERSIGN_POLICY: {wrong}. {remedy}")
            path = None
        if problems:
            # outside the handler: a traceback would carry the values along
            raise SettingsError(problems, path)
        return settings

    @property
    def database_path(self) -> Path:
        """Return the SQLite file of `database_url`; with a server, the path that names sockets."""
        return build_local_path(self.database_url)

    @property
    def signing_key(self) -> SigningKey | None:
        """Return the configured signing key with older ones; None if it is in a file."""
        return parse_signing_key(self.key.get_secret_value()) if self.key else None

    @property
    def is_shared(self) -> bool:
        """Return whether the record is on a server, where several processes may write it."""
        return is_postgres_url(self.database_url)

    @field_validator("key")
    @classmethod
    def _validate_key(cls, value: SecretStr | None) -> SecretStr | None:
        try:
            if value is not None:
                parse_signing_key(value.get_secret_value())
        except ValueError:
            raise ValueError(
                "it is shorter than 32 characters; make one with `openssl rand -hex 32`"
            ) from None
        return value

    @field_validator("slack_api_url", "openai_base_url")
    @classmethod
    def _normalize_url(cls, value: str | None) -> str | None:
        return _require_plain_url(value).rstrip("/") + "/" if value is not None else None

    @field_validator("database_url")
    @classmethod
    def _validate_database_url(cls, value: str) -> str:
        if is_postgres_url(value):
            return normalize_postgres_url(value)
        if not value.startswith("sqlite:"):
            raise ValueError("it is neither an SQLite file nor a database of PostgreSQL")
        if not re.fullmatch(r"sqlite:///[^?#\x00]*[^?#/\x00]", value) or ":memory:" in value:
            raise ValueError("it names no file, so nothing would outlive a restart")
        return value

    @field_validator("tool_modules", mode="before")
    @classmethod
    def _parse_module_names(cls, value: object) -> object:
        names = _split_names(value)
        if not all(part.isidentifier() for name in names for part in name.split(".")):
            raise ValueError("it is not a list of module names")
        return names

    @field_validator("without_tools", mode="before")
    @classmethod
    def _parse_tool_names(cls, value: object) -> object:
        names = _split_names(value)
        if not all(re.fullmatch(r"\w+", name, re.ASCII) for name in names):
            raise ValueError("it is not a list of tools' names")
        return names


def _split_names(value: object) -> tuple[str, ...]:
    given = value.split(",") if isinstance(value, str) else value
    if not isinstance(given, list | tuple):
        raise ValueError("it is not a list of names")
    return tuple(dict.fromkeys(str(each).strip() for each in given))


def _sort_problems_by_setting(problems: list[str], known: list[str]) -> list[str]:
    """Return the problems in the order of the settings that they name, those without one last."""
    place = {name: number for number, name in enumerate(known)}
    return sorted(problems, key=lambda each: place.get(each.split(":")[0], len(known)))


def _describe_validation_error(error: ErrorDetails) -> str:
    field = Settings.model_fields[str(error["loc"][0])]
    if error["type"] == "missing":
        return f"{field.title}: is missing. {field.description}"
    text = str(error["ctx"]["error"]) if error["type"] == "value_error" else error["msg"]
    return f"{field.title}: {text[0].lower()}{text[1:]}. {field.description}"
