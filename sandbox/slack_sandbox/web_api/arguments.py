"""The arguments of a Web API call, read from every format that Slack takes.

It knows no methods and no state.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl

from slack_sandbox.spec.slack_error import Json, SlackError, invalid
from slack_sandbox.workspace.apps import App


@dataclass(frozen=True, slots=True)
class Args:
    """The arguments of one call, whatever format they came in, and the app that called.

    The values from a form are strings.
    """

    values: Mapping[str, Any]
    app: App

    def has(self, name: str) -> bool:
        """Whether the argument was sent with a value."""
        return self.values.get(name) is not None

    def text(self, name: str, default: str = "") -> str:
        """A string; SlackError(invalid_arguments) when JSON carried something else."""
        value = self.values.get(name)
        if value is None:
            return default
        if not isinstance(value, str):
            raise invalid([f"must provide a string [json-pointer:/{name}]"])
        return value

    def required(self, name: str) -> str:
        """A string that must be there and not be empty."""
        value = self.text(name)
        if not value:
            raise invalid([f"missing required field: {name}"])
        return value

    def flag(self, name: str, default: bool = False) -> bool:
        """A boolean: true, 1, "1", "true" mean yes."""
        value = self.values.get(name)
        return default if value is None else value in (True, "1", "true", "True")

    def number(self, name: str, default: int) -> int:
        """An integer; SlackError(invalid_arguments) when it is none."""
        value = self.values.get(name)
        if value is None or value == "":
            return default
        if isinstance(value, bool) or not isinstance(value, int | str):
            raise invalid([f"must provide a number [json-pointer:/{name}]"])
        try:
            return int(value)
        except ValueError:
            raise invalid([f"must provide a number [json-pointer:/{name}]"]) from None

    def json(self, name: str, error: str = "invalid_arguments") -> Any:
        """Return a structure, decoded if it is a string; SlackError(error) if it cannot be."""
        value = self.values.get(name)
        if not isinstance(value, str):
            return value
        try:
            return json.loads(value) if value else None
        except ValueError:
            raise SlackError(error) from None

    def names(self, name: str) -> list[str]:
        """A list of ids, comma-separated or a JSON list."""
        value = self.values.get(name)
        if isinstance(value, list):
            return [str(item) for item in value]
        return [part.strip() for part in self.text(name).split(",") if part.strip()]


def read_args(
    content_type: str, body: bytes, query: Mapping[str, str], form: Mapping[str, str]
) -> Json:
    """Return all arguments of a request; `form`: those of a multipart body.

    Raises SlackError for bad JSON.
    """
    values: Json = {key: value for key, value in query.items() if key != "token"}
    values.update(form)
    if not body.strip():
        return values
    if content_type == "application/json":
        try:
            parsed = json.loads(body)
        except ValueError:
            raise SlackError("invalid_json") from None
        if not isinstance(parsed, dict):
            raise SlackError("json_not_object")
        values.update(parsed)
    elif content_type == "application/x-www-form-urlencoded":
        try:
            values.update(parse_qsl(body.decode(), keep_blank_values=True))
        except UnicodeDecodeError:
            raise SlackError("invalid_form_data") from None
    elif not form:
        raise SlackError("invalid_post_type")
    return values


def basic(header: str) -> Json:
    """Return client id and secret of a Basic Authorization header; {} for a broken one.

    `header` is what follows the word Basic.
    """
    try:
        name, _, secret = base64.b64decode(header.strip(), validate=True).decode().partition(":")
    except ValueError:
        return {}
    return {"client_id": name, "client_secret": secret}


def page(
    items: list[Any],
    args: Args,
    default: int = 100,
    most: int = 1000,
    limit_error: str = "invalid_arguments",
    cut: int = 1000,
) -> tuple[list[Any], str]:
    """Return one page of `items` after the call's cursor, and the next cursor ("" at the end).

    `most`: the highest limit a call may ask for; `cut`: the most items on a page, whatever it asks
    for. SlackError(invalid_cursor), or `limit_error` for a limit out of range.
    """
    limit = args.number("limit", default)
    if not 0 < limit <= most:
        raise invalid([f"must be between 1 and {most} [json-pointer:/limit]"], limit_error)
    start = 0
    if cursor := args.text("cursor"):
        try:
            start = int(base64.b64decode(cursor, validate=True).decode().removeprefix("next:"))
        except ValueError:
            raise SlackError("invalid_cursor") from None
    end = start + min(limit, cut)
    following = base64.b64encode(f"next:{end}".encode()).decode() if end < len(items) else ""
    return items[start:end], following
