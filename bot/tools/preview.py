"""What a tool says would happen, before it does."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from pydantic import BaseModel

from bot.tools import Preview, Tool

log = logging.getLogger("countersign.preview")


def preview(tool: Tool[Any], args: BaseModel) -> Preview:
    """The tool's own preview, or a line that says why there is none."""
    make: Callable[[Any], str | Preview] | None = tool.preview
    if make is None:
        return Preview("")
    try:
        made = make(args)
        seen = made if isinstance(made, Preview) else Preview(str(made))
        return replace(seen, text=str(seen.text), expects=str(seen.expects)[:2000])
    except Exception as error:  # noqa: BLE001 - a tool author's code; the card works without it
        log.warning("preview of %s failed: %s", tool.name, error)
        return Preview(f"(no preview: {str(error)[:200] or type(error).__name__})")
