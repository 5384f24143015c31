"""Who asks the machine what time it is: what ages goes by the clock it was given."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tests.guard.sources import Source, imports

# each with the reason why it may
MAY_ASK = {
    "bot/clock.py": "it is the clock",
    "client/countersign/mcp_client/login.py": "a login outlives the process",
    "bot/monitoring/spans.py": "a default, where nobody gives one: for tests of the log",
    "bot/tools/database/sqlite_changes.py": "it looks for what SQLite took from that clock",
}
MAY_MAKE = {
    "bot/clock.py": "it is the clock",
    "bot/signals.py": "the scheduler goes by the machine's clock; the loop also looks by itself",
}
ASKS = {"now", "utcnow", "today"}
OF_TIME = {"time", "time_ns", "localtime", "gmtime", "ctime", "clock_gettime"}
IN_SQL = ("CURRENT_TIMESTAMP", "strftime(", "unixepoch(", "datetime('now'")
DATES = {"datetime", "date", "dt"}


def wall_clock(source: Source) -> Iterator[str]:
    """What asks the machine what time it is, outside the clock."""
    if source.path.startswith(("sandbox/slack_sandbox/", "bot/demo/")):  # it has a clock of its own
        return
    if source.path not in MAY_MAKE and not source.path.startswith(("bot/cli/", "bot/app.py")):
        for each in imports(source):
            if each.name == "bot.clock.SystemClock":
                yield f"{source}:{each.line}: makes a clock; it is to be given one"
    if source.path in MAY_ASK:
        return
    for each in imports(source):
        if each.name.removeprefix("time.") in OF_TIME and each.name.startswith("time."):
            yield f"{source}:{each.line}: imports {each.name}; ask the clock"
    for node in source.nodes:
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            asked = node.attr in ASKS and node.value.id in DATES
            if asked or (node.attr in OF_TIME and node.value.id == "time"):
                yield f"{source}:{node.lineno}: {node.value.id}.{node.attr}; ask the clock"
        is_record = source.path.startswith("storage/") and isinstance(node, ast.Constant)
        if is_record and any(each in str(node.value) for each in IN_SQL):
            yield f"{source}:{node.lineno}: a statement asks its database's clock"
