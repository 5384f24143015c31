"""Parses one SQL statement that a model wrote, and refuses what the tools do not run. Pure.

sqlglot finds the kind, so that a refusal comes early and in words that help. These checks are not
the protection: the database itself enforces the same (docs/decisions/0020). The text runs as it was
written.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise

import sqlglot
from sqlglot import exp

from bot.tools import ToolError
from bot.tools.database.config import Dialect
from bot.tools.invisible_characters import list_hidden_characters

_SCHEMA_REFUSAL = "it would change the database's structure; only rows can be read and changed"
_TRANSACTION_REFUSAL = "every call runs in a transaction of its own; leave it out"
_SETTING_REFUSAL = "settings of the database cannot be changed"
_REFUSAL_BY_FIRST_WORD = {
    **dict.fromkeys(("alter", "create", "drop", "comment", "reindex", "refresh"), _SCHEMA_REFUSAL),
    **dict.fromkeys(
        ("begin", "start", "commit", "end", "rollback", "abort", "savepoint", "release"),
        _TRANSACTION_REFUSAL,
    ),
    **dict.fromkeys(("set", "reset", "pragma", "discard"), _SETTING_REFUSAL),
    **dict.fromkeys(("grant", "revoke", "reassign", "security"), "rights cannot be changed"),
    **dict.fromkeys(("attach", "detach", "use"), "no other database can be opened from here"),
    "truncate": "write DELETE FROM instead",
    "replace": "it deletes conflicting rows; write INSERT … ON CONFLICT (…) DO UPDATE SET …",
    "merge": "write INSERT … ON CONFLICT (…) DO UPDATE SET …, or UPDATE … FROM …",
    "table": "write SELECT * FROM …",
    "show": "the tool tables lists what there is",
    "copy": "no files are read or written",
}


def refused_verb_sentence(word: str, allowed: str) -> str:
    """Return why no statement may begin with `word` (lower case); `allowed`: what may be run."""
    why = _REFUSAL_BY_FIRST_WORD.get(word, "")
    return f"{word.upper()[:30]} is not run" + (f": {why}" if why else f"; only {allowed} is")


def lexing_error_sentence(rest: str) -> str:
    """Return why the text of an SQL statement may not continue with `rest`."""
    for start, why in (
        ("--", "comments are not allowed"),
        ("/*", "comments are not allowed"),
        ("$", "$ is not allowed: no $$ strings, no parameters"),
        ("`", "quote names with double quotes"),
        ("\\", "\\ is not allowed in strings"),
        ("'", "a string does not end"),
        ('"', "a quoted name does not end, or is empty"),
    ):
        if rest.startswith(start):
            return why
    if re.match(r"[A-Za-z_]\w*&?['\"]", rest):
        return "strings with a letter before the quote (E'…', U&'…', X'…') are not allowed"
    return f"{rest[:12]!r} is not allowed; names other than a-z, 0-9 and _ need double quotes"


MAX_STATEMENT_CHARS = 3_000  # the limit of an input in Slack
MAX_TOKENS, MAX_DEPTH = 1_200, 60  # the parser recurses; this is far below what exhausts the stack
_TOKEN_PATTERN = re.compile(
    r"""(?P<space>[ \t\r\n]+)
    | (?P<word>[A-Za-z_][A-Za-z0-9_]*)(?!['"$A-Za-z0-9_\u0080-\U0010ffff]|&['"])
    | (?P<number>[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)(?![A-Za-z0-9_.$\u0080-\U0010ffff])
    | (?P<string>'(?:[^']|'')*')
    | (?P<quoted>"(?:[^"]|"")+")
    | (?P<mark>[(),.;]|::?|[\[\]])
    | (?P<operator>[-+*/<>=~!@\#%^&|?]+)""",
    re.VERBOSE,
)


class StatementError(ToolError, ValueError):
    """Raised for a statement that is refused; nothing of it ran.

    Also a ValueError, so that a Pydantic type can raise it.
    """


@dataclass(frozen=True, slots=True)
class Token:
    """One token of SQL: its kind, its text, its position, and how many parentheses it is in."""

    kind: str
    text: str
    start: int
    depth: int

    @property
    def word(self) -> str:
        """An unquoted word in lower case; "" for any other token."""
        return self.text.lower() if self.kind == "word" else ""


def tokenize(text: str) -> tuple[Token, ...]:
    """Return the tokens of an SQL text, without white space.

    Raises StatementError for what people could misread, and for a text that is too long.
    """
    if len(text) > MAX_STATEMENT_CHARS:
        raise StatementError(
            f"the statement has {len(text)} characters, more than {MAX_STATEMENT_CHARS}"
        )
    hidden = next((each for each in list_hidden_characters(text) if each != "\r"), "")
    if hidden:
        raise StatementError(f"it holds the invisible character U+{ord(hidden):04X}; remove it")
    tokens: list[Token] = []
    position = depth = 0
    while position < len(text):
        match = _TOKEN_PATTERN.match(text, position)
        if match is None:
            raise StatementError(lexing_error_sentence(text[position:]))
        kind, piece = str(match.lastgroup), match[0]
        if kind == "operator" and ("--" in piece or "/*" in piece):
            raise StatementError("comments are not allowed")
        depth -= piece == ")"
        if kind != "space":
            tokens.append(Token(kind, piece, position, depth))
        depth += piece == "("
        position = match.end()
        if not 0 <= depth <= MAX_DEPTH or len(tokens) > MAX_TOKENS:
            raise StatementError(
                "its parentheses do not match, or it is too deeply nested or too long"
            )
    return tuple(tokens)


def split_statements(tokens: tuple[Token, ...]) -> Iterator[tuple[Token, ...]]:
    """Yield the tokens between the semicolons that are outside all parentheses."""
    begin = 0
    for at, each in enumerate(tokens):
        if each.text == ";" and each.depth == 0:
            yield tokens[begin:at]
            begin = at + 1
    yield tokens[begin:]


# Which of PostgreSQL's own functions a statement may reach.


def _split_words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Functions that run text as SQL, or act on the server in other ways than on rows. The server calls
# some of them stable.
_UNSAFE_FUNCTION_PREFIXES = ("pg_", "lo_", "dblink", "binary_upgrade")
_UNSAFE_FUNCTIONS = _split_words(
    "set_config setval loread lowrite query_to_xml query_to_xmlschema query_to_xml_and_xmlschema "
    "cursor_to_xml cursor_to_xmlschema table_to_xml table_to_xmlschema table_to_xml_and_xmlschema "
    "schema_to_xml schema_to_xmlschema schema_to_xml_and_xmlschema database_to_xml "
    "database_to_xmlschema database_to_xml_and_xmlschema ts_stat ts_rewrite crosstab crosstabn "
    "crosstab2 crosstab3 crosstab4 crosstab_hash connectby xpath_table"
)
_SAFE_FUNCTIONS = _split_words(
    "pg_typeof pg_size_pretty pg_size_bytes pg_column_size pg_relation_size pg_table_size "
    "pg_indexes_size pg_total_relation_size pg_database_size pg_get_expr random random_normal "
    "clock_timestamp timeofday gen_random_uuid uuidv4 uuidv7 array_sample array_shuffle"
)
# undone by a rollback, or only informative; allowed in views and triggers, not in a statement
_SAFE_WITHIN_DEFINITIONS = {"pg_notify", "pg_advisory_xact_lock", "currval", "lastval"}


def is_unsafe_postgres_function(name: str) -> bool:
    """Whether a PostgreSQL function acts outside its transaction, or reveals server internals.

    `name`: in lower case.
    """
    return name in _UNSAFE_FUNCTIONS or (
        name.startswith(_UNSAFE_FUNCTION_PREFIXES) and name not in _SAFE_FUNCTIONS
    )


def is_allowed_postgres_function(name: str, *, volatile: bool, owners: bool) -> bool:
    """Whether a statement may call this built-in PostgreSQL function, since it only computes.

    Functions that the server calls volatile may do anything, except those listed here. `owners`:
    the caller is a definition by the database's owner, so it may reveal server internals.
    """
    if owners:
        return (
            not volatile and name not in _UNSAFE_FUNCTIONS
        ) or name in _SAFE_FUNCTIONS | _SAFE_WITHIN_DEFINITIONS
    return name in _SAFE_FUNCTIONS or not (volatile or is_unsafe_postgres_function(name))


# The nodes of a statement that write.
WRITE_NODES: tuple[type[exp.Expr], ...] = (exp.Insert, exp.Update, exp.Delete, exp.Merge)


# it would log SQL that it cannot parse
logging.getLogger("sqlglot").setLevel(logging.ERROR)

_WRITE_NODE_BY_VERB = {"insert": exp.Insert, "update": exp.Update, "delete": exp.Delete}
_EXPLAIN_OPTIONS = ("analyze", "analyse", "verbose", "query", "plan")
_READ_FIRST_WORDS = ("select", "values", "with", "explain")
_CHANGE_VERBS_TEXT = "INSERT, UPDATE or DELETE"
_QUERY_VERBS_TEXT = "SELECT"
MAX_STATEMENTS = 10  # per call


@dataclass(frozen=True)
class Statement:
    """A parsed statement of an allowed kind; `text` is what runs."""

    text: str
    dialect: Dialect
    verb: str  # select, insert, update, delete
    tree: exp.Expr
    tokens: tuple[Token, ...]

    @cached_property
    def changing_node(self) -> exp.Expr | None:
        """The part that changes rows: the statement, or one within a WITH; None for a query."""
        return self.tree if isinstance(self.tree, WRITE_NODES) else self.tree.find(*WRITE_NODES)

    @cached_property
    def target(self) -> exp.Table | None:
        """The table that a change is about; None for a query."""
        this = self.changing_node.this if self.changing_node is not None else None
        named = this.this if isinstance(this, exp.Schema) else this
        return named if isinstance(named, exp.Table) else None

    @cached_property
    def assigned_columns(self) -> frozenset[str]:
        """The folded names of the columns that an UPDATE sets or an INSERT names."""
        change, named = self.changing_node, list[exp.Expr]()
        if isinstance(change, exp.Update):
            named = [one for each in change.expressions for one in each.this.find_all(exp.Column)]
        elif isinstance(change, exp.Insert) and isinstance(change.this, exp.Schema):
            named = change.this.expressions
        return frozenset(each.name.lower() for each in named)

    @cached_property
    def explain_options(self) -> str | None:
        """The options of an EXPLAIN ("(FORMAT JSON)", often ""); None if it is no EXPLAIN."""
        if self.tokens[0].word != "explain":
            return None
        return self.text[len("explain") : _get_first_explained_token(self.tokens).start].strip()

    @cached_property
    def text_without_explain(self) -> str:
        """The text of the statement; of an EXPLAIN, the text of the explained one."""
        if self.explain_options is None:
            return self.text
        return self.text[_get_first_explained_token(self.tokens).start :]

    @cached_property
    def names_before_parentheses(self) -> frozenset[str]:
        """The lower-case names before a parenthesis; all called functions are among them."""
        return frozenset(
            here.word or here.text[1:-1].replace('""', '"').lower()
            for here, after in pairwise(self.tokens)
            if after.text == "(" and here.kind in ("word", "quoted")
        )


@lru_cache(maxsize=256)
def parse_statement(text: str, dialect: Dialect, *, changes: bool) -> Statement:
    """Parse the one statement in `text`: a change (INSERT, UPDATE, DELETE), or else a query.

    Raises StatementError with the reason, for a person and the model. The text must not end in a
    semicolon.
    """
    tokens = tokenize(text)
    wanted = _CHANGE_VERBS_TEXT if changes else _QUERY_VERBS_TEXT
    if not tokens:
        raise StatementError("it is empty")
    first = next((each for each in tokens if each.text != "("), tokens[0])
    if first.word not in (*_WRITE_NODE_BY_VERB, *_READ_FIRST_WORDS):
        raise StatementError(refused_verb_sentence(first.word or first.text, wanted))
    if any(each.text == ";" for each in tokens):
        raise StatementError("it is more than one statement; write one, without ;")
    if dialect == "sqlite" and any(each.text == "[" for each in tokens):
        raise StatementError("quote names with double quotes, not [ ]")
    start = _get_first_explained_token(tokens).start if first.word == "explain" else 0
    tree = _parse_tree(text[start:], dialect)
    verb = "select" if first.word == "explain" else _get_verb(tree, tokens)
    statement = Statement(text, dialect, verb, tree, tokens)
    _check_kind(statement, changes)
    _check_no_server_access(statement)
    return statement


def parse_changes(text: str, dialect: Dialect) -> tuple[Statement, ...]:
    """Parse the changes in `text`, one or several with semicolons between them.

    Raises StatementError with the reason and, of several, the number of the statement.
    """
    parts = list(split_statements(tokenize(text)))
    if len(parts) == 1:
        return (parse_statement(text, dialect, changes=True),)
    if len(parts) > MAX_STATEMENTS:
        raise StatementError(f"it has {len(parts)} statements, more than {MAX_STATEMENTS}")
    statements = []
    for number, each in enumerate(parts, 1):
        piece = text[each[0].start : each[-1].start + len(each[-1].text)] if each else ""
        try:
            statements.append(parse_statement(piece, dialect, changes=True))
        except StatementError as error:
            raise StatementError(f"statement {number}: {error}") from None
    return tuple(statements)


def _get_first_explained_token(tokens: tuple[Token, ...]) -> Token:
    for each in tokens[1:]:
        if each.depth == 0 and each.word in (*_WRITE_NODE_BY_VERB, "select", "values", "with"):
            return each
        if each.depth == 0 and each.text not in "()" and each.word not in _EXPLAIN_OPTIONS:
            break
    raise StatementError("EXPLAIN is only for a SELECT, INSERT, UPDATE or DELETE")


def _parse_tree(text: str, dialect: Dialect) -> exp.Expr:
    try:
        trees = sqlglot.parse(text, dialect=dialect)
    except Exception as error:  # noqa: BLE001 - whatever sqlglot stumbles over is refused
        words = next(iter(str(error).splitlines()), "") or type(error).__name__
        plain = re.sub(chr(27) + r".[0-9;]*m", "", words)
        raise StatementError(f"it cannot be parsed: {plain[:200]}") from None
    if len(trees) != 1 or trees[0] is None:
        raise StatementError("it is not exactly one statement")
    return trees[0]


def _get_verb(tree: exp.Expr, tokens: tuple[Token, ...]) -> str:
    for verb, kind in _WRITE_NODE_BY_VERB.items():
        if isinstance(tree, kind):
            return verb
    if isinstance(tree, exp.Merge):
        raise StatementError(refused_verb_sentence("merge", _CHANGE_VERBS_TEXT))
    inner = tree.find(*WRITE_NODES)
    if inner is not None:
        return _get_verb(inner, tokens)
    if isinstance(tree, (exp.Query, exp.Values)):
        return "select"
    raise StatementError(refused_verb_sentence(tokens[0].word or tokens[0].text, "SELECT"))


def _check_kind(statement: Statement, changes: bool) -> None:
    """Raise StatementError for a kind that this tool does not run, or a change with no table."""
    verb, change = statement.verb, statement.changing_node
    if statement.explain_options is not None and changes:
        raise StatementError("it is EXPLAIN; use the tool query for it")
    if changes == (verb == "select"):
        other = "use the tool query for it" if changes else "use the tool change for it"
        wanted = _CHANGE_VERBS_TEXT if changes else _QUERY_VERBS_TEXT
        raise StatementError(f"it is {verb.upper()}, and only {wanted} is allowed here; {other}")
    if not changes or change is None:
        return
    if statement.target is None:
        raise StatementError("it names no table")
    if change.args.get("alternative"):
        word = str(change.args["alternative"]).upper()
        raise StatementError(
            f"INSERT OR {word} is not allowed: write INSERT … ON CONFLICT (…) DO UPDATE SET …, or "
            "ON CONFLICT DO NOTHING"
        )


def _check_no_server_access(statement: Statement) -> None:
    """Raise StatementError for PostgreSQL functions and tables that reach into the server."""
    if statement.dialect != "postgres":
        return
    for name in sorted(statement.names_before_parentheses):
        if is_unsafe_postgres_function(name):
            raise StatementError(f"the function {name[:60]} is not allowed")
    for table in statement.tree.find_all(exp.Table):
        if table.name.lower().startswith("pg_") or table.db.lower().startswith("pg_"):
            raise StatementError(f"{table.name} is the server's own; the tool tables shows more")
