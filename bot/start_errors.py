"""Describes the errors that end a start, or a command, in sentences for the operator."""

from __future__ import annotations


def describe_setup_error(error: Exception) -> str | None:
    """Return a sentence for an error in the operator's settings or files; None for any other."""
    from bot.config.settings import SettingsError
    from bot.config.startup import StartupError
    from bot.policy.evaluation import PolicyError
    from bot.runs.surfaces import SurfaceError
    from bot.toolbox import ToolsError

    match error:
        case StartupError() | SettingsError() | PolicyError():
            return str(error)
        case ToolsError() | SurfaceError():
            return f"Countersign cannot start: {error}"
    return None


def describe_start_error(error: Exception) -> str | None:
    """Return a sentence for an error that is no bug (database, Slack, …); None for any other."""
    # here, since these imports are needed only after an error
    import sqlite3

    from slack_sdk.errors import SlackApiError
    from sqlalchemy.exc import DBAPIError

    from bot.slack_codes import describe_error_answer
    from storage.database_errors import OlderRecordError, one_line_driver_error_text
    from storage.sqlite import AlreadyRunningError
    from storage.store import SchemaError

    match error:
        case SchemaError():
            return str(error)
        case AlreadyRunningError():
            return f"{error}."
        case DBAPIError(orig=OlderRecordError()):
            return f"Countersign stops: {error.orig}."
        case DBAPIError() | sqlite3.Error():
            why = one_line_driver_error_text(error)
            return f"The database cannot be used: {why}; `countersign doctor` says what to do."
        case SlackApiError():
            said = describe_error_answer(error)
            return f"{said}; `countersign doctor` says what to do about it."
        case OSError():
            why = error.strerror or str(error)
            what = f"{error.filename}: {why}" if error.filename else why
            return f"This did not work: {what}; see `countersign doctor`."
    return describe_setup_error(error)
