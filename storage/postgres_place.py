"""The note on a PostgreSQL server of where the record is, by which a copy is told from the record.

It is part of the comment on the table `audit`, which a dump includes.
"""

from __future__ import annotations

import re

from psycopg.sql import quote

from storage.transaction import Transaction

# whether this role may read the cluster's number and write the table's comment
_SELECT_MAY_NOTE = """
    SELECT coalesce(
        has_function_privilege(to_regprocedure('pg_control_system()'), 'EXECUTE')
            AND pg_has_role(relowner, 'USAGE'),
        false
    )
    FROM pg_class WHERE oid = 'audit'::regclass
"""
# the cluster, the database and the table, by numbers that only a copy of the files keeps
_SELECT_PLACE = """
    SELECT concat_ws('/', cluster.system_identifier, base.oid, audit.oid),
           coalesce(obj_description(audit.oid, 'pg_class'), '')
    FROM pg_control_system() AS cluster, pg_database AS base, pg_class AS audit
    WHERE base.datname = current_database() AND audit.oid = 'audit'::regclass
"""
_NOTE_PATTERN = re.compile(
    r"\[countersign at (?P<place>[0-9/]+)(?: timeline (?P<timeline>[0-9A-F]+))?\]"
)
OTHER_PLACE_REASON = "it was put back or moved by other means than `countersign restore`"
OTHER_TIMELINE_REASON = (
    "its server took over from another one, or went back to an earlier moment, and may lack what "
    "was written last"
)
_MARK_AS_COPY = """
    INSERT INTO copied (
        at, why, version, key_id, head_seq, head_hash, counts, problems, seal, signing_key
    )
    SELECT (extract(epoch FROM now()) * 1000000)::bigint, %s, '', '', 0, '', '{}', '[]', '', ''
    WHERE NOT EXISTS (SELECT FROM copied)
"""


def may_note(tx: Transaction) -> bool:
    """Return whether this role may read where the record is, and note it."""
    return bool(tx.exec_driver_sql(_SELECT_MAY_NOTE).scalar())


def is_noted(tx: Transaction, timeline: str) -> bool:
    """Return whether the comment says where the record is, and this timeline of the server."""
    [(place, comment)] = tx.exec_driver_sql(_SELECT_PLACE)
    return _format_note(place, timeline) in comment


def replace_note(tx: Transaction, timeline: str) -> str:
    """Note where the record is; return why it may be older than the earlier note, or "".

    The rest of the comment is kept.
    """
    [(place, comment)] = tx.exec_driver_sql(_SELECT_PLACE)
    noted, others = _NOTE_PATTERN.search(comment), _NOTE_PATTERN.sub("", comment).strip()
    text = quote(f"{others} {_format_note(place, timeline)}".strip())
    tx.exec_driver_sql(f"COMMENT ON TABLE audit IS {text}")
    if noted is None:
        return ""
    if noted["place"] != place:
        return OTHER_PLACE_REASON
    # one of them is "" where the server does not say it, and in the notes of earlier versions
    is_other = noted["timeline"] and timeline and noted["timeline"] != timeline
    return OTHER_TIMELINE_REASON if is_other else ""


def _format_note(place: str, timeline: str) -> str:
    return (
        f"[countersign at {place} timeline {timeline}]" if timeline else f"[countersign at {place}]"
    )


def mark_as_copy(tx: Transaction, reason: str) -> None:
    """Mark the record as a copy, so that the next start settles what is open in it."""
    tx.exec_driver_sql(_MARK_AS_COPY, (reason,))
