"""Where the calls on a card come from: the requester's words, and the sub-agents on the way.

Only reads.
"""

from __future__ import annotations

import json
from typing import Any

from bot.agent import prompt
from bot.approvals.terms.effect import effect_of
from bot.messages.views import Errand
from bot.tools import Registry
from storage import runs, sub_agents
from storage.masking import masked
from storage.models import Plan, Run
from storage.transaction import Transaction


def origin_of(tools: Registry, tx: Transaction, run: Run, plan: Plan) -> dict[str, Any]:
    """Return what a card that asks says of where its calls come from, as fields of its view."""
    request = sub_agents.root(tx, run)
    return {
        "asked": _asked(tx, request, plan),
        "reworded": _reworded(request),
        "errands": errands_of(tools, tx, run),
    }


def errands_of(tools: Registry, tx: Transaction, run: Run) -> tuple[Errand, ...]:
    """Return who asked whom for what between the requester's agent and this run, in order."""
    found: list[Errand] = []
    for call in sub_agents.chain(tx, run):
        tool = tools.of(call)
        by = found[-1].agent if found else ""
        found.append(Errand(tool.title if tool else call.tool, by, effect_of(tools, tx, call)))
    return tuple(found)


def _asked(tx: Transaction, request: Run, plan: Plan) -> tuple[str, ...]:
    """Return the words that began the request, and the last ones before the plan was made."""
    written = [prompt.asked(item) for item in runs.heard(tx, request.id, plan.created_at)]
    written = [" ".join(masked(text).split()) for text in written if text.strip()]
    return tuple(dict.fromkeys((*written[:1], *written[-1:])))


def _reworded(request: Run) -> tuple[str, ...]:
    """Return what messages of the request were edited to after they were read, the latest last."""
    texts: list[str] = list(json.loads(request.reworded).values())
    return tuple(" ".join(masked(text).split()) for text in texts[-2:])
