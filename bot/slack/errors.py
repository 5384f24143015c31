"""What the errors that Slack answers with mean for whoever may try again."""

from __future__ import annotations

import math

from slack_sdk.errors import SlackApiError

LIMITED = {"ratelimited", "rate_limited"}
PASSING = LIMITED | {
    "internal_error",
    "fatal_error",
    "service_unavailable",
    "request_timeout",
    "team_added_to_org",
    "org_login_required",
    "accesslimited",
    "streaming_state_conflict",
}
# Answers that say this workspace or app does not have the feature.
ABSENT = {
    "unknown_method",
    "feature_disabled",
    "not_agent_app",
    "missing_scope",
    "not_allowed_token_type",
    "no_permission",
}
# Answers that say the token is not, or no longer, good.
REFUSED = {"invalid_auth", "not_authed", "account_inactive", "token_revoked", "token_expired"}
NOT_FOUND = 404  # the same, from a server that does not say it in Slack's words
TOO_MANY = 429
CERTAIN = 500  # an answer below this status says that nothing was posted


def status_of(error: SlackApiError) -> int:
    """Return the HTTP status that an error came with."""
    return int(getattr(error.response, "status_code", 200))


def is_limited(error: SlackApiError) -> bool:
    """Return whether Slack took nothing, for there was too much of it."""
    return status_of(error) == TOO_MANY or error.response.get("error") in LIMITED


def is_passing(error: SlackApiError) -> bool:
    """Return whether the same may go well later."""
    return (
        is_limited(error) or status_of(error) >= CERTAIN or error.response.get("error") in PASSING
    )


def is_absent(error: SlackApiError) -> bool:
    """Return whether this workspace or app does not have the feature at all."""
    return error.response.get("error") in ABSENT or status_of(error) == NOT_FOUND


def seconds_asked(error: SlackApiError) -> float:
    """Return for how long Slack asks to wait; 0 where it does not say."""
    try:
        seconds = float(error.response.headers.get("Retry-After") or 0)
    except ValueError:
        return 0
    return seconds if math.isfinite(seconds) else 0
