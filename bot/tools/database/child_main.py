"""The child process of the database tools: takes calls one after the other and answers them.

It ends when the bot does. After it has run out of memory, its answer tells the bot to end it.
"""

from __future__ import annotations

import os
import queue
import resource
import sys
import threading
from pathlib import Path
from typing import Any, BinaryIO

from bot.tools import Tool
from bot.tools.database import child_tools, sql_tools
from bot.tools.database.config import Database
from bot.tools.database.sources import build_sources

MAX_CALL_MEMORY_BYTES = 400_000_000
OUT_OF_MEMORY_ERROR = (
    "it took more memory than a call may take, and was stopped; nothing was changed"
)


def main() -> None:
    """Answer the bot's calls until it closes the pipe."""
    answers = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)  # keeps what libraries print out of the answers
    lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(
        target=_queue_received_lines, args=(sys.stdin.buffer, lines), daemon=True
    ).start()
    first = child_tools.decode_frame(lines.get())
    databases = [Database.model_validate(each) for each in first["databases"]]
    bot_database = Path(first["own"]) if first["own"] else None

    def announce() -> None:
        answers.write(child_tools.encode_frame(child_tools.COMMITTING_FRAME))

    sources = build_sources(databases, bot_database)
    built_tools = sql_tools.build_in_process_database_tools(sources, announce=announce)
    tools = {each.name: each for each in built_tools}
    _limit_memory()
    while True:
        answers.write(_answer_call(sources, tools, child_tools.decode_frame(lines.get())))


def _queue_received_lines(stream: BinaryIO, lines: queue.SimpleQueue[bytes]) -> None:
    """Put each line from the bot into the queue; exit the process when the bot closes the pipe."""
    for each in stream:
        lines.put(each)
    os._exit(0)


def _limit_memory() -> None:
    """Limit the memory that the process may still allocate (on Linux only)."""
    if (usage := Path("/proc/self/statm")).exists():
        limit = int(usage.read_text().split()[0]) * resource.getpagesize() + MAX_CALL_MEMORY_BYTES
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def _answer_call(
    sources: sql_tools.Sources, tools: dict[str, Tool[Any]], asked: dict[str, Any]
) -> bytes:
    try:
        return child_tools.encode_frame({"result": _run_call(sources, tools, asked)})
    except Exception as error:  # noqa: BLE001 - the bot is told, whatever it was
        if isinstance(error, MemoryError) or "out of memory" in str(error).lower():
            return child_tools.encode_frame(
                {"error": "ToolError", "message": OUT_OF_MEMORY_ERROR, "spent": True}
            )
        return child_tools.encode_frame(child_tools.build_error_frame(error))


def _run_call(
    sources: sql_tools.Sources, tools: dict[str, Tool[Any]], request: dict[str, Any]
) -> Any:
    values = request["args"]
    if request["act"] == "check":
        sql_tools.parse_sql_for_database(
            sources, values["database"], values["sql"], changes=request["tool"] == "change"
        )
        return None
    tool = tools[request["tool"]]
    args = tool.arguments.model_construct(**values)  # they were validated by the bot
    if request["act"] == "preview":
        assert tool.preview is not None
        return tool.preview(args, *request["more"])
    return tool.function(args, *request["more"])


main()
