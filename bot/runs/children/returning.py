"""A sub-agent's run has ended: its call gets the answer, or why there is none.

In the transaction that ends the run: a crash leaves both or neither.
"""

from __future__ import annotations

from datetime import datetime

from bot.agent import outputs, sub_agents
from bot.tools import Registry
from storage import calls, children, endings, errands
from storage.models import Run
from storage.states import CallStatus
from storage.transaction import Transaction

SUMMARY = 200  # characters of an answer that people are told
MOST = 20_000  # characters of an answer, where its tool is no longer there to say


def hand_in(tx: Transaction, tools: Registry, child: Run, text: str, *, at: datetime) -> str:
    """Give a sub-agent's answer to the run that asked; returns its call's id, "" if over."""
    call, done = calls.get(tx, child.parent_call), children.did(tx, child)
    tool = tools.of(call) if call else None
    output = sub_agents.answered(text, done, tool.max_output if tool else MOST)
    line = " ".join(text.split()) or sub_agents.NOTHING_SAID
    note = line if len(line) <= SUMMARY else f"{line[: SUMMARY - 1]}…"
    end = CallStatus.SUCCEEDED
    return errands.hand_in(tx, child, end, at=at, actor="worker", output=output, note=note)


def give_up(tx: Transaction, _tools: Registry, child: Run, why: str, *, at: datetime) -> str:
    """Tell the run that asked that its sub-agent could not go on, and end what that had open.

    Returns its call's id, "" where it is over.
    """
    endings.abandon(tx, child, at=at, words=outputs)
    output = sub_agents.gave_up(why, children.did(tx, child))
    end = CallStatus.FAILED
    return errands.hand_in(tx, child, end, at=at, actor="worker", output=output, note=why)
