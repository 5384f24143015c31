"""The rules of the Web API's request formats: verbs, content types, character sets, names of
arguments.

Pure checks of one request's head and arguments; it reads no body and knows no state.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from bot.sandbox.spec.facts import FACTS
from bot.sandbox.web_api.arguments import Json, SlackError

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
    """SlackError for arguments in PHP's array form (name[0]=…) and for names that no argument can
    have.
    """
    for name in args:
        if _IN_ARRAY.fullmatch(name):
            raise SlackError("invalid_array_arg")
        if not _NAME.fullmatch(name):
            raise SlackError("invalid_arg_name")


def readable(method: str, content_type: str, args: Json, query: Mapping[str, str]) -> Json:
    """The arguments that Slack sees: of a JSON body nothing but the query where the method reads
    forms only.
    """
    if content_type == "application/json" and method in FACTS and not FACTS[method].json:
        return {name: value for name, value in args.items() if name in query}
    return args
