"""The sentence that says what a stored call would do."""

from __future__ import annotations

from pydantic import ValidationError

from bot.tools import Registry
from bot.tools.arguments import load_arguments
from storage import calls
from storage.masking import masked
from storage.models import Call, Revision
from storage.transaction import Transaction


def effect_of(tools: Registry, tx: Transaction, call: Call) -> str:
    """Return the sentence that says what the call would do now; secrets masked."""
    current = calls.revision(tx, call.id, call.revision)
    return effect_at(tools, call, current) if current else call.tool


def effect_at(tools: Registry, call: Call, revision: Revision) -> str:
    """Return what this revision of the call would do."""
    tool = tools.get(call.tool)
    if tool is None:
        return f"{call.tool} (this tool is no longer there)"
    try:
        return masked(tool.effect_sentence(load_arguments(tool, revision.arguments)))
    except ValidationError:
        return f"{tool.title} (its arguments no longer fit the tool)"
