"""One SQL statement: read by two lexers and a parser, and refused unless every part of it is known
to be harmless.

The text runs exactly as written, so it has to mean the same to the parser as to the database. It
may therefore only use the plain part of SQL's spelling, in which sqlglot, SQLite and PostgreSQL
agree (docs/decisions/0011). It opens no database and knows no table.
"""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from bot.tools.database.sql import Dialect
from bot.tools.database.sql.allowlist import (
    BARE,
    CHANGES,
    FUNCTIONS,
    READS,
    SESSION_WORDS,
    SYNTAX,
    TYPE_WORDS,
    TYPES,
    VOLATILE,
    VOLATILE_TEXTS,
)
from bot.tools.database.sql.reasons import called
from bot.tools.database.sql.tokens import THEN_MINUS, StatementError, Token, lex

# it would log the text of what it cannot parse
logging.getLogger("sqlglot").setLevel(logging.ERROR)

_VERBS = {"select": exp.Query, "insert": exp.Insert, "update": exp.Update, "delete": exp.Delete}


@dataclass(frozen=True)
class Statement:
    """A statement that has passed; `text` is what runs."""

    text: str
    dialect: Dialect
    verb: str  # select, insert, update, delete
    tree: exp.Expr
    tokens: tuple[Token, ...]

    @cached_property
    def target(self) -> exp.Table | None:
        """The table a change is about; None for a query."""
        this = self.tree.this if self.verb != "select" else None
        named = this.this if isinstance(this, exp.Schema) else this
        return named if isinstance(named, exp.Table) else None

    @cached_property
    def volatile(self) -> tuple[str, ...]:
        """The functions in it that give another value each time."""
        called = {each.word for each in self.tokens} & VOLATILE & (self.names | BARE)
        texts = {
            each.text
            for each in self.tokens
            if each.kind == "string" and _names_now(each.text[1:-1].lower())
        }
        return tuple(sorted(called | (texts if self.dialect == "postgres" else set())))

    @cached_property
    def names(self) -> frozenset[str]:
        """The functions it calls, by the names written before a parenthesis."""
        pairs = pairwise(self.tokens)
        return (
            frozenset(here.word for here, after in pairs if here.word and after.text == "(")
            - SYNTAX
            - TYPE_WORDS
        )

    def _outer(self, *words: str, after: int = -1) -> Token | None:
        """The first of these words outside all parentheses."""
        return next(
            (t for t in self.tokens if t.word in words and t.depth == 0 and t.start > after), None
        )

    @cached_property
    def pieces(self) -> tuple[str, str, str]:
        """A change as written, taken apart: its WITH, its table with alias, its WHERE (INSERT: what
        it inserts).
        """
        verb = self._outer(self.verb)
        assert verb is not None
        ahead = self.text[: verb.start]
        if self.verb == "insert":
            source = self._outer("select", "values", "with", after=verb.start)
            return ahead, "", self.text[source.start :] if source else ""
        first = self._outer("set" if self.verb == "update" else "from", after=verb.start)
        where = self._outer("where", after=verb.start)
        tail = self.text[where.start :] if where else ""
        if first is None:
            raise StatementError("it is not complete")
        if self.verb == "update":
            return ahead, self.text[verb.start + len("update") : first.start], tail
        return (
            ahead,
            self.text[first.start + len("from") : where.start if where else len(self.text)],
            tail,
        )


def _names_now(text: str) -> bool:
    """Whether PostgreSQL could read the text as a time that depends on today: 'now', 'tomorrow
    08:00'.
    """
    words = text.split()
    rest = " ".join(each for each in words if each not in VOLATILE_TEXTS)
    return rest != " ".join(words) and (
        not re.search("[a-z]", rest) or bool(re.search("[0-9]", rest)) or rest == "utc"
    )


@lru_cache(maxsize=256)
def parse(text: str, dialect: Dialect, *, changes: bool) -> Statement:
    """The one statement in `text`: a change (INSERT, UPDATE, DELETE), or else a query (SELECT).

    Raises StatementError with the reason, for a person and the model. The text must not end in a
    semicolon.
    """
    tokens = lex(text)
    _agree(text, dialect, tokens)
    try:
        trees = sqlglot.parse(text, dialect=dialect)
    except Exception as error:  # noqa: BLE001 - whatever sqlglot stumbles over is refused
        words = next(iter(str(error).splitlines()), "") or type(error).__name__
        raise StatementError(
            f"it cannot be parsed: {re.sub(chr(27) + r'.[0-9;]*m', '', words)[:200]}"
        ) from None
    if len(trees) != 1 or trees[0] is None:
        raise StatementError("it is not exactly one statement")
    tree = trees[0]
    statement = Statement(text, dialect, _verb(tree, tokens, changes), tree, tokens)
    _nodes(statement)
    _functions(statement)
    if statement.verb != "select":
        _change(statement)
    return statement


def _agree(text: str, dialect: Dialect, tokens: tuple[Token, ...]) -> None:
    """sqlglot must see the same tokens in the same places.

    Ours are spelled so that both databases do.
    """
    try:
        theirs = [each.start for each in sqlglot.tokenize(text, dialect=dialect)]
    except SqlglotError:
        theirs = []
    ours: list[int] = []
    for each in tokens:
        ours.append(each.start)
        if each.text in THEN_MINUS:
            ours.append(each.start + len(each.text) - 1)
    merged = set(ours) - set(theirs)  # sqlglot makes one token of GROUP BY, ORDER BY and the like
    known = {each.start for each in tokens if each.kind == "word"}
    beside = any(here.kind == after.kind == "string" for here, after in pairwise(tokens))
    if set(theirs) - set(ours) or not merged <= known or beside or not tokens:
        raise StatementError("it is empty, or spelled in a way that could be read in two ways")
    for word, instead in (("table", "write SELECT * FROM …"), ("default", "leave the column out")):
        if any(each.word == word for each in tokens):
            raise StatementError(
                f"{word.upper()} is not allowed; {instead}, and quote it where it is a name"
            )


def _verb(tree: exp.Expr, tokens: tuple[Token, ...], changes: bool) -> str:
    wanted = "INSERT, UPDATE or DELETE" if changes else "one SELECT"
    first = next((t.word for t in tokens if t.depth == 0 and t.word in _VERBS), "")
    if tokens[0].word not in (*_VERBS, "with") or not first or not isinstance(tree, _VERBS[first]):
        raise StatementError(f"it begins with {tokens[0].text[:30]}: only {wanted} is allowed here")
    if changes == (first == "select"):
        other = "use the tool query for it" if changes else "use the tool change for it"
        raise StatementError(f"it is {first.upper()}, and only {wanted} is allowed here; {other}")
    return first


def _nodes(statement: Statement) -> None:
    for node in statement.tree.walk():
        if node is statement.tree and type(node) in CHANGES:
            continue
        if isinstance(node, exp.Schema) and node.parent is statement.tree:
            continue
        if not isinstance(node, (*READS, exp.Func)) or isinstance(node, exp.Command):
            raise StatementError(f"{called(node)} is not allowed here")
        if isinstance(node, exp.Select) and not node.expressions:
            raise StatementError("it selects nothing")
        if isinstance(node, exp.Join) and node.args.get("method"):
            raise StatementError("NATURAL JOIN is not allowed; name the columns with ON or USING")
        if isinstance(node, exp.Table):
            extra = {key for key, value in node.args.items() if value} - {
                "this",
                "db",
                "alias",
                "joins",
            }
            if extra or not isinstance(node.this, exp.Identifier):
                raise StatementError("a table may only be written as its name, with an alias")
        if isinstance(node, exp.DataType) and node.this not in TYPES:
            raise StatementError(f"the type {node.sql(statement.dialect)[:60]} is not allowed")
        if isinstance(node, exp.CTE) and not isinstance(node.this, exp.Query):
            raise StatementError("only SELECT may stand in a WITH")


def _functions(statement: Statement) -> None:
    tree, allowed = statement.tree, FUNCTIONS[statement.dialect]
    declared = {each.alias_or_name.lower() for each in tree.find_all(exp.CTE, exp.TableAlias)}
    if statement.target is not None:
        declared.add(statement.target.name.lower())
    for here, after in pairwise(statement.tokens):
        if after.text == "(" and here.kind in ("word", "quoted"):
            name = here.word or here.text[1:-1].replace('""', '"').lower()
            known = name in allowed | SYNTAX | TYPE_WORDS if here.word else False
            if not known and name not in declared:
                raise StatementError(f"the function {name[:60]} is not allowed")
    for node in tree.find_all(exp.Anonymous, exp.AnonymousAggFunc):
        if not isinstance(node.this, str) or node.this.lower() not in allowed:
            raise StatementError(f"the function {str(node.this)[:60]} is not allowed")
    session = {each.word for each in statement.tokens} & SESSION_WORDS
    if statement.dialect == "postgres" and session:
        raise StatementError(
            f"{min(session).upper()} is not allowed; quote it where it is a column"
        )


def _change(statement: Statement) -> None:
    tree, target = statement.tree, statement.target
    if extra := {key for key, value in tree.args.items() if value} - CHANGES[type(tree)]:
        name = {
            "from_": "FROM",
            "conflict": "ON CONFLICT",
            "alternative": "OR …",
            "default": "DEFAULT VALUES",
        }
        word = name.get(min(extra), min(extra).upper().strip("_"))
        raise StatementError(
            f"{word} is not allowed in {statement.verb.upper()}; for rows chosen by another "
            "table write WHERE id IN (SELECT …)"
        )
    if target is None:
        raise StatementError("it names no table")
    if statement.verb == "update":
        for each in tree.expressions:
            if not (
                isinstance(each, exp.EQ)
                and isinstance(each.this, exp.Column)
                and not each.this.table
            ):
                raise StatementError("SET takes column = value, one column at a time")
    if statement.verb == "insert" and not isinstance(tree.this, exp.Schema):
        raise StatementError("name the columns: INSERT INTO table (column, …) …")
    _, where, what = statement.pieces
    if not (what if statement.verb == "insert" else where).strip():
        raise StatementError("it is not complete")
