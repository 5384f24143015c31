"""What a change would do, for the card, and that its run does just that.

Both run it and look at all rows that it touches, in every table: a preview in a transaction that is
rolled back, a run before it commits.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any

from bot.tools import Preview, ToolError
from bot.tools.database.rows.change import Change
from bot.tools.database.rows.drawing import Step, counts, drawn, nothing
from bot.tools.database.rows.listing import listed
from bot.tools.database.rows.place import placed
from bot.tools.database.secrets import set_columns, target
from bot.tools.database.session import Session
from bot.tools.database.sql.statement import Statement

_DONE = {"Insert": "Wrote {} into {}", "Delete": "Deleted {} of {}"}  # by the first word of a deed


def observed(session: Session, statements: Sequence[Statement]) -> tuple[Change, ...]:
    """Run the changes of one call in the session's transaction; the rows that each has touched.

    Raises ToolError where one is refused or fails, or where the rows cannot be told.
    """
    for number, each in enumerate(statements, 1):
        with placed(number, statements):
            target(each, session.catalog)
    return session.observe(statements)


def preview_change(session: Session, statements: Sequence[Statement]) -> Preview:
    """Try a change out; the session is left to be rolled back.

    Raises as `observed` does, and ToolError where nothing would change: nobody is asked for that.
    """
    changes = observed(session, statements)
    steps = [
        Step(each.text, each.verb, _set_by(each), change)
        for each, change in zip(statements, changes, strict=True)
    ]
    if not _total(changes):
        raise ToolError(nothing(steps))
    text = drawn(steps)
    rows = listed(steps, text)
    return Preview(text, promised(changes), in_thread=counts(steps), rows=rows)


def _set_by(statement: Statement) -> frozenset[str]:
    return frozenset(each.name.lower() for each in set_columns(statement))


def _total(changes: Sequence[Change]) -> int:
    return sum(each.total for each in changes)


def promised(changes: Sequence[Change]) -> str:
    """What a preview promises, for the run to keep: how many rows, and a digest of all of them."""
    digests = [each.digest() for each in changes]
    whole = digests[0] if len(digests) == 1 else sha256("".join(digests).encode()).hexdigest()
    return f"rows={_total(changes)};{whole}"


def difference(expects: str, changes: Sequence[Change]) -> str:
    """What a person is told of a run that would not keep the promise."""
    shown, total = re.match(r"rows=(\d+);", expects), _total(changes)
    if shown and int(shown[1]) != total:
        now = _rows(total)
        names = dict.fromkeys(each.table for change in changes for each in change.tables)
        return (
            f"It would touch {now} of {' and '.join(names)} now, and {int(shown[1]):,} were shown."
        )
    return "It would now touch other rows, or write other values, than were shown."


def told(changes: Sequence[Change]) -> dict[str, Any]:
    """The result of a change that was made, for the model and for people."""
    targets = [each.target for each in changes]
    result: dict[str, Any] = {"rows": sum(each.total for each in targets)}
    if len(targets) == 1:
        result["table"] = targets[0].table
    else:
        named = enumerate(targets, 1)
        result["statements"] = {f"{number}. {each.table}": each.total for number, each in named}
    others: Counter[str] = Counter()
    for each in changes:
        others.update({table.table: table.total for table in each.tables[1:]})
    return result | ({"also": dict(others)} if others else {})


def changed(args: Any, result: Mapping[str, Any]) -> str:
    """Say for people what a change that was made came to: "Changed 3 rows of orders"."""
    count = _rows(result["rows"])
    if table := result.get("table"):
        done = _DONE.get(args.sql.deed.partition(" ")[0], "Changed {} of {}").format(count, table)
    else:
        done = f"Changed {count} in {len(result['statements'])} steps"
    others = [f"{_rows(number)} of {name}" for name, number in result.get("also", {}).items()]
    also = f", and with that {', '.join(others)}" if others else ""
    return f"{done} in the database {args.database}{also}"


def _rows(number: int) -> str:
    return f"{number:,} row{'s' * (number != 1)}"
