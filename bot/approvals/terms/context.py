"""What a tool is told of the call it serves, or of which it is to say what it would do."""

from __future__ import annotations

from datetime import datetime

from bot.tools import ToolContext
from storage.models import Call, Run


def context_of(run: Run, call: Call, now: datetime, *, expects: str = "") -> ToolContext:
    """Return the context of a call of this run; `expects`: what its preview said must hold."""
    return ToolContext(
        call.id,
        run.id,
        run.team,
        run.requester,
        run.channel,
        run.thread_ts,
        now,
        expects,
    )
