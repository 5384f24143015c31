"""The error code of a call that Slack would refuse."""

from __future__ import annotations

from typing import Any

import pytest
from slack_sdk import WebClient
from slack_sdk.errors import SlackApiError


def code(error: pytest.ExceptionInfo[SlackApiError]) -> str:
    """Slack's error code of a refused call."""
    return str(error.value.response["error"])


def refused(client: WebClient, method: str, /, **arguments: Any) -> str:
    """Slack's error code for a call that must be refused."""
    with pytest.raises(SlackApiError) as error:
        client.api_call(method, params=arguments)
    return str(error.value.response["error"])
