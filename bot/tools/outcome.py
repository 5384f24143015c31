"""What people are told of a call that ran: its tool's own sentence, else the text it returned.

Never what only a program reads: a result of keys and values is for the model.
"""

from __future__ import annotations

import logging
from typing import Any

from pydantic import BaseModel

from bot.tools import Table, Tool, tables

log = logging.getLogger(__name__)


def outcome_of(tool: Tool[Any], args: BaseModel, result: Any) -> str:
    """Return what the tool says of its own run, unmasked; "" where it says nothing in words.

    Raises nothing: the effect has happened, whatever its sentence does.
    """
    if tool.outcome is None:
        return _in_words(result)
    try:
        told = tool.outcome(args, result)
    except Exception:
        log.exception("%s ran, and its outcome sentence failed", tool.name)
        return ""
    return told if isinstance(told, str) else ""


def _in_words(result: Any) -> str:
    """Return the first line of a text, or how many rows a table has."""
    if isinstance(result, Table):
        return tables.summary(result)
    if not isinstance(result, str):
        return ""
    return next((line for line in result.splitlines() if line.strip()), "")
