"""What has the append-only tables refuse update, delete and truncate."""

from __future__ import annotations

from storage.append_only import APPEND_ONLY, EMPTIED
from storage.postgres.session import SCHEMA

CHANGES = ("update", "delete", "truncate")


def made() -> list[str]:
    """DDL that makes them refuse, but for a purge."""
    return [statement for table in APPEND_ONLY for statement in _made(table)]


def dropped() -> list[str]:
    """DDL that takes that away, for the time of a migration."""
    return [statement for table in APPEND_ONLY for statement in _dropped(table)]


def _dropped(table: str) -> list[str]:
    return [f'DROP TRIGGER IF EXISTS {table}_no_{change} ON "{table}"' for change in CHANGES]


def _made(table: str) -> list[str]:
    refuse = f"RAISE EXCEPTION '{table} is append-only' USING ERRCODE = '23001'"
    function = f"{table}_append_only"
    return [
        f"CREATE OR REPLACE FUNCTION {function}() RETURNS trigger LANGUAGE plpgsql"
        f" SET search_path TO {SCHEMA} AS $$ BEGIN {_purging(table)} {refuse}; END $$",
        *_dropped(table),
        *(
            f"CREATE TRIGGER {table}_no_{change} BEFORE {change.upper()}"
            f' ON "{table}" FOR EACH {"STATEMENT" if change == "truncate" else "ROW"}'
            f" EXECUTE FUNCTION {function}()"
            for change in CHANGES
        ),
    ]


def _purging(table: str) -> str:
    """The one change that is let through."""
    if table not in EMPTIED:
        return ""
    column, empty, others, run = EMPTIED[table]
    same = " AND ".join(
        f'NEW."{each}" IS NOT DISTINCT FROM OLD."{each}"' for each in others.split()
    )
    purged = f"(SELECT purged_at FROM run WHERE id = ({run})) IS NOT NULL"  # noqa: S608 # our names
    return (
        "IF TG_OP = 'UPDATE' THEN"
        f" IF NEW.{column} = '{empty}' AND {same} AND {purged} THEN RETURN NEW; END IF;"
        " END IF;"
    )
