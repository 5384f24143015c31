"""The client of the commands that only read, and what to say where Slack does not answer it."""

from __future__ import annotations

from http.client import HTTPException

from slack_sdk import WebClient
from slack_sdk.errors import SlackApiError, SlackClientError
from slack_sdk.http_retry.builtin_handlers import RateLimitErrorRetryHandler

from bot.config.settings import Settings

PATIENCE = 15  # seconds for one look-up
# what slack_sdk raises besides SlackApiError
UNREACHABLE = (SlackClientError, HTTPException, OSError)


def make_client(settings: Settings) -> WebClient:
    """Make a client that only reads: it waits where Slack limits it."""
    token = settings.slack_bot_token.get_secret_value()
    client = WebClient(token, base_url=settings.slack_api_url, timeout=PATIENCE)
    client.retry_handlers.append(RateLimitErrorRetryHandler(max_retry_count=2))
    return client


def reason(error: Exception) -> str:
    """Slack's own error code, or the kind of what went wrong on the way; never a URL or a token."""
    if isinstance(error, SlackApiError):
        return f"Slack answers {error.response.get('error') or 'with an error'}"
    return f"Slack cannot be reached ({type(error).__name__})"
