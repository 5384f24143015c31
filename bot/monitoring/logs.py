"""The log: text lines for people or JSON lines for programs, with recognisable secrets masked.

It does not decide what is logged.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, TextIO

from bot.monitoring.spans import get_current_run_and_call_ids, get_current_workspace
from storage.database_errors import error_text, is_temporary_database_error
from storage.masking import mask_secrets, mask_secrets_in_json

_PLAIN_FORMATTER = logging.Formatter()
_TEXT_FORMAT = "%(asctime)s %(levelname)s %(name)s %(message)s"
# Words before placeholders in this project's log templates: "run %s call %s: failed".
_FIELD_BY_WORD = {
    "run": "run_id",
    "call": "call_id",
    "delivery": "delivery",
    "message": "message_id",
}
_PLACEHOLDER_PATTERN = re.compile(
    rf"%%|\b({'|'.join(_FIELD_BY_WORD)}) (?=%[sd])|%[^a-zA-Z%]*[a-zA-Z]"
)


class LogFormat(StrEnum):
    """The format of a log line."""

    TEXT = "text"
    JSON = "json"


class MaskingFilter(logging.Filter):
    """A logging filter that masks secrets in a record and its traceback before they are written.

    It lets every record through. If a database cannot be reached, it leaves out the traceback,
    since every thread reports that every second.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """Mask the record in place and return True."""
        record.__dict__.setdefault("event", mask_secrets(str(record.msg)))
        record.__dict__.setdefault("named", _extract_named_ids(record))
        message = record.getMessage()
        error = record.exc_info[1] if record.exc_info else None
        if error is not None and is_temporary_database_error(error):
            message = f"{message}: {error_text(error)}"
            record.exc_info = record.exc_text = None
        record.msg, record.args = mask_secrets(message), None
        if record.exc_info and not record.exc_text:
            record.exc_text = _PLAIN_FORMATTER.formatException(record.exc_info)
        if record.exc_text:
            record.exc_text = mask_secrets(record.exc_text)
        return True


class TextLineFormatter(logging.Formatter):
    """A formatter that writes a record as a line for people, with its workspace."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        """Return the line, without a traceback."""
        if workspace := get_current_workspace():
            record.message = f"[{workspace}] {record.message}"
        return super().formatMessage(record)


class JsonLineFormatter(logging.Formatter):
    """A formatter that writes a record as one line of JSON; needs the handler's `MaskingFilter`.

    Only fields that this project defines become JSON fields: what a library attaches to its records
    may be anything, and is left out.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as one line of JSON."""
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        run_id, call_id = get_current_run_and_call_ids()
        line: dict[str, Any] = {
            "time": at.replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": record.__dict__.get("event", ""),
        }
        line |= {"workspace": get_current_workspace(), "run_id": run_id, "call_id": call_id}
        line |= record.__dict__.get("named", {})
        line |= mask_secrets_in_json(record.__dict__.get("fact") or {})  # data of an audit row
        line = {name: value for name, value in line.items() if value not in ("", None)}
        line |= {"message": record.getMessage(), "thread": record.threadName}
        if record.exc_text:
            line["exception"] = record.exc_text
        return json.dumps(line, default=str, ensure_ascii=False)


def _extract_named_ids(record: logging.LogRecord) -> dict[str, str]:
    """Return the ids that a log template names (such as "run %s"), by field name."""
    values = record.args
    if not isinstance(record.msg, str) or not values or isinstance(values, Mapping):
        return {}
    ids_by_field: dict[str, str] = {}
    argument_index = 0
    for match in _PLACEHOLDER_PATTERN.finditer(record.msg):
        if match[1] is None:
            argument_index += match[0] != "%%"
        elif argument_index < len(values):
            ids_by_field.setdefault(_FIELD_BY_WORD[match[1]], str(values[argument_index]))
    return ids_by_field


def create_log_handler(form: LogFormat, stream: TextIO | None = None) -> logging.Handler:
    """Return a handler that writes masked log lines to `stream`, by default standard error."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(
        JsonLineFormatter() if form is LogFormat.JSON else TextLineFormatter(_TEXT_FORMAT)
    )
    handler.addFilter(MaskingFilter())
    return handler


def configure_logging(level: str, form: LogFormat) -> None:
    """Configure the root logger to write lines of this level and format to standard error."""
    logging.basicConfig(level=level.upper(), handlers=[create_log_handler(form)])
    if level.upper() == "INFO":  # at this level it writes a line for each time it wakes a thread
        logging.getLogger("apscheduler").setLevel(logging.WARNING)


def mask_root_log_handlers() -> None:
    """Make every handler that the root logger has now mask secrets."""
    for handler in logging.getLogger().handlers:
        if not any(isinstance(each, MaskingFilter) for each in handler.filters):
            handler.addFilter(MaskingFilter())
