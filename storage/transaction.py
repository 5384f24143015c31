"""One transaction, and the compiled statements that run in it; the rows it returns are detached.

It ends with the `with` block that it is used in: committed, or rolled back if that raised.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from operator import itemgetter
from typing import TYPE_CHECKING, Any, TypeVar

from sqlalchemy import Executable, Insert, Select, UpdateBase, bindparam, insert, select, update
from sqlalchemy.engine import Dialect
from sqlalchemy.exc import DBAPIError, StatementError
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.types import TypeEngine
from sqlmodel import SQLModel

from storage.columns import build_conditions, get_column_values

if TYPE_CHECKING:
    from storage.audit_log import AuditLine
    from storage.digest import AuditChainSealer, AuditHead


ValueConverter = Callable[[Any], Any]
Parameters = Mapping[str, Any]
Row = tuple[Any, ...]
ValueReader = Callable[[Parameters], Sequence[Any]]
ROWS_PER_FETCH = 5000
MAX_COMPILED_STATEMENTS = 1000  # then the cache is emptied: some statements are used only once

# key: statement, dialect, columns
known: dict[tuple[Executable, str, tuple[str, ...]], CompiledStatement] = {}
REQUIRED: Any = object()
# a named placeholder, or an escaped percent sign, in the driver's style
_NAMED_PARAMETER_PATTERN = re.compile(r"%\((\w+)\)s|%%")


class StoreClosedError(Exception):
    """Raised on a write after this process has closed its database, or has no right to it."""


@dataclass(frozen=True, slots=True)
class StatementPlaceholder:
    """One placeholder in a statement."""

    name: str
    default: Any  # the value in the statement itself, or REQUIRED
    convert: ValueConverter | None


@dataclass(frozen=True, slots=True)
class CompiledStatement:
    """The SQL text of a statement for one kind of database, with its value converters."""

    sql: str
    read_values: ValueReader  # returns the placeholders' values; KeyError if one is missing
    input_converters: tuple[tuple[int, ValueConverter], ...]  # by index of placeholder
    columns: tuple[str, ...]  # of the result; empty if the statement does not name them
    output_converters: tuple[tuple[int, ValueConverter], ...]  # by index of column

    def bind_values(self, parameters: Parameters) -> list[Any]:
        """Return the values in the order of the placeholders.

        Raises StatementError for a value that is missing or cannot be converted.
        """
        try:
            values = [*self.read_values(parameters)]
            for index, convert in self.input_converters:
                values[index] = convert(values[index])
        except (ValueError, TypeError, LookupError) as error:
            missing = isinstance(error, KeyError)
            why = f"a value is required for {error}" if missing else str(error)
            raise StatementError(
                why, self.sql, dict(parameters), error, hide_parameters=True
            ) from error
        return values

    def convert_rows(self, rows: list[Row]) -> list[Row]:
        """Return the driver's rows with Python values. Raises what a converter raises."""
        found = []
        for row in rows:
            values = list(row)
            for index, convert in self.output_converters:
                if values[index] is not None:  # NULL is None for every type
                    values[index] = convert(values[index])
            found.append(tuple(values))
        return found


def compile_statement(
    statement: Executable, dialect: Dialect, parameters: Parameters
) -> CompiledStatement:
    """Return `statement` compiled for that kind of database, from the cache if possible.

    An insert without columns takes the columns that `parameters` has.
    """
    keys = tuple(parameters) if isinstance(statement, Insert) else ()
    key = (statement, dialect.name, keys)
    found = known.get(key)
    if found is None:
        if len(known) >= MAX_COMPILED_STATEMENTS:
            known.clear()
        found = known[key] = _compile_uncached(statement, dialect, keys)
    return found


def _compile_uncached(statement: Any, dialect: Dialect, keys: tuple[str, ...]) -> CompiledStatement:
    how = {"column_keys": list(keys)} if keys else {}
    compiled: SQLCompiler = statement.compile(dialect=dialect, **how)
    sql, parameters = str(compiled), []
    defaults: Any = {column.key: column.default for column in compiled.insert_prefetch}
    filled = {name: each.arg for name, each in defaults.items()}
    for name in compiled.positiontup or dict.fromkeys(compiled.bind_names.values()):
        bind = compiled.binds[name]
        convert = bind.type.dialect_impl(dialect).bind_processor(dialect)
        if bind.expanding:
            each = [
                StatementPlaceholder(f"{name}_{n}", value, convert)
                for n, value in enumerate(bind.value or ())
            ]
            sql = _expand_in_list(sql, name, each, dialect)
            parameters += each
        else:
            default = REQUIRED if bind.required else filled.get(name, bind.effective_value)
            parameters.append(StatementPlaceholder(name, default, convert))
    columns = compiled._result_columns or []
    outgoing = (
        (index, _find_output_converter(each.type, dialect)) for index, each in enumerate(columns)
    )
    return CompiledStatement(
        sql
        if compiled.positional
        else _number_placeholders(sql, [each.name for each in parameters]),
        _build_value_reader(parameters),
        tuple((n, each.convert) for n, each in enumerate(parameters) if each.convert is not None),
        tuple(each.keyname for each in columns),
        tuple((index, convert) for index, convert in outgoing if convert is not None),
    )


def _build_value_reader(parameters: Sequence[StatementPlaceholder]) -> ValueReader:
    """Return a function that reads the parameters' values from a mapping, in order."""
    if len(parameters) > 1 and all(each.default is REQUIRED for each in parameters):
        return itemgetter(*(each.name for each in parameters))
    places = tuple((each.name, each.default) for each in parameters)

    def read(given: Parameters) -> list[Any]:
        return [
            given[name] if default is REQUIRED else given.get(name, default)
            for name, default in places
        ]

    return read


def _expand_in_list(sql: str, name: str, each: list[StatementPlaceholder], dialect: Dialect) -> str:
    """Return `sql` with placeholders for an IN list in place of SQLAlchemy's marker."""
    places = ", ".join("?" if dialect.positional else f"%({one.name})s" for one in each)
    return sql.replace(f"__[POSTCOMPILE_{name}]", places or "NULL", 1)


def _number_placeholders(sql: str, names: list[str]) -> str:
    """Return `sql` with numbered placeholders ($1), as PostgreSQL's own protocol takes it."""
    numbers = {name: f"${number}" for number, name in enumerate(names, 1)}
    return _NAMED_PARAMETER_PATTERN.sub(lambda found: numbers[found[1]] if found[1] else "%", sql)


def _find_output_converter(kind: TypeEngine[Any], dialect: Dialect) -> ValueConverter | None:
    convert: ValueConverter | None = kind.dialect_impl(dialect).result_processor(dialect, None)
    return convert


def wrap_driver_error(error: Exception, dialect: Dialect, sql: str, parameters: Any) -> Exception:
    """Return a driver's error as SQLAlchemy's error of the same kind, with the values hidden."""
    base: Any = dialect.loaded_dbapi.Error
    return DBAPIError.instance(sql, parameters, error, base, hide_parameters=True, dialect=dialect)


log = logging.getLogger("countersign.store")
M = TypeVar("M", bound=SQLModel)
Names = tuple[str, ...]  # names of columns
BROKEN_ROW_ERRORS = (ValueError, TypeError, LookupError)  # raised when a row cannot be read


class Trace:
    """Watches what a store does; each method does nothing unless a subclass overrides it.

    It is called on the thread that uses the transaction.
    """

    def before_statement(self, sql: str, values: Any) -> None:
        """Called before this SQL text is run with these values."""

    def before_commit(self, tx: Transaction) -> None:
        """Called before this transaction, of a writer or a reader, is committed."""

    def after_commit(self, tx: Transaction) -> None:
        """Called after this transaction was committed."""


class StatementResult(list[Row]):
    """The rows that a statement returned, as tuples, and how many it changed."""

    def __init__(self, rows: Iterable[Row], rowcount: int, columns: tuple[str, ...]) -> None:
        super().__init__(rows)
        self.rowcount = rowcount
        self.columns = columns

    def scalar(self) -> Any:
        """Return the first column of the first row, or None."""
        return self[0][0] if self else None

    def scalars(self) -> list[Any]:
        """Return the first column of every row."""
        return [row[0] for row in self]


class Transaction:
    """One database transaction, which the storage functions get as `tx`.

    See `storage.store.Store.read` and `write`.
    """

    def __init__(
        self,
        connection: Any,
        give_back: Callable[[Any], None],
        dialect: Dialect,
        trace: Trace | None,
        chain: AuditChainSealer,
        *,
        writes: bool,
        durable: bool,
    ) -> None:
        """Use this connection of the driver, and pass it to `give_back` at the end.

        `durable`: whether the commit waits for the disk.
        """
        self.raw = connection
        self._give_back = give_back
        self._trace = trace
        self.has_changes = False  # a row was changed
        self.chain = chain
        self.head: AuditHead | None = None  # the audit's newest row, once it was read
        self.appended: list[AuditLine] = []  # audit rows to be logged after the commit
        self.ready: list[str] = []  # runs that a worker may take after the commit
        self.dialect = dialect
        self.writes = writes
        self.durable = durable

    def __enter__(self) -> Transaction:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Commit, or roll back if the block raised; return the connection in either case."""
        try:
            if kind is None:
                self._commit()
            else:
                self._roll_back()
        finally:
            self._release_connection()

    def overwrite_erased_data(self) -> None:
        """Make the database overwrite the bytes that are emptied or deleted from now on."""
        self.exec_driver_sql("PRAGMA secure_delete=ON")

    def execute(
        self, statement: Executable, parameters: Mapping[str, Any] | None = None
    ) -> StatementResult:
        """Run an SQLAlchemy statement.

        Raises SQLAlchemy's StatementError for parameters that do not fit, its DBAPIError for what
        the database refuses.
        """
        given = {} if parameters is None else parameters
        plan = compile_statement(statement, self.dialect, given)
        found, rowcount = self._run_traced(plan.sql, plan.bind_values(given))
        return StatementResult(
            plan.convert_rows(found) if plan.output_converters else found, rowcount, plan.columns
        )

    def scalar(self, statement: Executable, parameters: Mapping[str, Any] | None = None) -> Any:
        """Return the first column of the statement's first row, or None."""
        return self.execute(statement, parameters).scalar()

    def scalars(
        self, statement: Executable, parameters: Mapping[str, Any] | None = None
    ) -> list[Any]:
        """Return the first column of each of the statement's rows."""
        return self.execute(statement, parameters).scalars()

    def list_rows(self, model: type[M], *, order_by: str = "", **held: Any) -> list[M]:
        """Return the rows whose columns have the given values; None stands for NULL."""
        statement = _build_select(model, tuple(held), _list_unset(held), order_by, only_first=False)
        return fetch_rows(self, model, statement, **_name_held_values(held))

    def find_row(self, model: type[M], *, order_by: str = "", **held: Any) -> M | None:
        """Return the first row whose columns have the given values, or None."""
        statement = _build_select(model, tuple(held), _list_unset(held), order_by, only_first=True)
        return fetch_first_row(self, model, statement, **_name_held_values(held))

    def get_row(self, model: type[M], **held: Any) -> M:
        """Return the row whose columns have the given values; LookupError if there is none."""
        if (row := self.find_row(model, **held)) is None:
            raise LookupError(f"no {model.__name__} has {held}")
        return row

    def update_rows(self, model: type[SQLModel], held: Mapping[str, Any], **columns: Any) -> int:
        """Set `columns` of the rows whose columns have the values in `held`; return their number.

        A status is changed by `storage.moves` alone.
        """
        statement = _build_update(model, tuple(held), _list_unset(held), tuple(columns))
        return self.execute(statement, _name_held_values(held) | columns).rowcount

    def exec_driver_sql(self, sql: str, parameters: Sequence[Any] = ()) -> StatementResult:
        """Run an SQL text in the driver's own parameter style."""
        rows, rowcount = self._run_traced(sql, parameters)
        return StatementResult(rows, rowcount, ())

    def run_begin_commit_or_rollback(self, sql: str) -> None:
        """Run BEGIN, COMMIT or ROLLBACK."""
        try:
            self.raw.execute(sql)
        except Exception as error:
            raise wrap_driver_error(error, self.dialect, sql, ()) from error

    def _commit(self) -> None:
        if self._trace is not None:
            self._trace.before_commit(self)
        try:
            self.run_begin_commit_or_rollback("COMMIT")
        except BaseException:
            self._roll_back()
            raise
        if self._trace is not None:
            self._trace.after_commit(self)

    def _roll_back(self) -> None:
        if self._is_in_progress():  # on a full disk SQLite has ended it already
            self.run_begin_commit_or_rollback("ROLLBACK")

    def _is_in_progress(self) -> bool:
        return bool(self.raw.in_transaction)

    def _release_connection(self) -> None:
        if self._is_in_progress():  # neither committed nor rolled back: unusable
            self.raw.close()
        else:
            self._give_back(self.raw)

    def _run_traced(self, sql: str, values: Any) -> tuple[list[Row], int]:
        if self._trace is not None:
            self._trace.before_statement(sql, values)
        try:
            found, many = self._run_and_fetch(sql, values)
        except Exception as error:
            raise wrap_driver_error(error, self.dialect, sql, values) from error
        self.has_changes = self.has_changes or (self.writes and many > 0)
        return found, many

    def _run_and_fetch(self, sql: str, values: Any) -> tuple[list[Row], int]:
        cursor = self.raw.execute(sql, values)
        return cursor.fetchall(), cursor.rowcount  # empty for statements without a result


def replace_nul_characters(value: Any) -> Any:
    """Return the value with NUL characters replaced: PostgreSQL cannot store them in text."""
    return value.replace("\0", "\N{REPLACEMENT CHARACTER}") if isinstance(value, str) else value


def fetch_rows(
    tx: Transaction, model: type[M], statement: Select[Any] | UpdateBase, **parameters: Any
) -> list[M]:
    """Run `select(model)…` and return detached instances, in the statement's order.

    SQLAlchemy does not track them, and all columns are set, so no defaults are filled in.
    """
    result = tx.execute(statement, parameters)
    if not result:
        return []
    names = result.columns
    found: list[M] = []
    for row in result:
        instance = model.__new__(model)
        instance.__dict__.update(zip(names, row, strict=True))
        found.append(instance)
    return found


def iterate_rows(tx: Transaction, model: type[M], *where: Any) -> Iterator[M]:
    """Yield the rows of a table that numbers them, in order, read a few thousand at a time."""
    seq, after = getattr(model, "seq"), 0  # noqa: B009 # not every table numbers its rows
    statement = (
        select(model).where(seq > bindparam("after_"), *where).order_by(seq).limit(ROWS_PER_FETCH)
    )
    while found := fetch_rows(tx, model, statement, after_=after):
        yield from found
        after = found[-1].__dict__["seq"]


def fetch_readable_rows(
    tx: Transaction, model: type[M], key: Any, statement: Select[Any], **parameters: Any
) -> list[M]:
    """Return rows like `fetch_rows`, but log and leave out each row that cannot be read."""
    try:
        return fetch_rows(tx, model, statement, **parameters)
    except BROKEN_ROW_ERRORS:
        found: list[M] = []
        for value in tx.scalars(statement.with_only_columns(key), parameters):
            try:
                found += fetch_rows(tx, model, select(model).where(key == value))
            except BROKEN_ROW_ERRORS:
                log.exception("%s %s cannot be read", model.__name__, value)
        return found


def fetch_first_row(
    tx: Transaction, model: type[M], statement: Select[Any] | UpdateBase, **parameters: Any
) -> M | None:
    """Return the first row that `fetch_rows` would, or None; it adds no LIMIT to the statement."""
    found = fetch_rows(tx, model, statement, **parameters)
    return found[0] if found else None


def _list_unset(held: Mapping[str, Any]) -> Names:
    return tuple(name for name, value in held.items() if value is None)


def _name_held_values(held: Mapping[str, Any]) -> dict[str, Any]:
    return {f"{name}_": value for name, value in held.items()}


@cache
def _build_select(
    model: type[SQLModel], names: Names, unset: Names, order_by: str, *, only_first: bool
) -> Select[Any]:
    statement = select(model).where(*build_conditions(model, names, unset))
    statement = statement.order_by(getattr(model, order_by)) if order_by else statement
    return statement.limit(1) if only_first else statement


@cache
def _build_update(model: type[SQLModel], names: Names, unset: Names, columns: Names) -> UpdateBase:
    values: dict[str, Any] = {name: bindparam(name) for name in columns}
    return update(model).where(*build_conditions(model, names, unset)).values(values)


@cache
def build_insert(model: type[SQLModel]) -> Insert:
    """Return `insert(model)`, built once for each model."""
    return insert(model)


def insert_row(tx: Transaction, row: SQLModel) -> None:
    """Insert a row with all of its columns."""
    tx.execute(build_insert(type(row)), get_column_values(row))


@cache
def _build_insert_if_absent(model: type[SQLModel], dialect: str, same: Names) -> Any:
    insert_for_dialect = import_module(f"sqlalchemy.dialects.{dialect}").insert  # on first use
    return insert_for_dialect(model).on_conflict_do_nothing(index_elements=same)


def insert_row_if_absent(tx: Transaction, row: SQLModel, same: Names = ("key",)) -> bool:
    """Insert a row; False, and no change, if one with the same values of `same` exists."""
    insert_once = _build_insert_if_absent(type(row), tx.dialect.name, same)
    return tx.execute(insert_once, get_column_values(row)).rowcount == 1
