"""Which tables only grow, and the one change that is let through in them: a purge."""

from __future__ import annotations

APPEND_ONLY = ("audit", "revision", "vote", "answer", "attempt", "item", "mode")
_OF_RUN = "OLD.run_id"
_OF_CALL = 'SELECT run_id FROM "call" WHERE id = OLD.call_id'
# In rows of a request that is marked as purged this column is emptied, and these others stay as
# they are; and which request a row is part of.
EMPTIED = {
    "audit": (
        "payload",
        "",
        "seq at run_id call_id actor event data key_id previous hash",
        _OF_RUN,
    ),
    "revision": ("arguments", "{}", "seq call_id number digest author created_at", _OF_CALL),
    "answer": ("given", "{}", "seq call_id revision person declined created_at", _OF_CALL),
    "item": ("body", "{}", "seq run_id turn created_at", _OF_RUN),
}
