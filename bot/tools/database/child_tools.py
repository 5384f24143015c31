"""The database tools as the bot offers them: each call runs in a child process.

Both sides exchange frames: JSON objects, one a line.
"""

from __future__ import annotations

import json
import logging
import os
import selectors
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass, fields, is_dataclass, replace
from datetime import datetime
from functools import lru_cache, wraps
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from bot.tools import ChangedError, Preview, Table, Tool, ToolContext, ToolError
from bot.tools.database.config import Database
from bot.tools.database.session import Session
from bot.tools.database.sql_tools import build_in_process_database_tools
from bot.tools.database.statement import StatementError

# The frames between the bot and its child process: one line of JSON each, with plain values and
# the dataclasses of `bot.tools`. Pure.

COMMITTING_FRAME = {"committing": True}  # sent before COMMIT: its outcome may then be unknown
_DATACLASS_BY_NAME: dict[str, type[Any]] = {
    each.__name__: each for each in (Preview, Table, ToolContext)
}
# subclasses before their base classes; any other error is unexpected
_KNOWN_ERROR_TYPES: tuple[type[Exception], ...] = (
    StatementError,
    ChangedError,
    ToolError,
    ConnectionError,
    ValueError,
)


def encode_frame(frame: dict[str, Any]) -> bytes:
    """Return a frame (a message of bot or child process) as a line of JSON, in bytes."""
    return json.dumps(frame, default=_encode_value).encode() + b"\n"


def decode_frame(text: bytes) -> dict[str, Any]:
    """Return the frame (message) in a received line; TypeError if it is no JSON object."""
    found = _decode_value(json.loads(text))
    if not isinstance(found, dict):
        raise TypeError("a frame is an object")
    return found


def build_error_frame(error: BaseException) -> dict[str, Any]:
    """Return the frame (message to the bot) that reports a failed call."""
    kind = next((each.__name__ for each in _KNOWN_ERROR_TYPES if isinstance(error, each)), "")
    message, field = str(error) or type(error).__name__, getattr(error, "field", "")
    return {"error": kind, "message": message, "field": field}


def decode_error_frame(answer: dict[str, Any]) -> Exception:
    """Return the exception that a child's frame reports; RuntimeError for an unforeseen kind."""
    kinds = {each.__name__: each for each in _KNOWN_ERROR_TYPES}
    made = kinds.get(answer["error"], RuntimeError)(answer["message"])
    if isinstance(made, ToolError):
        made.field = answer.get("field", "")
    return made


def _encode_value(value: Any) -> Any:
    """Return JSON for a value that has none: dataclass or time with its kind, else as text."""
    if is_dataclass(value) and not isinstance(value, type):
        return {
            "$": type(value).__name__,
            **{each.name: getattr(value, each.name) for each in fields(value)},
        }
    if isinstance(value, datetime):
        return {"$": "datetime", "at": value.isoformat()}
    return str(value)


def _decode_value(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(map(_decode_value, value))
    if not isinstance(value, dict):
        return value
    found = {key: _decode_value(each) for key, each in value.items()}
    kind = found.pop("$", None)
    if kind == "datetime":
        return datetime.fromisoformat(found["at"])
    return _DATACLASS_BY_NAME[kind](**found) if kind else found


# The bot's side of its child processes: started when needed, kept for later calls, killed when
# they take too long. The outcome of a call is never guessed.

MAX_IDLE_PROCESSES = 2
START_TIMEOUT_SECONDS = 30.0
PARSE_TIMEOUT_SECONDS = 3.0
_WITHHELD_VARIABLE_PREFIXES = ("SLACK_", "OPENAI_", "COUNTERSIGN_")  # secrets and settings

log = logging.getLogger("countersign.databases")


class ChildProcess:
    """One child process, which runs calls of the database tools, one at a time."""

    def __init__(self, greeting: bytes) -> None:
        environ = {
            key: each
            for key, each in os.environ.items()
            if not key.startswith(_WITHHELD_VARIABLE_PREFIXES)
        }
        self._process = subprocess.Popen(
            [sys.executable, "-m", "bot.tools.database.child_main"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            start_new_session=True,  # Ctrl-C must reach the bot only, which stops its children
        )
        self._unread_bytes, self._is_unused = b"", True
        self._write(greeting)

    def run_call(self, request: dict[str, Any], seconds: float) -> Any:
        """Send a call and return its result, waiting at most `seconds` (longer for the first call).

        Raises what the call raised; ToolError when the process had to be ended before a COMMIT,
        ConnectionError when a COMMIT was on its way.
        """
        deadline = time.monotonic() + seconds + (START_TIMEOUT_SECONDS if self._is_unused else 0)
        self._is_unused = committing = False
        self._write(encode_frame(request))
        while answer := self._read_frame(deadline) or self._kill_and_read_frame():
            if answer == COMMITTING_FRAME:
                committing = True
                continue
            if answer.get("spent"):
                self.stop()
            if "error" in answer:
                raise decode_error_frame(answer)
            return answer["result"]
        is_late = time.monotonic() >= deadline
        why = f"took longer than {seconds:g} s" if is_late else "ended before it was done"
        if committing:
            raise ConnectionError(f"it {why} at its COMMIT; whether it was made is not known")
        raise ToolError(f"it {why} and was stopped; nothing was changed")

    def _kill_and_read_frame(self) -> dict[str, Any] | None:
        """Kill the process; return the next frame that it had already sent, None if none."""
        self._process.kill()
        self._process.wait()
        return self._read_frame(time.monotonic() + 1)

    def is_alive(self) -> bool:
        """Whether the process is running, so that it can take a call."""
        return self._process.poll() is None

    def stop(self) -> None:
        """Kill the process and close its pipes."""
        self._process.kill()
        self._process.wait()
        for each in (self._process.stdin, self._process.stdout):
            assert each is not None
            try:
                each.close()
            except OSError:  # nobody needs what was not sent
                log.debug("closing a child's pipe failed", exc_info=True)

    def _write(self, text: bytes) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(text)
            self._process.stdin.flush()
        except OSError:  # the process has died, which reading its answer will show
            log.warning("a database process took no call", exc_info=True)

    def _read_frame(self, deadline: float) -> dict[str, Any] | None:
        """Return the next frame; None if none comes in time, or the process has closed its end."""
        assert self._process.stdout is not None
        with selectors.DefaultSelector() as ready:
            ready.register(self._process.stdout, selectors.EVENT_READ)
            while b"\n" not in self._unread_bytes:
                if not ready.select(max(deadline - time.monotonic(), 0)):
                    return None
                more = os.read(self._process.stdout.fileno(), 1 << 16)
                if not more:
                    return None
                self._unread_bytes += more
        text, _, self._unread_bytes = self._unread_bytes.partition(b"\n")
        return decode_frame(text)


class ChildProcessPool:
    """A pool of child processes that run the tools of a set of databases."""

    def __init__(self, databases: Iterable[Database], own: Path | None) -> None:
        """Start no process yet. `own`: the file of Countersign's own database."""
        told = [
            {**each.model_dump(by_alias=True), "url": each.url.get_secret_value()}
            for each in databases
        ]
        self._greeting = encode_frame({"databases": told, "own": str(own) if own else None})
        self._idle: list[ChildProcess] = []
        self._lock = threading.Lock()
        weakref.finalize(self, _stop_child_processes, self._idle)

    def run_call(
        self, act: str, tool: str, args: dict[str, Any], *more: Any, seconds: float
    ) -> Any:
        """Check, preview or run a tool call in a child process; see ChildProcess.run_call."""
        with self._lock:
            child = self._idle.pop() if self._idle else None
        if child is None or not child.is_alive():
            child = ChildProcess(self._greeting)
        try:
            return child.run_call({"act": act, "tool": tool, "args": args, "more": more}, seconds)
        finally:
            self._return_to_pool(child)

    def _return_to_pool(self, child: ChildProcess) -> None:
        with self._lock:
            if child.is_alive() and len(self._idle) < MAX_IDLE_PROCESSES:
                self._idle.append(child)
                return
        child.stop()


def _stop_child_processes(children: list[ChildProcess]) -> None:
    for each in children:
        each.stop()


PREVIEW_TIMEOUT_SECONDS = 8.0  # less than the bot allows for a preview
STOP_MARGIN_SECONDS = 2.0  # how long before the tool's own timeout its process is stopped


@dataclass
class _UnopenedSource:
    """A database that only the child processes open."""

    database: Database

    def open(self, **_limits: Any) -> AbstractContextManager[Session]:
        """Raise ToolError: no database is opened in the bot's own process."""
        raise ToolError(f"the database {self.database.name} is not opened here")


def build_database_tools(
    databases: Iterable[Database], bot_database: Path | None
) -> list[Tool[Any]]:
    """Return the tools for these databases; `bot_database`: Countersign's own file."""
    all_databases = tuple(databases)
    children = ChildProcessPool(all_databases, bot_database)
    check = _build_statement_check(children)
    tools = build_in_process_database_tools(
        {each.name: _UnopenedSource(each) for each in all_databases}, check
    )
    query = next((each for each in tools if each.name == "query"), None)
    return [_build_child_process_tool(each, children, query) for each in tools]


def _build_statement_check(children: ChildProcessPool) -> Callable[..., None]:
    """Return a function that checks a statement; cached, since arguments are validated often."""

    @lru_cache(maxsize=256)
    def refusal(name: str, sql: str, changes: bool) -> str:
        try:
            values = {"database": name, "sql": sql}
            children.run_call(
                "check", "change" if changes else "query", values, seconds=PARSE_TIMEOUT_SECONDS
            )
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


def _build_child_process_tool(
    tool: Tool[Any], children: ChildProcessPool, query: Tool[Any] | None
) -> Tool[Any]:
    """Return the tool with its function and its preview run in a child process.

    `query`: the tool for reading. If policy lets the requester use it, everybody who sees the card
    sees the whole preview.
    """
    make = tool.preview

    @wraps(tool.function)
    def run(args: BaseModel, *more: Any) -> Any:
        seconds = tool.timeout - STOP_MARGIN_SECONDS
        return children.run_call("run", tool.name, args.model_dump(), *more, seconds=seconds)

    if make is None:
        return replace(tool, function=run)

    @wraps(make)
    def preview(args: BaseModel, *more: Any) -> Any:
        values = args.model_dump()
        preview_result = children.run_call(
            "preview", tool.name, values, *more, seconds=PREVIEW_TIMEOUT_SECONDS
        )
        if query is None or preview_result.in_thread is None:
            return preview_result
        query_args = query.arguments.model_construct(database=values["database"], sql="SELECT 1")
        return replace(preview_result, as_read=(query, query_args))

    return replace(tool, function=run, preview=preview)
