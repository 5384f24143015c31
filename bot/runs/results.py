"""What a tool's rows look like to people: a short table in the run's thread, and a file when that
does not hold all.

Puts messages into the outbox; draws and sends nothing.
"""

from __future__ import annotations

from itertools import chain

from bot.messages.answers import fits_cell, table_room
from bot.tools import Table, tables
from storage import outbox
from storage.models import Call, Run
from storage.states import MessageKind
from storage.transaction import Transaction

ROWS, COLUMNS = 20, 10  # how much the table shows at most


def put_table(tx: Transaction, run: Run, call: Call, found: Table) -> None:
    """Show the rows `call` found in its thread.

    Nothing where there are none, the call's result says so.
    """
    if not found.rows:
        return
    cells = [[tables.cell(value) for value in row] for row in found.rows]
    columns, shown = found.columns[:COLUMNS], [row[:COLUMNS] for row in cells[:ROWS]]
    shown = shown[: table_room(columns, shown)]
    whole = (
        len(cells) <= len(shown)
        and len(found.columns) <= COLUMNS
        and all(map(fits_cell, chain(columns, *shown)))
    )
    # nobody else's: it is how a lost answer is found
    name = f"{call.tool}-{call.id[:8]}-{call.revision}.csv"
    body = {
        "title": found.title,
        "columns": columns,
        "rows": shown,
        "total": len(cells),
    }
    body |= {"width": len(found.columns), "more": found.more, "file": "" if whole else name}
    outbox.thread(tx, run, f"table:{call.id}:{call.revision}", body, kind=MessageKind.TABLE)
    if not whole:
        file = {"name": name, "title": found.title, "content": tables.csv_text(found)}
        outbox.thread(tx, run, f"file:{call.id}:{call.revision}", file, kind=MessageKind.FILE)
