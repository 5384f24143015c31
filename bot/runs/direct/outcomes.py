"""What the thread of a request without a model is told of its call, once that has ended.

A rejection, a deadline and a withdrawal are told when they happen, and not here again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bot.agent import outputs
from bot.approvals.terms.effect import effect_of
from bot.messages.requests.result import result_blocks
from bot.messages.sentences import requests
from bot.runs.results import is_told
from bot.tools import Effect, Registry
from storage import calls, outbox
from storage.models import Call, Run
from storage.states import CallStatus
from storage.transaction import Transaction


def put_outcome(tx: Transaction, tools: Registry, run: Run, call: Call) -> None:
    """Tell the thread what became of the call, where nothing else has."""
    if body := _told(tx, tools, call):
        outbox.notice(tx, run, f"ended:{call.id}:{call.revision}:{call.status}", body)


def _told(tx: Transaction, tools: Registry, call: Call) -> Mapping[str, Any] | None:
    effect = effect_of(tools, tx, call)
    match call.status:
        case CallStatus.SUCCEEDED if call.does == Effect.READ:
            if outbox.by_key(tx, f"table:{call.id}:{call.revision}"):
                return None  # the rows stand there
            text, blocks = result_blocks(effect, outputs.result_of(call.output))
            return {"text": text, "blocks": blocks}
        case CallStatus.SUCCEEDED | CallStatus.FAILED if is_told(tx, call):
            return None
        case CallStatus.SUCCEEDED:
            return {"text": requests.was_done(effect, call.note)}
        case CallStatus.FAILED:
            midway = outputs.midway(call.output)
            return {"text": requests.did_not_work(effect, call.note, midway=midway)}
        case CallStatus.UNKNOWN if calls.is_handed_on(call):
            return None if is_told(tx, call) else {"text": requests.handed_on(effect)}
        case CallStatus.UNKNOWN:
            return {"text": requests.not_known(effect)}
        case CallStatus.INVALIDATED:
            return {"text": requests.no_longer(effect, call.note)}
        case CallStatus.REFUSED:
            return {"text": requests.nobody_asked(call.note)}
        case _:
            return None
