"""The log: lines for people or JSON for programs, without the secrets known by their look.

Decides nothing about what is logged.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, TextIO

from bot.monitoring.spans import current_ids
from storage.masking import mask_data, mask_secrets

_PLAIN = logging.Formatter()
_TEXT = "%(asctime)s %(levelname)s %(name)s %(message)s"
# What the lines of this project say of themselves in their templates: "run %s call %s: failed".
_FIELDS = {"run": "run_id", "call": "call_id", "delivery": "delivery", "message": "message_id"}
_NAMED = re.compile(rf"%%|\b({'|'.join(_FIELDS)}) (?=%[sd])|%[^a-zA-Z%]*[a-zA-Z]")


class LogFormat(StrEnum):
    """How a line of the log is written."""

    TEXT = "text"
    JSON = "json"


class Masking(logging.Filter):
    """Masks a record, its traceback too, before the handler it is on writes it.

    Lets every record through.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """True, with the record masked in place."""
        record.__dict__.setdefault("event", mask_secrets(str(record.msg)))
        record.__dict__.setdefault("named", _named(record))
        record.msg, record.args = mask_secrets(record.getMessage()), None
        if record.exc_info and not record.exc_text:
            record.exc_text = _PLAIN.formatException(record.exc_info)
        if record.exc_text:
            record.exc_text = mask_secrets(record.exc_text)
        return True


class JsonLines(logging.Formatter):
    """A record as one JSON object on one line; needs the handler's `Masking`.

    Fields of its own are those that this project names: what a library hangs on its records may be
    anything, and is left out.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        run_id, call_id = current_ids()
        line: dict[str, Any] = {
            "time": at.replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": record.__dict__.get("event", ""),
        }
        line |= {"run_id": run_id, "call_id": call_id} | record.__dict__.get("named", {})
        line |= mask_data(record.__dict__.get("fact") or {})  # of a row of the audit
        line = {name: value for name, value in line.items() if value not in ("", None)}
        line |= {"message": record.getMessage(), "thread": record.threadName}
        if record.exc_text:
            line["exception"] = record.exc_text
        return json.dumps(line, default=str, ensure_ascii=False)


def _named(record: logging.LogRecord) -> dict[str, str]:
    """Return the ids that a line names in its template, whatever its other values say."""
    values = record.args
    if not isinstance(record.msg, str) or not values or isinstance(values, Mapping):
        return {}
    found: dict[str, str] = {}
    place = 0
    for match in _NAMED.finditer(record.msg):
        if match[1] is None:
            place += match[0] != "%%"
        elif place < len(values):
            found.setdefault(_FIELDS[match[1]], str(values[place]))
    return found


def make_handler(form: LogFormat, stream: TextIO | None = None) -> logging.Handler:
    """Make what writes the log to a stream, masked; by itself to standard error."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonLines() if form is LogFormat.JSON else logging.Formatter(_TEXT))
    handler.addFilter(Masking())
    return handler


def write_logs(level: str, form: LogFormat) -> None:
    """Write the log from now on."""
    logging.basicConfig(level=level.upper(), handlers=[make_handler(form)])
    if level.upper() == "INFO":  # a line for each time that it wakes somebody says nothing
        logging.getLogger("apscheduler").setLevel(logging.WARNING)


def mask_logs() -> None:
    """From now on the handlers there are at the root write nothing that looks like a secret."""
    for handler in logging.getLogger().handlers:
        if not any(isinstance(each, Masking) for each in handler.filters):
            handler.addFilter(Masking())
