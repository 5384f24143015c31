"""Which of PostgreSQL's own functions a statement may reach. Constants, and questions about a
function.
"""

from __future__ import annotations

from sqlglot import exp


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# What runs a text as SQL, or works on the server by another way than rows, though the server calls
# some of it stable.
_BEYOND = ("pg_", "lo_", "dblink", "binary_upgrade")
_BEYOND_NAMES = _words(
    "set_config setval loread lowrite query_to_xml query_to_xmlschema query_to_xml_and_xmlschema "
    "cursor_to_xml cursor_to_xmlschema table_to_xml table_to_xmlschema table_to_xml_and_xmlschema "
    "schema_to_xml schema_to_xmlschema schema_to_xml_and_xmlschema database_to_xml "
    "database_to_xmlschema database_to_xml_and_xmlschema ts_stat ts_rewrite crosstab crosstabn "
    "crosstab2 crosstab3 crosstab4 crosstab_hash connectby xpath_table"
)
_HARMLESS = _words(
    "pg_typeof pg_size_pretty pg_size_bytes pg_column_size pg_relation_size pg_table_size "
    "pg_indexes_size pg_total_relation_size pg_database_size pg_get_expr random random_normal "
    "clock_timestamp timeofday gen_random_uuid uuidv4 uuidv7 array_sample array_shuffle"
)
# what a rollback does undo, or what only tells: for views, triggers and the like, not for a text
_WITHIN = _words("pg_notify pg_advisory_xact_lock currval lastval")


def acts_beyond(name: str) -> bool:
    """Whether a function of PostgreSQL, by its name in lower case, does what a transaction does not
    hold, or tells of the server.
    """
    return name in _BEYOND_NAMES or (name.startswith(_BEYOND) and name not in _HARMLESS)


def computes(name: str, *, volatile: bool, owners: bool) -> bool:
    """Whether a function of the server's own, looked up there, may be called: it only computes.

    What the server calls volatile may do anything, but for those that are listed here. `owners`:
    what calls it was made by the owner of the database, so it may tell of the server.
    """
    if owners:
        return (not volatile and name not in _BEYOND_NAMES) or name in _HARMLESS | _WITHIN
    return name in _HARMLESS or not (volatile or acts_beyond(name))


# The nodes of a statement that write.
WRITES: tuple[type[exp.Expr], ...] = (exp.Insert, exp.Update, exp.Delete, exp.Merge)
