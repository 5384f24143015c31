"""A call as a person types it, `tool key=value …`, checked against the tool's own model.

Texts stay exact: a value is taken as text, and as JSON only if the model does not accept the text.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any

from pydantic import BaseModel, ValidationError

from bot.cards.field_layout import reword_pydantic_message
from bot.policy.authority import Directory, LookupFailedError
from bot.tools import Registry, Tool
from bot.tools.arguments import load_new_arguments
from bot.tools.names import SlackIdResolver
from storage.digest import NonCanonicalValueError, parse_json_object


class TypedCallError(ValueError):
    """Raised if the typed text is no valid call; one line says why and what to write."""


def parse_typed_call(
    tools: Registry, words: Sequence[str], directory: Directory, asker: str | None
) -> tuple[Tool[Any], BaseModel]:
    """Return the tool and its validated arguments; names become ids if Slack can be asked.

    `asker`: the person whose private channels are found; None: the operator, who finds all of them.
    Raises TypedCallError.
    """
    if not words:
        raise TypedCallError("Name a tool, and its arguments as key=value.")
    tool = find_tool(tools, words[0])
    try:
        values = _parse_key_values(words[1:])
        try:
            args = _validate_arguments(tool, values, SlackIdResolver(directory, asker))
        except LookupFailedError:
            args = _validate_arguments(tool, values, None)
    except (NonCanonicalValueError, ValidationError) as error:
        raise TypedCallError(describe_refused_arguments(tool, error)) from None
    return tool, args


def find_tool(tools: Registry, name: str) -> Tool[Any]:
    """Return the tool of that name; raises TypedCallError with the nearest name if none has it."""
    if tool := tools.get(name):
        return tool
    names = sorted(each.name for each in tools)
    close = get_close_matches(name, names, 1)
    hint = f"; did you mean {close[0]}?" if close else f". There are: {', '.join(names)}."
    raise TypedCallError(f"There is no tool {name!r}{hint}")


def describe_refused_arguments(
    tool: Tool[Any], error: NonCanonicalValueError | ValidationError
) -> str:
    """Return in words why a tool does not take some arguments."""
    if isinstance(error, NonCanonicalValueError):
        return f"{tool.name}: {error}."
    wrong = (
        f"{'.'.join(map(str, each['loc'])) or 'arguments'}: "
        + reword_pydantic_message(each["type"], each["msg"])
        for each in error.errors()[:20]
    )
    return f"{tool.name} does not take this. {' '.join(wrong)}"


def _parse_key_values(words: Sequence[str]) -> dict[str, str]:
    arguments: dict[str, str] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or not key:
            raise TypedCallError(
                f"{word!r} is not an argument; write key=value, in quotes if it has spaces."
            )
        if key in arguments:
            raise TypedCallError(f"{key} is given twice.")
        arguments[key] = value
    return arguments


def _validate_arguments(
    tool: Tool[Any], values: dict[str, str], names: SlackIdResolver | None
) -> BaseModel:
    """Return the arguments, each value as text if the model accepts that, else as JSON."""
    written = {key: json.dumps(value) for key, value in values.items()}
    try:
        return load_new_arguments(tool, _build_json_object(written), names)
    except ValidationError as error:
        refused = {str(each["loc"][0]) for each in error.errors() if each["loc"]} & set(values)
        as_json = {key: values[key] for key in refused if _is_json(values[key])}
        if not as_json:
            raise
    return load_new_arguments(tool, _build_json_object(written | as_json), names)


def _build_json_object(written: dict[str, str]) -> str:
    return "{" + ", ".join(f"{json.dumps(key)}: {text}" for key, text in written.items()) + "}"


def _is_json(text: str) -> bool:
    """Return whether a text is exactly one JSON value, with nothing behind it."""
    try:
        return set(parse_json_object(f'{{"value": {text}}}')) == {"value"}
    except NonCanonicalValueError:
        return False
