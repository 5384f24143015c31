"""Errors of requests to the model: whether a retry may help, their kind, the text for people."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from http import HTTPStatus
from typing import Any, NoReturn

import openai

from bot.agent import turn

MIN_SERVER_ERROR_STATUS = 500
MAX_ERROR_REASON_CHARS = 300
API_MISSING_STATUSES = (
    HTTPStatus.NOT_FOUND,
    HTTPStatus.METHOD_NOT_ALLOWED,
    HTTPStatus.NOT_IMPLEMENTED,
)
REQUEST_TOO_LARGE_STATUSES = (HTTPStatus.BAD_REQUEST, HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
# how servers say that a model, or the server itself, does not support tools
_TOOLS_UNSUPPORTED_PATTERN = re.compile(
    r"\b(?:tools?|functions?)\b\W*(?:us(?:e|age)|call(?:s|ing)|choice|param)?\W*(?:is|are)? ?"
    r"(?:not (?:supported|available)|unsupported|requires? --)"
    r"|(?:not|n't) support(?:ed)? (?:\w+ )?(?:tools?|functions?)\b"
    r"|that support tool use",
    re.IGNORECASE,
)
# how servers say that they do not stream answers, or none that may hold calls
_STREAMING_UNSUPPORTED_PATTERN = re.compile(
    r"\bstream(?:ing|ed)?\b[^.]*\bnot (?:supported|available)"
    r"|(?:cannot|can't|not support(?:ed)?)\b[^.]*\bstream(?:ing|ed)?\b"
    r"|to stream this model",
    re.IGNORECASE,
)
# how servers say that a model reads no pictures, or fail on a message with several parts; some
# report that as an error that looks temporary
_IMAGES_UNSUPPORTED_PATTERN = re.compile(
    r"\b(?:images?|vision|multi-?modal|image_url)\b.{0,60}\b(?:not|n't|only|unsupported|cannot)\b"
    r"|\b(?:not|n't|at most 0|unsupported|cannot)\b.{0,60}"
    r"\b(?:images?|vision|multi-?modal|image_url)\b"
    r"|\bvalidation errors?\b|\bcan only concatenate str\b|\bexpected string\b",
    re.IGNORECASE,
)
# how servers say that they do not know a parameter, near its name; and OpenAI, of `include`
_UNSUPPORTED = r"\b(?:unsupported|unknown|unrecogni[sz]ed|unexpected|extra|not supported)\b"
_REASONING_UNSUPPORTED_TEXT = "encrypted content is not supported"
CONTENT_REFUSED_STATUSES = (
    HTTPStatus.BAD_REQUEST,
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
    HTTPStatus.UNPROCESSABLE_ENTITY,
)
# how servers say that a request does not fit into the model's context
_CONTEXT_EXCEEDED_PATTERN = re.compile(
    r"(?:maximum|available|model'?s) context|context (?:length|window|size)|prompt is too long",
    re.IGNORECASE,
)
# and how they name the number of tokens that would fit
_CONTEXT_WINDOW_PATTERN = re.compile(
    r"(?:context (?:length|window|size)|\bn_ctx)\D{0,20}(\d{3,9})|> (\d{3,9}) maximum", re.I
)
CONTEXT_EXCEEDED_CODE = "context_length_exceeded"
# how servers say that they cannot read sealed items, as those of another key, region or model, that
# they miss reasoning, or that an item's id, as another server gave it, is none of theirs
UNUSABLE_REASONING_CODE = "invalid_encrypted_content"
_UNUSABLE_REASONING_PATTERN = re.compile(
    rf"{UNUSABLE_REASONING_CODE}|\bencrypted content\b(?! is not supported)|items are not persisted"
    r"|without its required (?:'reasoning'|following) item|\binput\[\d+\]\.id\b",
    re.IGNORECASE,
)
THREAD_TOO_LONG_ERROR = (
    "This thread has become longer than the model can read. Start a new thread and ask again."
)


class CutStreamError(Exception):
    """Raised if a stream ended before the response was complete."""


class StreamWithoutAnswerError(CutStreamError):
    """Raised if a stream gave no complete answer, but the server may answer without streaming."""


TRANSIENT_ERRORS = (
    openai.RateLimitError,
    openai.InternalServerError,
    openai.APIConnectionError,  # includes APITimeoutError
    CutStreamError,
)


class ModelErrorKind(StrEnum):
    """The kinds of errors of requests to the model, for metrics."""

    KEY = "key"  # the API key was refused
    CREDIT = "credit"  # the account has none left
    LIMIT = "limit"  # too many requests
    TIME = "time"  # no answer in time
    CONNECTION = "connection"  # the connection broke, or the stream was cut
    SERVER = "server"  # an answer of 5xx
    REQUEST = "request"  # the request was refused; also any other error


ERROR_TEXT_BY_KIND = {
    ModelErrorKind.KEY: "The model refused our key.",
    ModelErrorKind.CREDIT: "The model's account has no credit left.",
    ModelErrorKind.LIMIT: "The model is receiving too many requests.",
    ModelErrorKind.TIME: "The model did not answer in time.",
    ModelErrorKind.CONNECTION: "The connection to the model broke.",
}


def classify_error(error: Exception) -> ModelErrorKind:
    """Return the kind of this error of a request to the model, for metrics."""
    if getattr(error, "code", None) == "insufficient_quota":
        return ModelErrorKind.CREDIT
    match error:
        case openai.AuthenticationError() | openai.PermissionDeniedError():
            return ModelErrorKind.KEY
        case openai.RateLimitError():
            return ModelErrorKind.LIMIT
        case openai.APITimeoutError():
            return ModelErrorKind.TIME
        case openai.APIConnectionError() | CutStreamError():
            return ModelErrorKind.CONNECTION
        case openai.InternalServerError():
            return ModelErrorKind.SERVER
        case _:
            return ModelErrorKind.REQUEST


def can_retry(error: BaseException) -> bool:
    """Return whether a retry may help: not if the account is empty, or tools or images refused."""
    lacks = is_tool_use_unsupported(error) or _is_image_input_unsupported(error)
    return getattr(error, "code", None) != "insufficient_quota" and not lacks


def is_api_missing(error: BaseException) -> bool:
    """Return whether the server says that it has no such API, rather than no such model."""
    if not isinstance(error, openai.APIStatusError) or is_tool_use_unsupported(error):
        return False
    if _is_reasoning_unusable(error):  # one of these is a 404, too
        return False
    return error.status_code in API_MISSING_STATUSES and error.code != "model_not_found"


def is_tool_use_unsupported(error: BaseException) -> bool:
    """Return whether the server says that the model cannot call tools."""
    if not isinstance(error, openai.APIStatusError):
        return False
    about = re.split(r"[.\[]", str(error.param or ""))[0] in ("tools", "tool_choice")
    refused = error.code in ("unsupported_parameter", "unsupported_value")
    return (about and refused) or bool(
        _TOOLS_UNSUPPORTED_PATTERN.search(extract_error_reason(error) or str(error))
    )


def find_refused_parameter(
    error: openai.APIStatusError, dialect: turn.Dialect, body: Mapping[str, Any]
) -> str:
    """Return the optional parameter of this body that the server does not have, else "".

    The request may be repeated without it.
    """
    if error.status_code not in CONTENT_REFUSED_STATUSES:
        return ""
    said = extract_error_reason(error).lower()
    for name in (each for each in dialect.optional_parameters if each in body):
        near = rf"{_UNSUPPORTED}[^.]{{0,25}}\b{name}\b|\b{name}\b[^.]{{0,25}}{_UNSUPPORTED}"
        if error.param == name or re.search(near, said):
            return name
        if name == "include" and _REASONING_UNSUPPORTED_TEXT in said:
            return name
    return ""


def _is_reasoning_unusable(error: BaseException) -> bool:
    if not isinstance(error, openai.APIStatusError):
        return False
    return error.code == UNUSABLE_REASONING_CODE or bool(
        _UNUSABLE_REASONING_PATTERN.search(extract_error_reason(error))
    )


def is_streaming_unsupported(error: openai.APIStatusError) -> bool:
    """Return whether the server says that it cannot stream this answer."""
    return error.param == "stream" or bool(
        _STREAMING_UNSUPPORTED_PATTERN.search(extract_error_reason(error))
    )


def is_model_request_refused(error: BaseException) -> bool:
    """Return whether the server refuses the request's content, such as a file it cannot read."""
    if not isinstance(error, openai.APIStatusError):
        return False
    return error.status_code in CONTENT_REFUSED_STATUSES or _is_image_input_unsupported(error)


def _is_image_input_unsupported(error: BaseException) -> bool:
    if not isinstance(error, openai.APIStatusError):
        return False
    return bool(_IMAGES_UNSUPPORTED_PATTERN.search(extract_error_reason(error) or str(error)))


def tools_unsupported_sentence(model: str) -> str:
    """Return the sentence for people that the model cannot call tools."""
    return f"The model {model} cannot call tools, and without them there is nothing it could do."


def raise_stream_error(error: Mapping[str, Any]) -> NoReturn:
    """Raise the exception for an error that is reported inside a stream.

    CutStreamError if a retry may help, ModelRequestTooLongError if the request is too long,
    UnusableReasoningError if the server cannot use its reasoning, else ModelRequestRefusedError.
    """
    code, why = error.get("code"), _format_reason(error) or "no reason given"
    if code == CONTEXT_EXCEEDED_CODE:
        raise turn.ModelRequestTooLongError(THREAD_TOO_LONG_ERROR, parse_context_window(why))
    if code == UNUSABLE_REASONING_CODE:
        raise turn.UnusableReasoningError(f"The model refused the request: {why}.")
    busy = isinstance(code, int) and (
        code == HTTPStatus.TOO_MANY_REQUESTS or code >= MIN_SERVER_ERROR_STATUS
    )
    if busy or code in ("server_error", "rate_limit_exceeded"):
        raise CutStreamError(why)
    raise turn.ModelRequestRefusedError(f"The model refused the request: {why}.")


def extract_error_reason(error: openai.APIStatusError) -> str:
    """Return the reason in the service's error response, on one line; "" if there is none."""
    body = error.body
    if isinstance(body, str) and not body.startswith("<"):  # a text, but no page of a proxy
        return _format_reason({"message": body})
    return _format_reason(body if isinstance(body, dict) else {})


def _format_reason(error: Mapping[str, Any]) -> str:
    detail = error.get("detail")  # in FastAPI's servers
    said = error.get("message") or (detail if isinstance(detail, str) else "")
    return " ".join(str(said).split())[:MAX_ERROR_REASON_CHARS].rstrip(". ")


def is_model_request_too_long(error: BaseException) -> bool:
    """Return whether the server says that the request is longer than the model can read."""
    if getattr(error, "code", None) == CONTEXT_EXCEEDED_CODE:
        return True
    if (
        not isinstance(error, openai.APIStatusError)
        or error.status_code not in REQUEST_TOO_LARGE_STATUSES
    ):
        return False
    return bool(_CONTEXT_EXCEEDED_PATTERN.search(extract_error_reason(error)))


def parse_context_window(why: str) -> int:
    """Return how many tokens the model can read, as the server's error text says, else 0."""
    found = _CONTEXT_WINDOW_PATTERN.search(why.replace(",", ""))
    return int(found[1] or found[2]) if found else 0


def build_planner_error(error: Exception, model: str) -> turn.PlannerError:
    """Return the PlannerError to raise for an error, with a sentence for people."""
    if is_model_request_too_long(error):
        said = extract_error_reason(error) if isinstance(error, openai.APIStatusError) else ""
        window = parse_context_window(said or str(error))
        return turn.ModelRequestTooLongError(THREAD_TOO_LONG_ERROR, window)
    if is_tool_use_unsupported(error):
        return turn.PlannerError(tools_unsupported_sentence(model))
    if _is_reasoning_unusable(error):
        return turn.UnusableReasoningError(model_error_sentence(error))
    return (
        turn.ModelRequestRefusedError if is_model_request_refused(error) else turn.PlannerError
    )(model_error_sentence(error))


def model_error_sentence(error: Exception) -> str:
    """Return the sentence for people about an error of a request to the model."""
    if is_model_request_too_long(error):
        return THREAD_TOO_LONG_ERROR
    kind = classify_error(error)
    if kind in ERROR_TEXT_BY_KIND:
        return ERROR_TEXT_BY_KIND[kind]
    if not isinstance(error, openai.APIStatusError):
        return "The model could not be reached."
    code, why = error.status_code, extract_error_reason(error)
    why = "" if "{" in why else why  # JSON from a program, which tells people nothing
    return f"The model's service answered with an error ({code}){f': {why}' if why else ''}."
