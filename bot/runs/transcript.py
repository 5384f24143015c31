"""Small steps of a model turn: tools as the model is given them, a transcript that is always valid.

Pure but `tell`.
"""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING, Any

from bot.agent import outputs
from bot.agent.turn import Proposal, Proposed
from bot.messages.sentences import notices
from storage import outbox
from storage.models import Run
from storage.transaction import Transaction
from storage.transcripts import Transcript

if TYPE_CHECKING:
    from bot.runs.proposals import Prepared


def tell(tx: Transaction, run: Run, prepared: Prepared, title: str) -> None:
    """Tell the thread why nobody was asked about a call of that tool; each reason once in a run."""
    why = prepared.tell_requester
    reason = hashlib.sha256(re.sub(r"\d+", "", why).encode()).hexdigest()[:16]
    key = f"refused:{run.id}:{reason}"
    if outbox.by_key(tx, key) is None:
        text = notices.not_asked(title, why)
        outbox.notice(tx, run, key, {"text": text})


def rename(proposal: Proposal, proposed: list[Proposed], prepared: list[Prepared]) -> None:
    """Where the provider's call id could not be used, the stored item carries ours: each call has
    one output.
    """
    for each, ours in zip(proposed, prepared, strict=True):
        proposal.items[each.index]["call_id"] = ours.call.provider_id


def function(tool: Any) -> dict[str, Any]:
    return {
        "type": "function",
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.schema(),
        "strict": False,
    }


def complete(transcript: Transcript) -> list[dict[str, Any]]:
    """Return the items, with an output for each call that has none yet, so that they are valid.

    That is a call whose tool is still running, while its run was cancelled.
    """
    missing = transcript.proposed - transcript.answered
    if not missing:
        return list(transcript.items)
    result = []
    for item in transcript.items:
        result.append(item)
        if item.get("type") == "function_call" and item["call_id"] in missing:
            found = {"type": "function_call_output", "call_id": item["call_id"]}
            result.append({**found, "output": outputs.STILL_RUNNING})
    return result
