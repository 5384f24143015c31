"""The sentence that says what a stored call would do."""

from __future__ import annotations

import json

from pydantic import ValidationError

from bot.tools import Registry
from bot.tools.arguments import load_arguments
from storage import calls
from storage.masking import masked
from storage.models import PURGED, Call, Revision
from storage.transaction import Transaction


def effect_of(tools: Registry, tx: Transaction, call: Call) -> str:
    """Return the sentence that says what the call would do now; secrets masked."""
    current = calls.revision(tx, call.id, call.revision)
    return effect_at(tools, call, current) if current else call.tool


def effect_at(tools: Registry, call: Call, revision: Revision) -> str:
    """Return what this revision of the call would do; what looks like a secret is masked."""
    return masked(effect_in_full(tools, call, revision))


def effect_in_full(tools: Registry, call: Call, revision: Revision) -> str:
    """Return the same for those who decide: only fields declared secret are masked."""
    tool = tools.of(call)
    if tool is None:
        return f"{call.tool} (this tool is no longer there)"
    if revision.arguments == PURGED and tool.arguments.model_fields:
        return f"{tool.title} (what it was about was purged)"
    try:
        return tool.effect_sentence(
            load_arguments(tool, revision.arguments), json.loads(call.names)
        )
    except ValidationError:
        return f"{tool.title} (its arguments no longer fit the tool)"
