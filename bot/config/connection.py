"""How Slack and Countersign reach one another: a part of the settings."""

from __future__ import annotations

import re
from typing import Any

from pydantic import BaseModel, Field, SecretStr, field_validator

MISSING = SecretStr("")  # never read from a variable: blank means unset there


class Connection(BaseModel):
    """All of it, as settings: `title` is the variable, the description the sentence for people."""

    slack_bot_token: SecretStr = Field(
        title="SLACK_BOT_TOKEN",
        description="The bot token, xoxb-…: your app's page at Slack, OAuth & Permissions.",
    )
    slack_app_token: SecretStr = Field(
        title="SLACK_APP_TOKEN",
        description="The app-level token with connections:write, xapp-…: "
        "Basic Information at Slack.",
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
