"""Statements written in SQLModel, compiled once for each database and run on the driver's cursor.

SQLAlchemy takes some 50 µs to execute a statement that SQLite runs in 5. What it decides each time
(the text, the order of the parameters, what converts values on their way in and out) is the same
each time, so here it is decided once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

from sqlalchemy import Executable, Insert
from sqlalchemy.engine import Dialect
from sqlalchemy.exc import DBAPIError, StatementError
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.types import TypeEngine

Convert = Callable[[Any], Any]
Parameters = Mapping[str, Any]
Row = tuple[Any, ...]
Read = Callable[[Parameters], Sequence[Any]]
KEPT = 1000  # compiled statements; those built on the spot push out others built so

known: dict[tuple[Executable, str, tuple[str, ...]], Compiled] = {}  # by database and columns
REQUIRED: Any = object()
_NAMED = re.compile(
    r"%\((\w+)\)s|%%"
)  # a place with a name, and a percent sign, as drivers have it


@dataclass(frozen=True, slots=True)
class Parameter:
    """One place in a statement that takes a value."""

    name: str
    default: Any  # the value written in the statement itself, or REQUIRED
    convert: Convert | None


@dataclass(frozen=True, slots=True)
class Compiled:
    """The text of a statement for one kind of database, and how values go in and come out."""

    sql: str
    read: Read  # the value of each place; KeyError for one that is missing
    ingoing: tuple[tuple[int, Convert], ...]  # of those places that need one
    columns: tuple[str, ...]  # of the result; none where the statement does not say
    outgoing: tuple[tuple[int, Convert], ...]  # of those columns that need one

    def bind(self, given: Parameters) -> list[Any]:
        """`given` in the order of the places; StatementError for what is missing or cannot be."""
        try:
            values = [*self.read(given)]
            for index, convert in self.ingoing:
                values[index] = convert(values[index])
        except (ValueError, TypeError, LookupError) as error:
            missing = isinstance(error, KeyError)
            why = f"a value is required for {error}" if missing else str(error)
            raise StatementError(why, self.sql, dict(given), error, hide_parameters=True) from error
        return values

    def convert(self, rows: list[Row]) -> list[Row]:
        """Rows from the driver with their values as Python's. Raises what a converter raises."""
        found = []
        for row in rows:
            values = list(row)
            for index, convert in self.outgoing:
                if values[index] is not None:  # which is None for every type
                    values[index] = convert(values[index])
            found.append(tuple(values))
        return found


def compiled(statement: Executable, dialect: Dialect, given: Parameters) -> Compiled:
    """`statement` for that kind of database; an insert without columns takes those `given` has."""
    keys = tuple(given) if isinstance(statement, Insert) else ()
    key = (statement, dialect.name, keys)
    found = known.get(key)
    if found is None:
        if len(known) >= KEPT:
            known.clear()
        found = known[key] = _compile(statement, dialect, keys)
    return found


def _compile(statement: Any, dialect: Dialect, keys: tuple[str, ...]) -> Compiled:
    how = {"column_keys": list(keys)} if keys else {}
    made: SQLCompiler = statement.compile(dialect=dialect, **how)
    sql, parameters = str(made), []
    defaults: Any = {column.key: column.default for column in made.insert_prefetch}
    filled = {name: each.arg for name, each in defaults.items()}
    for name in made.positiontup or dict.fromkeys(made.bind_names.values()):
        bind = made.binds[name]
        convert = bind.type.dialect_impl(dialect).bind_processor(dialect)
        if bind.expanding:
            each = [
                Parameter(f"{name}_{n}", value, convert) for n, value in enumerate(bind.value or ())
            ]
            sql = _expanded(sql, name, each, dialect)
            parameters += each
        else:
            default = REQUIRED if bind.required else filled.get(name, bind.effective_value)
            parameters.append(Parameter(name, default, convert))
    columns = made._result_columns or []
    outgoing = ((index, _outgoing(each.type, dialect)) for index, each in enumerate(columns))
    return Compiled(
        sql if made.positional else _numbered(sql, [each.name for each in parameters]),
        _reading(parameters),
        tuple((n, each.convert) for n, each in enumerate(parameters) if each.convert is not None),
        tuple(each.keyname for each in columns),
        tuple((index, convert) for index, convert in outgoing if convert is not None),
    )


def _reading(parameters: Sequence[Parameter]) -> Read:
    """What reads the parameters' values; all at once where none has a default."""
    if len(parameters) > 1 and all(each.default is REQUIRED for each in parameters):
        return itemgetter(*(each.name for each in parameters))
    places = tuple((each.name, each.default) for each in parameters)

    def read(given: Parameters) -> list[Any]:
        return [
            given[name] if default is REQUIRED else given.get(name, default)
            for name, default in places
        ]

    return read


def _expanded(sql: str, name: str, each: list[Parameter], dialect: Dialect) -> str:
    """`sql` with places for the values of an IN list, of which SQLAlchemy leaves a mark."""
    places = ", ".join("?" if dialect.positional else f"%({one.name})s" for one in each)
    return sql.replace(f"__[POSTCOMPILE_{name}]", places or "NULL", 1)


def _numbered(sql: str, names: list[str]) -> str:
    """`sql` with places that have numbers ($1), as PostgreSQL's own protocol takes it."""
    numbers = {name: f"${number}" for number, name in enumerate(names, 1)}
    return _NAMED.sub(lambda found: numbers[found[1]] if found[1] else "%", sql)


def _outgoing(kind: TypeEngine[Any], dialect: Dialect) -> Convert | None:
    convert: Convert | None = kind.dialect_impl(dialect).result_processor(dialect, None)
    return convert


def driver_error(error: Exception, dialect: Dialect, sql: str, given: Any) -> Exception:
    """A driver's error as SQLAlchemy's, which is the same for every database; no values in it."""
    base: Any = dialect.loaded_dbapi.Error
    return DBAPIError.instance(sql, given, error, base, hide_parameters=True, dialect=dialect)
