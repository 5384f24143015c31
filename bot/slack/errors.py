"""What the errors that Slack answers with mean for whoever may try again."""

from __future__ import annotations

import math

from slack_sdk.errors import SlackApiError

from bot.slack_codes import CERTAIN, CODE, LIMITED, TOO_MANY, Meaning, code_of, meaning_of

# Answers that say this workspace or app does not have the feature.
ABSENT = {
    "unknown_method",
    "feature_disabled",
    "not_agent_app",
    "missing_scope",
    "not_allowed_token_type",
    "no_permission",
}
LONGEST = 300.0  # seconds that are waited at most before Slack is asked again
RATE_LIMITED = "ratelimited"
NOT_FOUND = 404  # the same, from a server that does not say it in Slack's words


def status_of(error: SlackApiError) -> int:
    """Return the HTTP status that an error came with."""
    return int(getattr(error.response, "status_code", 200))


def code_said(error: SlackApiError) -> str:
    """Return the code of an answer that is Slack's own; "" for any other, as a page of HTML."""
    if is_limited(error):
        return RATE_LIMITED
    code = code_of(error)
    return code if CODE.fullmatch(code) and status_of(error) < CERTAIN else ""


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
    """Return for how long Slack asks to wait; 0 where it does not say, or nothing sensible."""
    return seconds_in(error.response.headers.get("Retry-After"))


def seconds_in(header: object) -> float:
    """Return the seconds of a Retry-After, of which nobody waits longer than `LONGEST`; 0 for
    none, and for what is no number of seconds.
    """
    try:
        seconds = float(str(header or 0))
    except ValueError:
        return 0.0
    return min(seconds, LONGEST) if math.isfinite(seconds) and seconds > 0 else 0.0
