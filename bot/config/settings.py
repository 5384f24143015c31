"""The settings: read once, from the environment and an optional .env file, into one frozen model.

Values are never printed or logged: messages name the variable and the remedy only.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, field_validator
from pydantic_core import ErrorDetails

from bot.config import connection_settings, environment, workspace_settings
from bot.config.connection_settings import Transport
from bot.mcp.server_file import ServerFile, read_server_file
from bot.monitoring.logs import LogFormat
from bot.toml_file import TomlFileError, describe_invalid_value
from bot.tools.database.config import Database, read_databases
from storage.backend import build_local_path, is_postgres_url, normalize_postgres_url
from storage.digest import SigningKey, parse_signing_key


class SettingsError(ValueError):
    """Raised if the settings cannot be used.

    `problems` has one line each: the variable, what is wrong, what to do.
    """

    def __init__(self, problems: list[str], policy_path: Path | None = None) -> None:
        """`policy_path` is the policy file, still to be checked; None if that setting is wrong."""
        self.problems = tuple(problems)
        self.policy_path = policy_path
        super().__init__("\n  ".join(["the settings cannot be used:", *problems]))


MIN_KEEP_DAYS = 90  # rules may count calls of that many days


class OperationSettings(BaseModel):
    """The settings of files, monitoring, operator and retention."""

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
    operator: str | None = Field(
        None,
        title="COUNTERSIGN_OPERATOR",
        pattern="^[UW][A-Z0-9]{2,30}$",
        description="Whom `countersign approve` and `reject` decide for: a Slack user id, U….",
    )
    keep_days: int | None = Field(
        None,
        title="COUNTERSIGN_KEEP_DAYS",
        ge=MIN_KEEP_DAYS,
        le=36_500,
        description="After how many days what was said in a request is purged; unset: never.",
    )

    @field_validator("traces")
    @classmethod
    def _validate_traces_address(cls, value: str | None) -> str | None:
        return None if value is None else environment.require_plain_url(value)


def read_files_named_in_settings(
    values: dict[str, Any], variables: Mapping[str, str]
) -> Sequence[str]:
    """Replace file names in `values` by the files' parsed content; return the problems found.

    `variables`: the variables that the files may refer to.
    """
    problems: list[str] = []
    for name, read_file in (("databases", read_databases), ("servers", read_server_file)):
        try:
            if name in values:
                values[name] = read_file(Path(values[name]), variables)
        except TomlFileError as error:
            del values[name]
            problems += error.problems
    return problems


Count = Annotated[int, Field(ge=1, le=1_000_000)]


class LimitSettings(BaseModel):
    """The settings that limit runs and people."""

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
        description="How deep sub-agents may be nested; 0 for none at all.",
    )
    max_tokens: int = Field(
        200_000,
        title="COUNTERSIGN_MAX_TOKENS",
        ge=1000,
        le=1_000_000_000,
        description="How many tokens, in and out, one run may use.",
    )
    max_pending: Count = Field(
        20,
        title="COUNTERSIGN_MAX_PENDING",
        description="How many undecided calls one requester may have.",
    )
    max_asked_per_hour: Count = Field(
        60,
        title="COUNTERSIGN_MAX_ASKED_PER_HOUR",
        description="About how many calls of one requester people are asked about within an hour.",
    )
    max_tokens_per_day: int = Field(
        2_000_000,
        title="COUNTERSIGN_MAX_TOKENS_PER_DAY",
        ge=1000,
        le=1_000_000_000,
        description="How many tokens, in and out, the requests of one person may use in 24 hours.",
    )


REQUIRED_CREDENTIALS = ("slack_bot_token", "openai_api_key")


class Settings(
    connection_settings.ModelSettings,
    connection_settings.ConnectionSettings,
    LimitSettings,
    OperationSettings,
    workspace_settings.OrganisationSettings,
):
    """All of the bot's settings, here and in the classes above.

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
        repr=False,  # it may hold a password
        description="Where the record is kept: sqlite:///file (relative), sqlite:////folder/file, "
        "or postgresql://user:password@host/database.",
    )
    key: SecretStr | None = Field(
        None,
        title="COUNTERSIGN_KEY",
        description="The secret behind fingerprints, 32 characters or more; "
        "unset: a key file beside the database. "
        "Older ones that are still valid follow it, separated by commas.",
    )
    lost_key: str | None = Field(
        None,
        title="COUNTERSIGN_LOST_KEY",
        pattern="^[0-9a-f]{8}$",
        description="The id of a key that is lost: what waits under it is closed at the start,"
        " without running.",
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
        ge=connection_settings.MIN_INTERVAL_SECONDS,
        le=3600,
        description="Seconds a worker holds a run without a sign of life.",
    )
    tick: float = Field(
        30.0,
        title="COUNTERSIGN_TICK",
        ge=connection_settings.MIN_INTERVAL_SECONDS,
        le=30,
        description="Seconds between two checks of the clock when nothing happens.",
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
        transport: Transport | None = Transport.SOCKET,
    ) -> Settings:
        """Read the settings from `environ` and the .env file; `environ` wins, blank means unset.

        `reading`: tokens and keys may be missing, and are empty then; enough to read, not to run.
        `transport`: how Slack's deliveries arrive, whose secret is required; None: the one whose
        secret is given. Raises SettingsError with all problems.
        """
        try:
            variables = environment.read_environment_variables(environ, dotenv_path)
        except environment.DotenvError as error:
            raise SettingsError([str(error)]) from None
        variables, problems = workspace_settings.read_workspace_variables(variables)
        values = cls._collect_values(variables, problems, reading=reading, transport=transport)
        setting_names = [field.title for field in cls.model_fields.values() if field.title]
        try:
            warning_texts = tuple(
                environment.describe_odd_environment_variables(variables, setting_names)
            )
            settings = cls(**values, warnings=warning_texts)
        except ValidationError as error:
            errors = error.errors(include_input=False, include_url=False)
            problems += map(_describe_validation_error, errors)
        if problems:
            place = {name: number for number, name in enumerate(setting_names)}  # others come last
            problems.sort(key=lambda each: place.get(each.split(":")[0], len(place)))
            problems += environment.describe_misspelt_setting_names(variables, setting_names)
            problems += environment.describe_quoted_values(variables, setting_names)
        path = Path(values["policy_path"]) if "policy_path" in values else None
        if path and not path.is_file():
            remedy = cls.model_fields["policy_path"].description
            problem = "it is a folder, not a file" if path.is_dir() else "there is no such file"
            problems.append(f"COUNTERSIGN_POLICY: {problem}. {remedy}")
            path = None
        if problems:
            # outside the `except` block, since a traceback would contain the values
            raise SettingsError(problems, path)
        return settings

    @classmethod
    def _collect_values(
        cls,
        variables: Mapping[str, str],
        problems: list[str],
        *,
        reading: bool,
        transport: Transport | None,
    ) -> dict[str, Any]:
        """Return the fields' values as they were given; what is missing is added to `problems`."""
        values: dict[str, Any] = {
            key: variables[field.title]
            for key, field in cls.model_fields.items()
            if field.title is not None and field.title in variables
        }
        problems += workspace_settings.describe_organisation_problems(values, reading=reading)
        if "client_id" in values:
            values.setdefault("slack_bot_token", connection_settings.MISSING)
        if reading:
            values = dict.fromkeys(REQUIRED_CREDENTIALS, connection_settings.MISSING) | values
        if transport is None:
            only_http = "slack_signing_secret" in values and "slack_app_token" not in values
            transport = Transport.HTTP if only_http else Transport.SOCKET
        values["transport"] = transport
        need = "slack_app_token" if transport is Transport.SOCKET else "slack_signing_secret"
        if not reading and need not in values:
            field = cls.model_fields[need]
            problems.append(f"{field.title}: is missing. {field.description}")
        problems += read_files_named_in_settings(values, variables)
        return values

    @property
    def database_path(self) -> Path:
        """Return the SQLite file of `database_url`; for a server, a path that names the socket."""
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
        return environment.require_plain_url(value).rstrip("/") + "/" if value is not None else None

    @field_validator("database_url")
    @classmethod
    def _validate_database_url(cls, value: str) -> str:
        if is_postgres_url(value):
            return normalize_postgres_url(value)
        if not value.startswith("sqlite:"):
            raise ValueError("it is neither an SQLite file nor a PostgreSQL database")
        if not re.fullmatch(r"sqlite:///[^?#\x00]*[^?#/\x00]", value) or ":memory:" in value:
            raise ValueError("it names no file, so nothing would survive a restart")
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


_MESSAGE_BY_ERROR_TYPE = {
    "string_pattern_mismatch": "does not look like one",
    "bool_parsing": "write on or off",
}


def _describe_validation_error(error: ErrorDetails) -> str:
    field = Settings.model_fields[str(error["loc"][0])]
    if error["type"] == "missing":
        return f"{field.title}: is missing. {field.description}"
    text = describe_invalid_value(error, _MESSAGE_BY_ERROR_TYPE)
    return f"{field.title}: {text[0].lower()}{text[1:]}. {field.description}"
