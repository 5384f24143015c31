"""What a server's tool returned, as a tool's result: text, values, links; pictures by name."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from bot.tools import BrokeOffError

if TYPE_CHECKING:
    from mcp_types import CallToolResult, ContentBlock

_KB = 1_000
_FENCED = re.compile(r"\s*```[a-z]*\n(.*)\n```\s*", re.S)


def result_of(result: CallToolResult) -> Any:
    """Return the text, or the values where there are such, of a result.

    Raises BrokeOffError with the server's words where it says that the call failed: it does not
    say how far it came.
    """
    given = result.structured_content
    if result.is_error:
        text = "\n".join(_lines(result.content))
        raise BrokeOffError(text or "The server says that it failed, and not why.")
    text = "\n".join(_lines(each for each in result.content if not _mirrors(each, given)))
    if given is None:
        parsed = _parsed(text)
        return text if parsed is None else parsed
    if list(given) == ["result"] and result.content and _is_all_text(result):
        return text or given["result"] if isinstance(given["result"], str) else given["result"]
    if not text:
        return given
    return f"{text}\n{json.dumps(given, ensure_ascii=False)}"


def _mirrors(block: ContentBlock, given: dict[str, Any] | None) -> bool:
    """Whether a block says the very values again, as servers do for clients that read text alone:
    as JSON in any layout, also fenced; of a single value, that alone.
    """
    if given is None or block.type != "text":
        return False
    fenced = _FENCED.fullmatch(block.text)
    text = (fenced[1] if fenced else block.text).strip()
    alone = next(iter(given.values())) if len(given) == 1 else given
    if isinstance(alone, str) and alone.strip() == text:
        return True
    try:
        said = json.loads(text)
    except (ValueError, RecursionError):
        return False
    return said in (given, alone)  # in any order of keys


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


def _lines(blocks: Iterable[ContentBlock]) -> Iterator[str]:
    for each in blocks:
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
