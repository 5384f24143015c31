"""Small steps of a model turn: tools as the model is given them, a transcript that is always valid.

Pure but `tell`.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from bot.agent import outputs, prompt, sub_agents
from bot.agent.turn import Proposal, Proposed
from bot.messages.sentences import notices
from storage import outbox
from storage.models import Call, Run, new_id
from storage.states import CallStatus
from storage.transaction import Transaction
from storage.transcripts import Transcript

if TYPE_CHECKING:
    from bot.runs.proposals.prepared import Prepared


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


def standing(waiting: Iterable[Call]) -> dict[str, str]:
    """Return what the model is told meanwhile of calls of a plan that waits, by its own ids."""
    told = {
        CallStatus.PENDING: outputs.WAITS,
        CallStatus.APPROVED: outputs.APPROVED_AND_WAITS,
        CallStatus.ENTRUSTED: sub_agents.WORKING,
    }
    return {call.provider_id: told.get(call.status, call.output) for call in waiting}


def complete(
    transcript: Transcript, seal: str = "", *, meanwhile: Mapping[str, str]
) -> list[dict[str, Any]]:
    """Return the items so that they are valid: each call with one output, before anybody goes on.

    Of a long thread what stands for older ones, to a model whose server opens this `seal`.

    An output that came after somebody wrote takes its place before that. A call without one has
    what `meanwhile` says of it, by its id; where that says nothing its tool is still running, and
    its run was cancelled.
    """
    if not transcript.late and transcript.proposed == transcript.answered:
        return transcript.seen(seal)
    items = transcript.seen(seal)
    given = {each["call_id"]: each for each in items if each.get("type") == "function_call_output"}
    result: list[dict[str, Any]] = []
    lacking: list[str] = []
    for item in items:
        match item.get("type"):
            case "function_call":
                lacking.append(item["call_id"])
            case "function_call_output" if item["call_id"] not in lacking:
                continue  # it stands further up by now
            case "function_call_output":
                lacking.remove(item["call_id"])
            case _ if item.get("role") == "user":
                result += _outputs(lacking, given, meanwhile)
                lacking = []
        result.append(item)
    result += _outputs(lacking, given, meanwhile)
    newest = transcript.items[-1]
    if newest.get("type") == "function_call_output" and result[-1] is not newest:
        result.append(prompt.note(outputs.DECIDED))
    return result


def _outputs(
    ids: list[str], given: Mapping[str, dict[str, Any]], meanwhile: Mapping[str, str]
) -> Iterator[dict[str, Any]]:
    for each in ids:
        said = meanwhile.get(each, outputs.STILL_RUNNING)
        yield given.get(each) or output(each, said)


def output(call_id: str, said: str) -> dict[str, Any]:
    """Return the item that tells the model what became of a call, by the model's id."""
    return {"type": "function_call_output", "call_id": call_id, "output": said}


def take_back(proposal: Proposal, taken: frozenset[str]) -> list[dict[str, Any]]:
    """Take the model's wish to replace what waits out of what it proposes.

    Returns an output for each time it said so; none where it did not. `taken`: ids of calls that
    the transcript has; an id that cannot be used is replaced by ours.
    """
    wishes = [each for each in proposal.calls if each.name == outputs.REPLACE["name"]]
    proposal.calls[:] = [each for each in proposal.calls if each not in wishes]
    used = taken | {each.provider_id for each in proposal.calls}
    told = []
    for each in wishes:
        call_id = each.provider_id
        if not call_id or call_id in used:
            call_id = proposal.items[each.index]["call_id"] = f"call_{new_id()}"
        used |= {call_id}
        told.append(output(call_id, outputs.REPLACED))
    return told
