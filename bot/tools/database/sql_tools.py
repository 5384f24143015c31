"""The database tools: list tables, run one query, make one change. Off without a database.

The rules are elsewhere: which statements are allowed in `statement`, which columns are secret in
`catalog`, how statements are guarded and run in `sqlite` and `postgres`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, field_validator, model_validator

from bot.tools import ChangedError, Code, Effect, Preview, Table, Tool, ToolContext, ToolError, tool
from bot.tools.database.catalog import add_comments_and_check_constraints
from bot.tools.database.preview import (
    applied_change_sentence,
    build_change_result,
    build_changes_digest,
    preview_change,
    preview_mismatch_sentence,
)
from bot.tools.database.session import CONNECT_TIMEOUT_SECONDS, PREVIEW_TIMEOUT_SECONDS, Source
from bot.tools.database.statement import (
    MAX_STATEMENT_CHARS,
    Statement,
    StatementError,
    Token,
    parse_changes,
    parse_statement,
    split_statements,
    tokenize,
)
from countersign.durations import format_count

_SUMMARY_VERBS = {"insert": "Insert into", "update": "Update", "delete": "Delete rows of"}


class SqlText(Code):
    """SQL statements as text, with a short description of what they do."""

    __slots__ = ()

    @property
    def summary(self) -> str:
        """The statements in words: "Update orders", "Update orders, then delete rows of heap"."""
        try:
            first, *others = map(_summarise_statement, split_statements(tokenize(self)))
        except StatementError:
            return "Change rows"
        if len(others) > 2:
            others = [others[0], f"{len(others) - 1} more changes"]
        return ", then ".join([first, *(each[0].lower() + each[1:] for each in others)])


def _summarise_statement(tokens: tuple[Token, ...]) -> str:
    words = [each for each in tokens if each.depth == 0]
    for at, (each, after) in enumerate(pairwise(words)):
        # skips a WITH that is named like a verb
        if each.word in _SUMMARY_VERBS and after.word != "as" and after.text != "(":
            return _append_table_name(_SUMMARY_VERBS[each.word], words[at + 1 :])
    return "Change rows"


def _append_table_name(deed: str, rest: list[Token]) -> str:
    """Return `deed` ("Update") followed by the table name with which the tokens `rest` begin."""
    named = [each for each in rest if each.word not in ("into", "from", "only")]
    name = "".join(each.text.strip('"') for each in named[:1])
    if len(named) > 2 and named[1].text == ".":
        name = f"{name}.{named[2].text.strip(chr(34))}"
    return f"{deed} {name}".rstrip()


MAX_VALUE_CHARS = 2_000
MAX_LIST_VALUES = 100
MAX_LISTED_TABLES = 200
MAX_DETAILED_TABLES = 40
Sources = Mapping[str, Source]


# takes a database's name, the SQL and `changes`; raises StatementError for what is refused
StatementCheck = Callable[..., object]


class TablesArguments(BaseModel):
    """Arguments of tables."""

    model_config = ConfigDict(extra="forbid", frozen=True, str_strip_whitespace=True)

    database: str | None = Field(
        None, title="Database", max_length=40, description="Left out: all of them."
    )
    named: str | None = Field(
        None, title="Tables named", max_length=80, description="Part of the tables' names."
    )


class StatementArguments(BaseModel):
    """What query and change share."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    database: str = Field(
        title="Database", max_length=40, description="Its name, as the tool tables lists it."
    )
    sql: Annotated[str, AfterValidator(SqlText)] = Field(
        title="SQL",
        max_length=MAX_STATEMENT_CHARS,
        description="In the database's own SQL, with its values written out. No comments, no "
        "parameters.",
    )

    @field_validator("sql", mode="before")
    @classmethod
    def _strip_final_semicolon(cls, value: Any) -> Any:
        return value.strip().removesuffix(";").rstrip() if isinstance(value, str) else value


def build_in_process_database_tools(
    sources: Sources,
    check: StatementCheck | None = None,
    announce: Callable[[], None] = lambda: None,
) -> list[Tool[Any]]:
    """Return the tools for these databases, run in this process.

    Without a database there are none, and no `change` where all are read-only. `check` raises
    StatementError for refused arguments; the default is `parse_sql_for_database`. `announce` is
    called right before each COMMIT, whose outcome may stay unknown.
    """
    if not sources:
        return []
    check = check or partial(parse_sql_for_database, sources)
    tools = [_build_tables_tool(sources), _build_query_tool(sources, check)]
    if any(not each.database.read_only for each in sources.values()):
        tools.append(_build_change_tool(sources, check, announce))
    return tools


def _compute_tool_timeout(sources: Sources) -> float:
    """Return a tool's timeout in seconds, longer than the slowest database is allowed to take."""
    limits = (each.database.timeout + each.database.lock_timeout for each in sources.values())
    return max(limits) + CONNECT_TIMEOUT_SECONDS + 10


def _build_tables_tool(sources: Sources) -> Tool[Any]:
    @tool(
        title="List tables",
        effect="List what the databases hold",
        step=lambda _args: "listing what the databases hold",
        does=Effect.READ,
        timeout=_compute_tool_timeout(sources),
    )
    def tables(args: TablesArguments, _context: ToolContext) -> str:
        """List the databases that query and change can use, with their tables, columns and types.

        Use it first.
        """
        if args.database is not None:
            _get_source(sources, args.database)
        chosen = [each for name, each in sources.items() if args.database in (None, name)]
        return "\n\n".join(_describe_database(each, (args.named or "").lower()) for each in chosen)

    return tables


def _build_query_tool(sources: Sources, check: StatementCheck) -> Tool[Any]:
    class Query(StatementArguments):
        """Arguments of query."""

        @model_validator(mode="after")
        def _parses(self) -> Query:
            check(self.database, str(self.sql), changes=False)
            return self

        def statement(self) -> Statement:
            """Return the parsed query; raises StatementError if it is refused."""
            [statement] = parse_sql_for_database(
                sources, self.database, str(self.sql), changes=False
            )
            return statement

    def preview(args: Query, _context: ToolContext) -> Preview:
        source = _get_source(sources, args.database)
        statement = Query.statement(args)
        with source.open(writes=False, timeout=PREVIEW_TIMEOUT_SECONDS) as session:
            session.check_statement(statement)
        return Preview(
            f"Reads at most {format_count(source.database.max_rows, 'row')} and changes nothing."
        )

    @tool(
        title="Query a database",
        effect="Read from the database {database}",
        step=lambda args: f"reading from the database {args.database}",
        does=Effect.READ,
        needs_approval=True,
        preview=preview,
        timeout=_compute_tool_timeout(sources),
    )
    def query(args: Query, _context: ToolContext) -> Table:
        """Run one SELECT in a database.

        Secret columns cannot be used in any way: name the others instead of *.
        """
        source = _get_source(sources, args.database)
        statement = Query.statement(args)
        with source.open(writes=False) as session:
            result = session.run_query(statement, source.database.max_rows)
        cells = (tuple(map(_convert_to_json_value, row)) for row in result.rows)
        return replace(result, rows=tuple(cells))

    return query


def _build_change_tool(
    sources: Sources, check: StatementCheck, announce: Callable[[], None]
) -> Tool[Any]:
    class Change(StatementArguments):
        """Arguments of change."""

        @model_validator(mode="after")
        def _parses(self) -> Change:
            check(self.database, str(self.sql), changes=True)
            return self

        def statements(self) -> tuple[Statement, ...]:
            """Return the parsed changes; raises StatementError if they are refused."""
            return parse_sql_for_database(sources, self.database, str(self.sql), changes=True)

    def preview(args: Change, _context: ToolContext) -> Preview:
        source = _get_source(sources, args.database)
        statements = Change.statements(args)
        with source.open(writes=True, timeout=PREVIEW_TIMEOUT_SECONDS) as session:
            return preview_change(session, statements)

    @tool(
        title="Change a database",
        effect="{sql.summary} in the database {database}",
        does=Effect.DESTRUCTIVE,
        preview=preview,
        outcome=applied_change_sentence,
        step=lambda args: f"changing the database {args.database}",
        timeout=_compute_tool_timeout(sources),
    )
    def change(args: Change, context: ToolContext) -> dict[str, Any]:
        """Run one INSERT, UPDATE or DELETE in a database, or up to 10 that belong together: in one
        transaction, with ; between them.

        People see beforehand which rows it would touch.
        """
        source = _get_source(sources, args.database)
        statements = Change.statements(args)
        with source.open(writes=True) as session:
            changes = session.run_changes(statements)
            if context.expects and context.expects != build_changes_digest(changes):
                raise ChangedError(preview_mismatch_sentence(context.expects, changes))
            announce()
            session.commit()
        return build_change_result(changes)

    return change


def _get_source(sources: Sources, name: str) -> Source:
    if name not in sources:
        raise StatementError(f"there is no database {name[:40]}; there are: {', '.join(sources)}")
    return sources[name]


def parse_sql_for_database(
    sources: Sources, name: str, sql: str, *, changes: bool
) -> tuple[Statement, ...]:
    """Return the parsed query, or the changes, for the database with this name.

    Raises StatementError if they are refused.
    """
    database = _get_source(sources, name).database
    if changes and database.read_only:
        raise StatementError(f"the database {database.name} is read-only")
    if changes:
        return parse_changes(sql, database.dialect)
    return (parse_statement(sql, database.dialect, changes=False),)


def _convert_to_json_value(value: Any) -> Any:
    """Return a value that JSON can hold without loss, or a text that says what is missing."""
    if isinstance(value, bytes | memoryview):
        return f"({len(bytes(value)):,} bytes)"
    if isinstance(value, int) and abs(value) >= 2**53:
        return str(value)
    if isinstance(value, list):
        shown = [_convert_to_json_value(each) for each in value[:MAX_LIST_VALUES]]
        more = len(value) - MAX_LIST_VALUES
        return [*shown, f"… ({more:,} more values)"] if more > 0 else shown
    if isinstance(value, str) and len(value) > MAX_VALUE_CHARS:
        return f"{value[:MAX_VALUE_CHARS]}… ({len(value) - MAX_VALUE_CHARS:,} more characters)"
    return value


def _describe_database(source: Source, named: str) -> str:
    database = source.database
    kind = "SQLite" if database.dialect == "sqlite" else "PostgreSQL"
    heading = (
        f"{database.name} ({kind}{', read-only' if database.read_only else ''}): {database.about}"
    )
    try:
        with source.open(writes=False) as session:
            catalog = add_comments_and_check_constraints(session.connection, session.catalog)
    except ToolError as error:
        return f"{heading}\n  cannot be used now: {error}"
    tables = sorted(
        (each for each in catalog.tables.values() if named in each.name.lower()),
        key=lambda each: each.name,
    )
    brief = len(tables) > MAX_DETAILED_TABLES
    lines = [
        heading,
        *(
            f"  {catalog.describe_table(table, brief=brief)}"
            for table in tables[:MAX_LISTED_TABLES]
        ),
    ]
    if brief:
        lines.append("  (defaults, checks and comments: say which tables with `named`)")
    if len(tables) > MAX_LISTED_TABLES:
        lines.append(f"  … and {len(tables) - MAX_LISTED_TABLES} more; say which with `named`")
    return "\n".join(lines if tables else [*lines, "  no such tables"])
