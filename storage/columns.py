"""Column types and the base class of the tables' rows: times, enums, texts, fast construction."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import cache
from typing import Any, TypeVar

from sqlalchemy import BigInteger, Column, ColumnElement, String, Text, bindparam, type_coerce
from sqlalchemy import text as sql
from sqlalchemy.engine import Dialect
from sqlalchemy.orm import InstrumentedAttribute, configure_mappers
from sqlalchemy.types import TypeDecorator
from sqlmodel import Field, SQLModel, col
from sqlmodel.main import SQLModelMetaclass

R = TypeVar("R", bound="Row")
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class UtcTime(TypeDecorator[datetime]):
    """The type of a column of UTC datetimes, stored as microseconds since 1970."""

    impl = BigInteger
    cache_ok = True

    def bind_processor(self, dialect: Dialect) -> Callable[[datetime | None], int | None]:
        """Return the conversion to microseconds; it raises ValueError for a naive datetime."""
        return _to_microseconds

    def result_processor(
        self, dialect: Dialect, coltype: object
    ) -> Callable[[int | None], datetime | None]:
        """Return the conversion from microseconds."""
        return _from_microseconds


def _to_microseconds(value: datetime | None) -> int | None:
    if value is None:
        return None
    if value.tzinfo is None:
        raise ValueError("a time without a zone cannot be stored")
    delta = value - EPOCH
    return (delta.days * 86_400 + delta.seconds) * 1_000_000 + delta.microseconds


def _from_microseconds(value: int | None) -> datetime | None:
    return None if value is None else EPOCH + timedelta(microseconds=value)


class StoredEnum(TypeDecorator[StrEnum]):
    """The type of a column that stores an enum's members by value.

    A value the enum does not know raises on reading (fail closed).
    """

    impl = String(16)
    cache_ok = True

    def __init__(self, enum: type[StrEnum]) -> None:
        super().__init__()
        self.enum = enum

    def bind_processor(self, dialect: Dialect) -> Callable[[str | None], str | None]:
        """Return the conversion to the stored value; ValueError for a value outside the enum."""
        known: dict[str, str] = {each: each.value for each in self.enum}  # each equals its value
        return lambda value: None if value is None else known.get(value) or str(self.enum(value))

    def result_processor(
        self, dialect: Dialect, coltype: object
    ) -> Callable[[str | None], StrEnum | None]:
        """Return the conversion from the stored value to the enum."""
        known = {each.value: each for each in self.enum}
        return lambda value: None if value is None else known.get(value) or self.enum(value)


def enum_column(enum: type[StrEnum], default: StrEnum | None = None, *, index: bool = True) -> Any:
    return Field(default=default, sa_column=Column(StoredEnum(enum), nullable=False, index=index))


def text_column(default: str | None = None, *, nullable: bool = False) -> Any:
    return Field(default=default, sa_column=Column(Text, nullable=nullable))


def time_column(*, nullable: bool = False, index: bool = False) -> Any:
    return Field(default=None, sa_column=Column(UtcTime, nullable=nullable, index=index))


def build_partial_index_options(condition: str) -> dict[str, Any]:
    """Return the index options that limit an index to rows for which the condition is true."""
    return {"sqlite_where": sql(condition), "postgresql_where": sql(condition)}


class _ColumnDescriptor:
    """A descriptor that gives the column on the class; on a row it raises AttributeError.

    A row holds all of its values itself, so they are found there first.
    """

    __slots__ = ("_column",)

    def __init__(self, column: object) -> None:
        self._column = column

    def __get__(self, row: object | None, table: type) -> object:
        if row is not None:
            raise AttributeError("every row holds all of its columns")
        return self._column


class _RowMetaclass(SQLModelMetaclass):
    """The metaclass of `Row`: rows are created and read without SQLAlchemy's instrumentation.

    SQLAlchemy wraps constructors so that sessions can track rows; ours are detached. Reading a
    column through SQLAlchemy would take ten times as long, and a request reads about a thousand.
    """

    def __init__(cls, *given: Any, **options: Any) -> None:
        super().__init__(*given, **options)
        for name, column in list(vars(cls).items()):
            if isinstance(column, InstrumentedAttribute):
                type.__setattr__(cls, name, _ColumnDescriptor(column))

    def __call__(cls, **given: Any) -> Any:
        model: Any = cls
        row = model.__new__(model)
        Row.__init__(row, **given)
        return row


class Row(SQLModel, metaclass=_RowMetaclass):
    """The base class of all tables' rows, which skips SQLModel's slow constructor.

    That constructor takes 60 µs a row, filling a dictionary takes 3. Nothing is lost: it does not
    validate the values of a table's row.
    """

    model_config = {"defer_build": True}  # the validators are slow to build, and never used

    def __init__(self, **given: Any) -> None:
        """Set the `given` columns, others to their defaults; TypeError for unknown columns."""
        constant, made = _get_column_defaults(type(self))
        columns = {**constant, **{name: make() for name, make in made if name not in given}}
        columns.update(given)
        if len(columns) > len(constant) + len(made):
            known = constant.keys() | dict(made).keys()
            raise TypeError(f"{type(self).__name__} has no column {sorted(given.keys() - known)}")
        self.__dict__.update(columns)

    def __setattr__(self, name: str, value: Any) -> None:
        """Set a column without SQLAlchemy's tracking; ValueError for an unknown column."""
        if name in self.__dict__:
            self.__dict__[name] = value
        else:
            super().__setattr__(name, value)


@cache
def _get_column_defaults(
    model: type[Row],
) -> tuple[dict[str, Any], tuple[tuple[str, Callable[[], Any]], ...]]:
    """Return a table's constant default values by column, and the factories of other defaults."""
    configure_mappers()  # columns cannot be read before this
    fields = model.model_fields.items()
    made = ((name, field.default_factory) for name, field in fields if field.default_factory)
    constant = {
        name: None if field.is_required() else field.default
        for name, field in fields
        if not field.default_factory
    }
    return constant, tuple(made)  # type: ignore[arg-type]  # none of our factories takes the data


def build_conditions(
    model: type[SQLModel], names: Iterable[str], unset: Collection[str] = ()
) -> list[ColumnElement[bool]]:
    """Return SQL conditions: each column equals its parameter `name_`, or is NULL if in `unset`."""
    found = ((name, col(getattr(model, name))) for name in names)
    return [
        column.is_(None) if name in unset else column == bindparam(f"{name}_")
        for name, column in found
    ]


def build_thread_conditions(model: type[SQLModel], *more: str) -> list[ColumnElement[bool]]:
    """Return SQL conditions that a row is in the thread given by parameters.

    The parameters are `team_`, `channel_` and `thread_ts_`. `more`: further columns, each compared
    with a parameter named in the same way.
    """
    return build_conditions(model, ("team", "channel", "thread_ts", *more))


def hide_from_indexes(column: Any) -> ColumnElement[str]:
    """Return the column's text as an expression for which SQLite uses no index.

    For a column with few different values, or one value in most rows: SQLite has no statistics, and
    may prefer the column's index to one that finds only a few rows.
    """
    return type_coerce(column, Text).concat("")


def get_column_values(row: SQLModel) -> dict[str, Any]:
    """Return a row's columns as a dict for a Core insert, without an unset autoincrement key."""
    held = row.__dict__
    found = {name: held[name] for name in _list_column_names(type(row))}
    if found.get("seq", 0) is None:
        del found["seq"]
    return found


def copy_row_with_changes(row: R, **columns: Any) -> R:
    """Return a copy of the row with these columns changed; `row` itself is unchanged."""
    return type(row)(**{**get_column_values(row), **columns})


@cache
def _list_column_names(model: type[SQLModel]) -> tuple[str, ...]:
    table: Any = model.__dict__["__table__"]
    return tuple(column.name for column in table.columns)
