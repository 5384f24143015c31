"""What a tool is told of a call, and how what it says of it beforehand is kept."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

from bot.tools import Preview, Table, ToolContext, tables
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


def kept(seen: Preview) -> dict[str, Any]:
    """Return the columns of a call that hold what its tool said."""
    rows = ""
    if seen.rows is not None:
        found = tables.plain(seen.rows)
        rows = json.dumps([found.title, found.columns, found.rows, found.more])
    return {
        "preview": seen.text,
        "preview_in_thread": seen.in_thread,
        "preview_rows": rows,
        "expects": seen.expects,
    }


def said_of(call: Call) -> Preview:
    """Return what its tool said of the call, as everybody's part of it was settled then."""
    return Preview(call.preview, call.expects, call.preview_in_thread, rows=all_rows(call))


def all_rows(call: Call) -> Table | None:
    """Return all rows of which the call's preview shows a part; None where it shows all."""
    if not call.preview_rows:
        return None
    title, names, rows, more = json.loads(call.preview_rows)
    return Table(title, tuple(names), tuple(map(tuple, rows)), more)
