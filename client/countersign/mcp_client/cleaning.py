"""What a server says of itself, without what a terminal or a model would act upon unseen."""

from __future__ import annotations

import unicodedata
from typing import Any

from mcp_types import Tool

_JOINER = "\u200d"  # between the parts of one emoji
_ACTING = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
_WORDS = ("title", "description", "$comment")  # of a schema; all else of it is values


def cleaned(text: str) -> str:
    """Return a text with control characters written out; tabs, line ends and emoji stay."""
    if text.isprintable():
        return text
    return "".join(f"⟨U+{ord(each):04X}⟩" if _acts(each) else each for each in text)


def cleaned_tool(tool: Tool) -> Tool:
    """Return a tool with its words cleaned; its name and the values of its schema stay."""
    hints = tool.annotations
    return tool.model_copy(
        update={
            "title": _if_said(tool.title),
            "description": _if_said(tool.description),
            "input_schema": _schema(tool.input_schema),
            "annotations": hints and hints.model_copy(update={"title": _if_said(hints.title)}),
        }
    )


def _if_said(text: str | None) -> str | None:
    return None if text is None else cleaned(text)


def _schema(part: Any) -> Any:
    if isinstance(part, dict):
        return {
            name: cleaned(each) if name in _WORDS and isinstance(each, str) else _schema(each)
            for name, each in part.items()
        }
    return [_schema(each) for each in part] if isinstance(part, list) else part


def _acts(char: str) -> bool:
    return char not in "\n\t" + _JOINER and unicodedata.category(char) in _ACTING
