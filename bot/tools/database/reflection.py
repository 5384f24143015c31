"""What SQLAlchemy reads of the tables of a database: columns, keys, and what their owner says."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, Dialect, inspect
from sqlalchemy.dialects.postgresql import DOMAIN, ENUM
from sqlalchemy.engine.reflection import Inspector, ObjectKind
from sqlalchemy.types import NullType, TypeEngine

from bot.tools.database.catalog import Column, Relation

_CAST = re.compile(r"""('(?:[^']|'')*')::[\w\s".]+(?:\[\])?""")  # PostgreSQL writes a text so
_SHORT = {  # as everybody writes them
    "TIMESTAMP WITH TIME ZONE": "TIMESTAMPTZ",
    "TIMESTAMP WITHOUT TIME ZONE": "TIMESTAMP",
    "TIME WITHOUT TIME ZONE": "TIME",
    "TIME WITH TIME ZONE": "TIMETZ",
}


def reflect(
    connection: Connection, schema: str | None, kinds: dict[str, str], **facts: Mapping[str, Any]
) -> list[Relation]:
    """The tables named in `kinds` (name -> kind) with their columns and keys.

    `facts` has more fields of Relation.
    """
    inspector, chosen = inspect(connection), _chosen(schema, kinds)
    columns = inspector.get_multi_columns(**chosen)
    keys = inspector.get_multi_pk_constraint(**chosen)
    tables = []
    for (_, name), found in columns.items():
        if name in kinds:
            key: Any = keys.get((schema, name)) or {}
            more = {field: values[name] for field, values in facts.items() if name in values}
            made = tuple(_column(each, connection.dialect) for each in found)
            tables.append(
                Relation(
                    name, kinds[name], made, tuple(key.get("constrained_columns") or ()), **more
                )
            )
    return tables


def remarks(
    connection: Connection, schema: str | None, names: list[str]
) -> dict[str, tuple[str, tuple[str, ...]]]:
    """The comment on each of these tables ("" for none), and the conditions of its checks."""
    inspector, chosen = inspect(connection), _chosen(schema, names)
    checks = inspector.get_multi_check_constraints(**chosen)
    comments = _comments(inspector, chosen)
    return {
        name: (
            str((comments.get((schema, name)) or {}).get("text") or ""),
            tuple(str(each["sqltext"]) for each in checks.get((schema, name)) or ()),
        )
        for name in names
    }


def _comments(inspector: Inspector, chosen: Any) -> Mapping[Any, Any]:
    return (
        inspector.get_multi_table_comment(**chosen) if inspector.dialect.supports_comments else {}
    )


def _chosen(schema: str | None, names: Any) -> Any:
    return {"schema": schema, "kind": ObjectKind.ANY, "filter_names": list(names)}


def _column(found: Any, dialect: Dialect) -> Column:
    kind = found["type"]
    default = _CAST.sub(r"\1", str(found.get("default") or ""))
    if found.get("identity") or default.startswith("nextval("):
        default = "the next number"
    return Column(
        found["name"],
        _type(kind, dialect),
        bool(found.get("nullable", True)),
        default,
        found["computed"]["sqltext"] if found.get("computed") else None,
        tuple(kind.enums) if isinstance(kind, ENUM) else (),
        str(found.get("comment") or ""),
    )


def _type(kind: TypeEngine[Any], dialect: Dialect) -> str:
    """A type as this kind of database writes it; "?" for one that SQLAlchemy does not know."""
    if isinstance(kind, DOMAIN):
        return f"{kind.name} ({_type(kind.data_type, dialect)})"
    if isinstance(kind, NullType):
        return "?"
    try:
        written = str(kind.compile(dialect=dialect))
    except Exception:  # noqa: BLE001 - SQLAlchemy cannot write down types it does not know
        return "?"
    return _SHORT.get(written, written)
