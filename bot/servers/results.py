"""What a server's tool returned, as a tool's result: text, values, links; pictures by name."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from bot.tools import BrokeOffError

if TYPE_CHECKING:
    from mcp_types import CallToolResult

_KB = 1_000


def result_of(result: CallToolResult) -> Any:
    """Return the text, or the values where there are such, of a result.

    Raises BrokeOffError with the server's words where it says that the call failed: it does not
    say how far it came.
    """
    text = "\n".join(_lines(result))
    if result.is_error:
        raise BrokeOffError(text or "The server says that it failed, and not why.")
    given, parsed = result.structured_content, _parsed(text)
    if given is None:
        return text if parsed is None else parsed
    if not text or parsed == given:
        return given
    if isinstance(given, dict) and list(given) == ["result"] and _is_all_text(result):
        return text if isinstance(given["result"], str) else given["result"]
    return f"{text}\n{json.dumps(given, ensure_ascii=False)}"


def _is_all_text(result: CallToolResult) -> bool:
    """Whether it is text only, so that a value beside it says the same."""
    return all(each.type == "text" for each in result.content)


def _parsed(text: str) -> Any:
    """The object or list that a text is the JSON of; None for any other text."""
    if not text.startswith(("{", "[")):
        return None
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict | list) else None


def _lines(result: CallToolResult) -> Iterator[str]:
    for each in result.content:
        match each.type:
            case "text":
                yield each.text
            case "image" | "audio":
                yield f"[{each.type}, {each.mime_type}, {_size(each.data)}]"
            case "resource_link":
                said = each.title or each.name
                yield f"{said}: {each.uri}" + (f" ({each.description})" if each.description else "")
            case "resource":
                held = each.resource
                text = getattr(held, "text", None)
                if text is not None:
                    yield f"{held.uri}:\n{text}"
                else:
                    kind = held.mime_type or "unknown kind"
                    yield f"[file {held.uri}, {kind}, {_size(getattr(held, 'blob', ''))}]"


def _size(data: str) -> str:
    """How much a text of base64 holds."""
    size = len(data) * 3 // 4
    return f"{size} bytes" if size < _KB else f"{size // _KB:,} kB"
