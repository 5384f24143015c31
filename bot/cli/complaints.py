"""The errors that end a command, as sentences for the person who typed it."""

from __future__ import annotations

import sqlite3

from slack_sdk.errors import SlackApiError
from sqlalchemy.exc import DBAPIError

from bot.config.settings import SettingsError
from bot.config.startup import StartupError
from bot.runs.surfaces import SurfaceError
from bot.toolbox import ToolsError
from storage.sqlite import AlreadyRunningError
from storage.store import SchemaError, driver_error_text


def describe_command_error(error: Exception) -> str | None:
    """Return a sentence for an error that ended a command; None if the error is a bug."""
    match error:
        case StartupError() | SettingsError() | SchemaError():
            return str(error)
        case ToolsError() | SurfaceError():
            return f"Countersign cannot start: {error}"
        case AlreadyRunningError():
            return f"{error}."
        case DBAPIError() | sqlite3.Error():
            why = driver_error_text(error)
            return f"The database cannot be used: {why}; `countersign doctor` says what to do."
        case SlackApiError():
            code = error.response.get("error")
            return f"Slack answers {code}; `countersign doctor` says what to do about it."
        case OSError():
            what = f"{error.filename}: {error.strerror}" if error.filename else str(error)
            return f"Countersign cannot start: {what}; see `countersign doctor`."
    return None
