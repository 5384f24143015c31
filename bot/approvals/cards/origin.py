"""Where the calls on a card come from: the requester's words. Only reads."""

from __future__ import annotations

import json
from typing import Any

from bot.agent import prompt
from storage import runs
from storage.masking import masked
from storage.models import Plan, Run
from storage.transaction import Transaction


def origin_of(tx: Transaction, run: Run, plan: Plan) -> dict[str, Any]:
    """Return what a card that asks says of where its calls come from, as fields of its view."""
    return {"asked": _asked(tx, run, plan), "reworded": _reworded(run)}


def _asked(tx: Transaction, run: Run, plan: Plan) -> tuple[str, ...]:
    """Return the words that began the request, and the last ones before the plan was made."""
    written = [prompt.asked(item) for item in runs.heard(tx, run.id, plan.created_at)]
    written = [" ".join(masked(text).split()) for text in written if text.strip()]
    return tuple(dict.fromkeys((*written[:1], *written[-1:])))


def _reworded(run: Run) -> tuple[str, ...]:
    """Return what messages of the request were edited to after they were read, the latest last."""
    texts: list[str] = list(json.loads(run.reworded).values())
    return tuple(" ".join(masked(text).split()) for text in texts[-2:])
