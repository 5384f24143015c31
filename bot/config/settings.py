"""The settings: read once, from the environment and an optional .env file, into one frozen model.

It may not print or log a value: messages name the variable and the remedy, never what was written.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ConfigDict, Field, SecretStr, ValidationError, field_validator
from pydantic_core import ErrorDetails

from bot.config.connection import (
    MISSING,
    Connection,
    Transport,
    chosen,
    missing,
)
from bot.config.environment import DotenvError, misspelt, oddities, split, variables
from bot.config.files import Files, read_files
from bot.config.keeping import Keeping
from bot.config.limits import Limits
from bot.config.mistakes import SettingsError
from bot.config.model import SECONDS_MIN, Model
from bot.config.watching import Watching
from storage.address import is_shared, local_path, server_address
from storage.chain import SigningKey
from storage.digest import parse_key

CREDENTIALS = ("slack_bot_token", "openai_api_key")  # that a start cannot do without


class Settings(Model, Connection, Limits, Keeping, Watching, Files):
    """All settings.

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
        ge=SECONDS_MIN,
        le=3600,
        description="Seconds a worker holds a run without a sign of life.",
    )
    tick: float = Field(
        30.0,
        title="COUNTERSIGN_TICK",
        ge=SECONDS_MIN,
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
        transport: Transport | None = Transport.SOCKET,
    ) -> Settings:
        """Read `environ`, and under it the .env file at `dotenv_path`; blank means unset.

        `reading`: tokens and keys may be missing, and are empty then: enough to look, not to run.
        `transport`: how Slack's deliveries come, whose secret has to be there; None: as the secrets
        say that are there.
        Raises SettingsError with everything that is missing or wrong.
        """
        try:
            given = variables(environ, dotenv_path)
        except DotenvError as error:
            raise SettingsError([str(error)]) from None
        values: dict[str, Any] = {
            key: given[field.title]
            for key, field in cls.model_fields.items()
            if field.title is not None and field.title in given
        }
        if reading:
            values = dict.fromkeys(CREDENTIALS, MISSING) | values
        values["transport"] = chosen(values, transport)
        problems = [] if reading else list(missing(values, values["transport"]))
        problems += read_files(values, given)
        known = [field.title for field in cls.model_fields.values() if field.title]
        try:
            settings = cls(**values, warnings=tuple(oddities(given, known)))
        except ValidationError as error:
            problems += [
                _sentence(each) for each in error.errors(include_input=False, include_url=False)
            ]
        if problems:
            problems = [*_in_order(problems, known), *misspelt(given, known)]
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
        """The SQLite file of `database_url`; with a server, what its sockets are named after."""
        return local_path(self.database_url)

    @property
    def signing_key(self) -> SigningKey | None:
        """The key that is set, with older ones; None where it is in a file."""
        return parse_key(self.key.get_secret_value()) if self.key else None

    @property
    def is_shared(self) -> bool:
        """Whether the record is on a server, where several processes may write it."""
        return is_shared(self.database_url)

    @field_validator("key")
    @classmethod
    def _key(cls, value: SecretStr | None) -> SecretStr | None:
        try:
            if value is not None:
                parse_key(value.get_secret_value())
        except ValueError:
            raise ValueError(
                "it is shorter than 32 characters; make one with `openssl rand -hex 32`"
            ) from None
        return value

    @field_validator("slack_api_url", "openai_base_url")
    @classmethod
    def _url(cls, value: str | None) -> str | None:
        if value is None:
            return None
        parts = split(value)
        odd = parts.query or parts.fragment or parts.username or parts.password
        if parts.scheme not in ("https", "http") or not parts.hostname or odd:
            raise ValueError("it is not a plain http(s) address")
        return value.rstrip("/") + "/"

    @field_validator("database_url")
    @classmethod
    def _database(cls, value: str) -> str:
        if is_shared(value):
            return server_address(value)
        if not value.startswith("sqlite:"):
            raise ValueError("it is neither an SQLite file nor a database of PostgreSQL")
        if not re.fullmatch(r"sqlite:///[^?#\x00]*[^?#/\x00]", value) or ":memory:" in value:
            raise ValueError("it names no file, so nothing would outlive a restart")
        return value

    @field_validator("tool_modules", mode="before")
    @classmethod
    def _modules(cls, value: object) -> object:
        names = _listed(value)
        if not all(part.isidentifier() for name in names for part in name.split(".")):
            raise ValueError("it is not a list of module names")
        return names

    @field_validator("without_tools", mode="before")
    @classmethod
    def _tools(cls, value: object) -> object:
        names = _listed(value)
        if not all(re.fullmatch(r"\w+", name, re.ASCII) for name in names):
            raise ValueError("it is not a list of tools' names")
        return names


def _listed(value: object) -> tuple[str, ...]:
    """Names that are given with commas between them, or as a list; each once."""
    given = value.split(",") if isinstance(value, str) else value
    if not isinstance(given, list | tuple):
        raise ValueError("it is not a list of names")
    return tuple(dict.fromkeys(str(each).strip() for each in given))


def _in_order(problems: list[str], known: list[str]) -> list[str]:
    """The problems in the order of the settings that they name; what names none comes last."""
    place = {each: number for number, each in enumerate(known)}
    return sorted(problems, key=lambda each: place.get(each.split(":")[0], len(known)))


def _sentence(error: ErrorDetails) -> str:
    """One of Pydantic's complaints as a line for the operator, without the value."""
    field = Settings.model_fields[str(error["loc"][0])]
    if error["type"] == "missing":
        return f"{field.title}: is missing. {field.description}"
    text = str(error["ctx"]["error"]) if error["type"] == "value_error" else error["msg"]
    return f"{field.title}: {text[0].lower()}{text[1:]}. {field.description}"
