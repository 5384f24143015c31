"""What a change would do, for the card, and that its run does just that.

Both run it and look at all rows that it touches, in every table: a preview in a transaction that is
rolled back, a run before it commits.
"""

from __future__ import annotations

import re
from typing import Any

from bot.tools import Preview, ToolError
from bot.tools.database.rows.change import Change
from bot.tools.database.rows.drawing import counts, drawn, nothing
from bot.tools.database.secrets import set_columns, target
from bot.tools.database.session import Session
from bot.tools.database.sql.statement import Statement


def observed(session: Session, statement: Statement) -> Change:
    """Run a change in the session's transaction; the rows it has touched.

    Raises ToolError where it is refused or fails, or where the rows cannot be told.
    """
    target(statement, session.catalog)
    return session.observe(statement)


def preview_change(session: Session, statement: Statement) -> Preview:
    """Try the change out; the session is left to be rolled back.

    Raises as `observed` does, and ToolError where nothing would change: nobody is asked for that.
    """
    change = observed(session, statement)
    if not change.total:
        raise ToolError(nothing(change, statement.verb))
    set_here = frozenset(each.name.lower() for each in set_columns(statement))
    text = drawn(change, statement.verb, set_here)
    return Preview(text, promised(change), in_thread=counts(change, statement.verb))


def promised(change: Change) -> str:
    """What a preview promises, for the run to keep: how many rows, and a digest of all of them."""
    return f"rows={change.total};{change.digest()}"


def difference(expects: str, change: Change) -> str:
    """What a person is told of a run that would not keep the promise."""
    shown = re.match(r"rows=(\d+);", expects)
    if shown and int(shown[1]) != change.total:
        now = f"{change.total:,} row{'s' * (change.total != 1)}"
        names = " and ".join(each.table for each in change.tables)
        return f"It would touch {now} of {names} now, and {int(shown[1]):,} were shown."
    return "It would now touch other rows, or write other values, than were shown."


def told(change: Change) -> dict[str, Any]:
    """The result of a change that was made, for the model and for people."""
    result: dict[str, Any] = {"rows": change.target.total, "table": change.target.table}
    if others := {each.table: each.total for each in change.tables[1:]}:
        result["also"] = others
    return result
