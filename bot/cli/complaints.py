"""The errors that end a command, as a sentence for whoever typed it."""

from __future__ import annotations

from slack_sdk.errors import SlackApiError

from bot.config.settings import SettingsError
from bot.config.startup import StartupError
from storage.sqlite import AlreadyRunningError
from storage.store import SchemaError


def complaint(error: Exception) -> str | None:
    """Return what to say of `error`; None where it is a fault of the program."""
    match error:
        case StartupError() | SettingsError() | SchemaError():
            return str(error)
        case AlreadyRunningError():
            return "Countersign is already running on this database; stop that one first."
        case SlackApiError():
            code = error.response.get("error")
            return f"Slack answers {code}; `countersign doctor` says what to do about it."
        case OSError():
            return f"Countersign cannot start: {error}; see `countersign doctor`."
    return None
