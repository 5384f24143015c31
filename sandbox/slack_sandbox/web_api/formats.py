"""Request formats of the Web API: verbs, content types, character sets, argument names.

Pure checks of one request's head and arguments; it reads no body and knows no state.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from slack_sandbox.spec.facts import FACTS
from slack_sandbox.spec.slack_error import Json, SlackError, invalid
from slack_sandbox.spec.table import MAY_BE_EMPTY, WORDS_FOR_MISSING
from slack_sandbox.web_api.arguments import Args

_TYPES = (
    "application/json",
    "application/x-www-form-urlencoded",
    "multipart/form-data",
    "text/plain",
)
_CHARSETS = ("utf-8", "utf8", "iso-8859-1")
_NAME = re.compile(r"[A-Za-z]\w{0,63}", re.ASCII)
_IN_ARRAY = re.compile(r"\w+\[.*\]", re.ASCII)


def check_head(headers: Mapping[str, str], charset: str | None, has_body: bool) -> None:
    """SlackError unless a request with these headers is in a format that Slack reads.

    `charset` as it was declared.
    """
    if not has_body:
        return
    declared = headers.get("Content-Type", "").partition(";")[0].strip().lower()
    if not declared:
        raise SlackError("missing_post_type")
    if declared not in _TYPES:
        raise SlackError("invalid_post_type")
    if charset and charset.lower() not in _CHARSETS:
        raise SlackError("invalid_charset")


def check_names(args: Mapping[str, Any]) -> None:
    """Refuse arguments in PHP's array form (name[0]=…) and names that no argument can have."""
    for name in args:
        if _IN_ARRAY.fullmatch(name):
            raise SlackError("invalid_array_arg")
        if not _NAME.fullmatch(name):
            raise SlackError("invalid_arg_name")


def readable(method: str, content_type: str, args: Json, query: Mapping[str, str]) -> Json:
    """Return the arguments that Slack sees: no JSON body where the method reads forms only."""
    if content_type == "application/json" and method in FACTS and not FACTS[method].json:
        return {name: value for name, value in args.items() if name in query}
    return args


def check_required(method: str, args: Args) -> None:
    """SlackError unless the call has every argument that the method cannot do without.

    Slack has words of its own for some; all others are listed in one invalid_arguments.
    """
    empty = {
        name: (None,) if name in MAY_BE_EMPTY else (None, "") for name in FACTS[method].required
    }
    missing = [name for name, nothing in empty.items() if args.values.get(name) in nothing]
    words = [
        WORDS_FOR_MISSING[method, name] for name in missing if (method, name) in WORDS_FOR_MISSING
    ]
    unnamed = [name for name in missing if (method, name) not in WORDS_FOR_MISSING]
    if unnamed:
        raise invalid([f"missing required field: {name}" for name in unnamed])
    if words:
        raise SlackError(words[0])
