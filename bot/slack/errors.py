"""What the errors that Slack answers with mean for whoever may try again."""

from __future__ import annotations

import math

from slack_sdk.errors import SlackApiError

from bot.slack_codes import LIMITED, TOO_MANY, Meaning, code_of, meaning_of

# Answers that say this workspace or app does not have the feature.
ABSENT = {
    "unknown_method",
    "feature_disabled",
    "not_agent_app",
    "missing_scope",
    "not_allowed_token_type",
    "no_permission",
}
NOT_FOUND = 404  # the same, from a server that does not say it in Slack's words


def status_of(error: SlackApiError) -> int:
    """Return the HTTP status that an error came with."""
    return int(getattr(error.response, "status_code", 200))


def meaning(error: SlackApiError) -> Meaning:
    """Return what this answer says about the call: final, passing, the token, or nothing."""
    method = str(getattr(error.response, "api_url", "")).rpartition("/")[2].partition("?")[0]
    return meaning_of(code_of(error), status=status_of(error), method=method)


def is_limited(error: SlackApiError) -> bool:
    """Return whether Slack took nothing, for there was too much of it."""
    return status_of(error) == TOO_MANY or code_of(error) in LIMITED


def is_final(error: SlackApiError) -> bool:
    """Return whether Slack said no, and will say so again."""
    return meaning(error) is Meaning.FINAL


def is_token(error: SlackApiError) -> bool:
    """Return whether Slack does not let the bot in, whatever it asks."""
    return meaning(error) is Meaning.TOKEN


def is_absent(error: SlackApiError) -> bool:
    """Return whether this workspace or app does not have the feature at all."""
    return code_of(error) in ABSENT or status_of(error) == NOT_FOUND


def seconds_asked(error: SlackApiError) -> float:
    """Return for how long Slack asks to wait; 0 where it does not say."""
    try:
        seconds = float(error.response.headers.get("Retry-After") or 0)
    except ValueError:
        return 0
    return seconds if math.isfinite(seconds) else 0
