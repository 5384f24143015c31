"""What can go wrong with a request to the model: whether it passes, what it is called, what people
are told.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, NoReturn

import openai

from bot.agent.turn import PlannerError

MOST_REASON = 300  # characters of what the model's service gives as its reason


class CutStreamError(Exception):
    """The stream ended before the response was complete."""


TRANSIENT = (
    openai.RateLimitError,
    openai.InternalServerError,
    openai.APIConnectionError,  # includes APITimeoutError
    CutStreamError,
)


class Trouble(StrEnum):
    """What can go wrong with a request to the model, for who counts it."""

    KEY = "key"  # it was refused
    CREDIT = "credit"  # the account has none left
    LIMIT = "limit"  # too many requests
    TIME = "time"  # no answer in time
    CONNECTION = "connection"  # it broke, or the stream was cut
    SERVER = "server"  # an answer of 5xx
    REQUEST = "request"  # what was asked was refused, or any other error


def kind_of(error: Exception) -> Trouble:
    """Return which of them it is."""
    if getattr(error, "code", None) == "insufficient_quota":
        return Trouble.CREDIT
    match error:
        case openai.AuthenticationError() | openai.PermissionDeniedError():
            return Trouble.KEY
        case openai.RateLimitError():
            return Trouble.LIMIT
        case openai.APITimeoutError():
            return Trouble.TIME
        case openai.APIConnectionError() | CutStreamError():
            return Trouble.CONNECTION
        case openai.InternalServerError():
            return Trouble.SERVER
        case _:
            return Trouble.REQUEST


def may_pass(error: BaseException) -> bool:
    """A 429 for an empty account never passes by waiting."""
    return getattr(error, "code", None) != "insufficient_quota"


def raise_failed(error: Mapping[str, Any]) -> NoReturn:
    """Raise CutStreamError for a failure told in a stream that may pass, else PlannerError."""
    if error.get("code") in ("server_error", "rate_limit_exceeded"):
        raise CutStreamError(error["message"])
    why = error.get("message", "no reason given")
    raise PlannerError(f"The model refused the request: {why}.")


def reason_of(error: openai.APIStatusError) -> str:
    """What the service gave as its reason, on one line; "" where it gave none."""
    body = error.body if isinstance(error.body, dict) else {}
    return " ".join(str(body.get("message") or "").split())[:MOST_REASON].rstrip(".")


def sentence_of(error: Exception) -> str:
    """What people are told of it."""
    if getattr(error, "code", None) == "insufficient_quota":
        return "The model's account has no credit left."
    match error:
        case openai.AuthenticationError() | openai.PermissionDeniedError():
            return "The model refused our key."
        case openai.RateLimitError():
            return "The model is receiving too many requests."
        case openai.APITimeoutError():
            return "The model did not answer in time."
        case openai.APIConnectionError() | CutStreamError():
            return "The connection to the model broke."
        case openai.APIStatusError():
            code, why = error.status_code, reason_of(error)
            return (
                f"The model's service answered with an error ({code}){f': {why}' if why else ''}."
            )
        case _:
            return "The model could not be reached."
