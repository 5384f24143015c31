"""Writes the audit's rows as lines of the operator's log, once they are committed.

A line says which run and call, what happened and who did it. It holds no arguments and no text of a
tool.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, NamedTuple

log = logging.getLogger("countersign.audit")
_LOGGED_DATA_KEYS = (  # data of an audit row that its log line shows
    *("tool", "revision", "verb", "said", "dialog", "what", "outcome", "why", "refused", "surface"),
    *("approved_by", "counts_as", "same_as", "grant", "channel", "thread_ts", "calls"),
)
UNQUOTED_VALUE_PATTERN = re.compile(r"[\w.:@#/-]+")
REASON_KEYS = ("why", "refused")  # free text, or one of the bot's fixed words


class AuditLine(NamedTuple):
    """An appended audit row, reduced to the fields that observers need."""

    seq: int
    event: str
    actor: str
    run_id: str
    call_id: str
    data: Mapping[str, Any]
    at: datetime
    since: datetime | None = None  # when the wait or request that this row ends had begun


EVENTS_WITH_OWN_LOG_LINE = frozenset({"bot.started"})


def log_audit_lines(appended: Iterable[AuditLine]) -> None:
    """Log one line for each appended audit row, with its fields attached for a log in JSON.

    Rows whose event is in EVENTS_WITH_OWN_LOG_LINE are left out.
    """
    if not log.isEnabledFor(logging.INFO):
        return
    for row in appended:
        if row.event in EVENTS_WITH_OWN_LOG_LINE:
            continue
        told = _select_logged_data(row)
        fact = {"audit": row.seq, "actor": row.actor, "details": told or None}
        fact |= {"run_id": row.run_id, "call_id": row.call_id}
        log.info("%s", _format_line(row, told), extra={"event": row.event, "fact": fact})


def _select_logged_data(row: AuditLine) -> dict[str, Any]:
    return {
        name: row.data[name]
        for name in _LOGGED_DATA_KEYS
        if name in row.data and not (row.call_id and is_free_text_reason(name, row.data[name]))
    }


def _format_line(row: AuditLine, data: Mapping[str, Any]) -> str:
    about = "".join(
        f" {kind} {_quote_if_needed(value)}"
        for kind, value in (("run", row.run_id), ("call", row.call_id))
        if value
    )
    told = [
        f"{name} {_quote_if_needed(value)}"  # no "=", or the masking would look for passwords
        for name, value in data.items()
    ]
    details = f" ({', '.join(told)})" if told else ""
    return f"#{row.seq}{about}: {row.event} by {_quote_if_needed(row.actor)}{details}"


def _quote_if_needed(value: Any) -> str:
    """Return a value for a log line: unchanged if it is one word, else as JSON."""
    if isinstance(value, str) and UNQUOTED_VALUE_PATTERN.fullmatch(value):
        return str(value)
    return json.dumps(value)


def is_free_text_reason(name: str, value: Any) -> bool:
    """Return whether this is a reason in free text, which could hold a tool's arguments."""
    return name in REASON_KEYS and not UNQUOTED_VALUE_PATTERN.fullmatch(str(value))
