"""The settings of the connections to Slack and to the model."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Literal, NamedTuple
from urllib.parse import urlsplit

from pydantic import BaseModel, Field, SecretStr, field_validator

MISSING = SecretStr("")  # no variable can have this value, since a blank one counts as unset


class Transport(StrEnum):
    """The ways in which Slack's deliveries arrive."""

    SOCKET = "socket"  # Slack's Socket Mode: the bot opens a connection
    HTTP = "http"  # Slack sends signed requests to our address


class ListeningAddress(NamedTuple):
    """The host and port on which the bot listens for requests."""

    host: str
    port: int  # 0: any free port


# where `countersign serve` listens by default
DEFAULT_ADDRESS = ListeningAddress("127.0.0.1", 8080)


def describe_listening_error(error: OSError) -> str:
    """Return the system's message why the bot cannot listen, without the address."""
    return os.strerror(error.errno) if error.errno and error.errno > 0 else str(error)


@dataclass(frozen=True, slots=True)
class PageAddress:
    """The address at which browsers reach this installation, with its WebAuthn origin and RP id."""

    url: str  # without a trailing slash
    origin: str  # as browsers send it: https://approve.example.com, with the port if not the usual
    rp_id: str  # the WebAuthn RP id: the host name alone


def parse_page_address(url: str) -> PageAddress:
    """Return the parts of COUNTERSIGN_URL; ValueError says why no browser could sign there."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        raise ValueError("it is not an address; write https://approve.example.com") from None
    local = host == "localhost" or host.endswith(".localhost")
    if parts.scheme != "https" and not (parts.scheme == "http" and local):
        raise ValueError("browsers sign only over https, or on this machine at http://localhost")
    if not re.fullmatch(r"[a-z0-9-]+(\.[a-z0-9-]*[a-z][a-z0-9-]*)*", host):
        raise ValueError("browsers sign only for names, such as approve.example.com or localhost")
    if parts.query or parts.fragment or parts.username or parts.password:
        raise ValueError("write only scheme, host, port and path")
    usual = {"https": 443, "http": 80}[parts.scheme]
    origin = f"{parts.scheme}://{host}" + (f":{port}" if port not in (None, usual) else "")
    return PageAddress(origin + parts.path.rstrip("/"), origin, host)


def get_page_host(url: str | None) -> str:
    """Return the host name in COUNTERSIGN_URL (`url`), for which passkeys sign; "" if none can."""
    try:
        return parse_page_address(url).rp_id if url else ""
    except ValueError:
        return ""


class ConnectionSettings(BaseModel):
    """The settings of Slack and HTTP."""

    slack_bot_token: SecretStr = Field(
        title="SLACK_BOT_TOKEN",
        description="The bot token, xoxb-…: your app's page at Slack, OAuth & Permissions.",
    )
    slack_app_token: SecretStr = Field(
        MISSING,
        title="SLACK_APP_TOKEN",
        description="The app-level token with connections:write, xapp-…: "
        "Basic Information at Slack. `countersign run` needs it.",
    )
    slack_signing_secret: SecretStr = Field(
        MISSING,
        title="SLACK_SIGNING_SECRET",
        description="The secret that Slack signs its requests with: Basic Information at Slack. "
        "`countersign serve` needs it.",
    )
    http: ListeningAddress | None = Field(
        None,
        title="COUNTERSIGN_HTTP",
        description="The address to listen at, as host:port: for health checks, for programs,"
        " and with `countersign serve` for Slack.",
    )
    url: str | None = Field(
        None,
        title="COUNTERSIGN_URL",
        description="Where browsers and programs reach this installation, such as"
        " https://approve.example.com; votes with passkeys need it.",
    )
    transport: Transport = Field(
        Transport.SOCKET, description="How Slack's deliveries arrive; the command decides it."
    )
    slack_api_url: str = Field(
        "https://slack.com/api/",
        title="SLACK_API_URL",
        description="Where Slack's Web API is, ending in /api/.",
    )
    other_connections: bool = Field(
        False,
        title="COUNTERSIGN_OTHER_CONNECTIONS",
        description="Whether to run beside another process with the same app token: on or off.",
    )

    @field_validator("slack_bot_token", "slack_app_token")
    @classmethod
    def _validate_token(cls, value: SecretStr, info: Any) -> SecretStr:
        if value is MISSING:
            return value
        prefix, other = ("xoxb-", "xapp-")[:: 1 if info.field_name == "slack_bot_token" else -1]
        if value.get_secret_value().startswith(other):
            raise ValueError(f"it begins with {other}, which is the other token: they are swapped")
        rotated = r"(xoxe\.)?" if prefix == "xoxb-" else ""  # Slack's prefix for tokens that expire
        if not re.fullmatch(rotated + prefix + r"[!-~]+", value.get_secret_value()):
            raise ValueError(
                f"it does not begin with {prefix}, or has characters that no token has"
            )
        return value

    @field_validator("slack_signing_secret")
    @classmethod
    def _validate_signing_secret(cls, value: SecretStr) -> SecretStr:
        if value is not MISSING and not re.fullmatch(r"[!-~]{16,}", value.get_secret_value()):
            raise ValueError(
                "it is shorter than 16 characters, or has some that no Slack secret has"
            )
        return value

    @field_validator("http", mode="before")
    @classmethod
    def _parse_http_address(cls, value: object) -> object:
        if not isinstance(value, str):
            return value
        found = re.fullmatch(r"(?:\[([0-9A-Fa-f:.]+)\]|([\w.-]+)):([0-9]{1,5})", value, re.ASCII)
        if found is None or int(found[3]) > 65_535:
            raise ValueError("it is not host:port, e.g. 127.0.0.1:8080 or [::]:8080")
        return ListeningAddress(found[1] or found[2], int(found[3]))


MIN_INTERVAL_SECONDS = 0.05  # with less, a loop would be busy all the time


class ModelApi(StrEnum):
    """The APIs that the model's server may speak."""

    RESPONSES = "responses"  # OpenAI's Responses API
    CHAT = "chat"  # Chat Completions, which most other servers speak
    AUTO = "auto"  # the first of the two that the server has


class AttachedFilesMode(StrEnum):
    """The kinds of attached files that the model is given."""

    ON = "on"  # pictures, PDFs and text files
    TEXT = "text"  # text files only
    OFF = "off"  # none


class ModelSettings(BaseModel):
    """The settings of the model."""

    openai_api_key: SecretStr = Field(
        MISSING,
        title="OPENAI_API_KEY",
        description="The key of the model's API; any word if your server needs none. "
        "Unset: no model, people ask with forms.",
    )
    openai_base_url: str | None = Field(
        None,
        title="OPENAI_BASE_URL",
        description="Another server that speaks the Responses API or Chat Completions, up to /v1.",
    )
    openai_api: ModelApi = Field(
        ModelApi.AUTO,
        title="OPENAI_API",
        description="What that server speaks: responses, chat (Chat Completions), or auto: "
        "whichever it has.",
    )
    openai_model: str = Field(
        "gpt-5.1",
        title="OPENAI_MODEL",
        min_length=1,
        max_length=200,
        description="The name of the model that plans.",
    )
    context_tokens: int | None = Field(
        None,
        title="COUNTERSIGN_CONTEXT_TOKENS",
        ge=1000,
        le=100_000_000,
        description="How many tokens the model reads at once; unset: learned from its server"
        " when it refuses.",
    )
    attached_files: AttachedFilesMode = Field(
        AttachedFilesMode.ON,
        title="COUNTERSIGN_FILES",
        description="Which attached files the model is given: on (pictures, PDFs and texts),"
        " text, or off.",
    )
    reasoning_effort: Literal["none", "minimal", "low", "medium", "high"] | None = Field(
        None,
        title="COUNTERSIGN_REASONING_EFFORT",
        description="How long the model thinks; unset: its own default.",
    )
    model_timeout: float = Field(
        120.0,
        title="COUNTERSIGN_MODEL_TIMEOUT",
        ge=MIN_INTERVAL_SECONDS,
        le=3600,
        description="Seconds without data from the model before a request is given up.",
    )
    model_retries: int = Field(
        4,
        title="COUNTERSIGN_MODEL_RETRIES",
        ge=0,
        le=20,
        description="How often a failed request is repeated.",
    )
    model_backoff: float = Field(
        1.0,
        title="COUNTERSIGN_MODEL_BACKOFF",
        ge=0,
        le=60,
        description="Seconds before the first repetition; doubled each time.",
    )

    @property
    def has_model(self) -> bool:
        """Return whether an API key is set, so that there is a model to read messages."""
        return bool(self.openai_api_key.get_secret_value())

    @field_validator("openai_api_key")
    @classmethod
    def _validate_api_key(cls, value: SecretStr) -> SecretStr:
        if value is not MISSING and not re.fullmatch(r"[!-~]+", value.get_secret_value()):
            raise ValueError("it is empty, or has characters that no key has")
        return value
