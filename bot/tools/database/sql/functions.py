"""The functions that a database would run though they act beyond the statement. Constants, and a
question about a name.
"""

from __future__ import annotations

from sqlglot import exp


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# PostgreSQL: what a READ ONLY transaction or a ROLLBACK does not hold. The server's administration
# (other sessions, locks that outlive a statement, large objects, other servers), settings of the
# session, and what runs a text as SQL. SQLite has none that its authorizer does not refuse.
_BEYOND = ("pg_", "lo_", "dblink", "binary_upgrade")
_BEYOND_NAMES = _words(
    "set_config setval loread lowrite query_to_xml query_to_xmlschema query_to_xml_and_xmlschema "
    "cursor_to_xml cursor_to_xmlschema table_to_xml table_to_xml_and_xmlschema schema_to_xml "
    "schema_to_xml_and_xmlschema database_to_xml database_to_xml_and_xmlschema ts_stat ts_rewrite "
    "crosstab crosstabn connectby xpath_table"
)
_HARMLESS = _words(
    "pg_typeof pg_size_pretty pg_size_bytes pg_column_size pg_relation_size pg_table_size "
    "pg_indexes_size pg_total_relation_size pg_database_size pg_sleep pg_get_expr"
)


def acts_beyond(name: str) -> bool:
    """Whether a function of PostgreSQL, by its name in lower case, does what a transaction does not
    hold.
    """
    return name in _BEYOND_NAMES or (name.startswith(_BEYOND) and name not in _HARMLESS)


# The nodes of a statement that write.
WRITES: tuple[type[exp.Expr], ...] = (exp.Insert, exp.Update, exp.Delete, exp.Merge)
