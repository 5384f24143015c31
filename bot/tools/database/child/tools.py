"""The database tools as the bot has them: each does what it does in a child process."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import lru_cache, wraps
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from bot.tools import Tool, ToolError
from bot.tools.database.child.process import PARSING, Children
from bot.tools.database.config import Database
from bot.tools.database.session import Session
from bot.tools.database.sql.tokens import StatementError
from bot.tools.database.tools import local_tools

PREVIEW = 8.0  # seconds, fewer than any preview may take
MARGIN = 2.0  # seconds that are left of a tool's own limit when its process is ended


@dataclass
class _Elsewhere:
    """A database that is opened in a child process alone."""

    database: Database

    def open(self, **_limits: Any) -> AbstractContextManager[Session]:
        """Never: here nothing is read or run."""
        raise ToolError(f"the database {self.database.name} is not opened here")


def database_tools(databases: Iterable[Database], own: Path | None) -> list[Tool[Any]]:
    """The tools over these databases; `own` is the file of Countersign's own."""
    named = tuple(databases)
    children = Children(named, own)
    check = _checking(children)
    found = local_tools({each.name: _Elsewhere(each) for each in named}, check)
    query = next((each for each in found if each.name == "query"), None)
    return [_in_child(each, children, query) for each in found]


def _checking(children: Children) -> Callable[..., None]:
    """Return what checks a statement, each one once: arguments are validated again and again."""

    @lru_cache(maxsize=256)
    def refusal(name: str, sql: str, changes: bool) -> str:
        try:
            values = {"database": name, "sql": sql}
            children.call("check", "change" if changes else "query", values, seconds=PARSING)
        except StatementError as error:
            return str(error)
        return ""

    def check(name: str, sql: str, *, changes: bool) -> None:
        try:
            why = refusal(name, sql, changes)
        except ToolError as error:
            raise StatementError(str(error)) from None
        if why:
            raise StatementError(why)

    return check


def _in_child(tool: Tool[Any], children: Children, query: Tool[Any] | None) -> Tool[Any]:
    """`query`: who may run it unasked may see what a preview keeps from the thread."""
    make = tool.preview

    @wraps(tool.function)
    def run(args: BaseModel, *more: Any) -> Any:
        seconds = tool.timeout - MARGIN
        return children.call("run", tool.name, args.model_dump(), *more, seconds=seconds)

    if make is None:
        return replace(tool, function=run)

    @wraps(make)
    def preview(args: BaseModel, *more: Any) -> Any:
        values = args.model_dump()
        made = children.call("preview", tool.name, values, *more, seconds=PREVIEW)
        if query is None or made.in_thread is None:
            return made
        read = query.arguments.model_construct(database=values["database"], sql="SELECT 1")
        return replace(made, as_read=(query, read))

    return replace(tool, function=run, preview=preview)
