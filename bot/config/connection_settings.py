"""How Slack and Countersign reach one another: a part of the settings."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Any, NamedTuple

from pydantic import BaseModel, Field, SecretStr, field_validator

MISSING = SecretStr("")  # never read from a variable: blank means unset there


class Transport(StrEnum):
    """The way by which Slack's deliveries come."""

    SOCKET = "socket"  # Slack's Socket Mode: the bot opens a connection
    HTTP = "http"  # Slack sends signed requests to an address of ours


class Endpoint(NamedTuple):
    """Where requests are listened to."""

    host: str
    port: int  # 0: any that is free


USUAL = Endpoint("127.0.0.1", 8080)  # where `countersign serve` listens unless it is told


def reason(error: OSError) -> str:
    """Return why it cannot be listened to, in the system's words alone."""
    return os.strerror(error.errno) if error.errno and error.errno > 0 else str(error)


class Connection(BaseModel):
    """All of it, as settings: `title` is the variable, the description the sentence for people."""

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
    http: Endpoint | None = Field(
        None,
        title="COUNTERSIGN_HTTP",
        description="Where requests are listened to, as host:port: for machines that ask how the "
        "bot is, for programs, and with `countersign serve` for Slack's.",
    )
    transport: Transport = Field(
        Transport.SOCKET, description="How Slack's deliveries come; the command says it."
    )
    slack_api_url: str = Field(
        "https://slack.com/api/",
        title="SLACK_API_URL",
        description="Where Slack's Web API is, ending in /api/.",
    )
    other_connections: bool = Field(
        False,
        title="COUNTERSIGN_OTHER_CONNECTIONS",
        description="Whether to work beside another process with the same app token: on or off.",
    )

    @field_validator("slack_bot_token", "slack_app_token")
    @classmethod
    def _token(cls, value: SecretStr, info: Any) -> SecretStr:
        if value is MISSING:
            return value
        prefix, other = ("xoxb-", "xapp-")[:: 1 if info.field_name == "slack_bot_token" else -1]
        if value.get_secret_value().startswith(other):
            raise ValueError(f"it begins with {other}, which is the other token: they are swapped")
        if not re.fullmatch(prefix + r"[!-~]+", value.get_secret_value()):
            raise ValueError(
                f"it does not begin with {prefix}, or holds characters that no token has"
            )
        return value

    @field_validator("slack_signing_secret")
    @classmethod
    def _secret(cls, value: SecretStr) -> SecretStr:
        if value is not MISSING and not re.fullmatch(r"[!-~]{16,}", value.get_secret_value()):
            raise ValueError(
                "it is shorter than 16 characters, or holds some that no secret of Slack's has"
            )
        return value

    @field_validator("http", mode="before")
    @classmethod
    def _address(cls, value: object) -> object:
        if not isinstance(value, str):
            return value
        found = re.fullmatch(r"(?:\[([0-9A-Fa-f:.]+)\]|([\w.-]+)):([0-9]{1,5})", value, re.ASCII)
        if found is None or int(found[3]) > 65_535:
            raise ValueError("it is not host:port, e.g. 127.0.0.1:8080 or [::]:8080")
        return Endpoint(found[1] or found[2], int(found[3]))


def chosen(given: Mapping[str, Any], transport: Transport | None) -> Transport:
    """Return the way that the command named, or else the one whose secret alone is given."""
    if transport is None:
        only_http = "slack_signing_secret" in given and "slack_app_token" not in given
        return Transport.HTTP if only_http else Transport.SOCKET
    return transport


def missing(given: Mapping[str, Any], transport: Transport) -> Iterator[str]:
    """Return a sentence for the secret that this way needs and that is not given."""
    need = "slack_app_token" if transport is Transport.SOCKET else "slack_signing_secret"
    if need not in given:
        field = Connection.model_fields[need]
        yield f"{field.title}: is missing. {field.description}"
