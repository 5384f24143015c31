"""Installations to store in tests."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from storage.installations import Installation

AT = datetime(2026, 11, 2, 9, 0, tzinfo=UTC)
MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
TEAM, ORG = "T0ACME", "E0HOLDING"


def installed(workspace: str = TEAM, **given: Any) -> Installation:
    """Build an installation with these columns; the others have defaults."""
    usual = {"name": "Acme", "scopes": "chat:write", "bot_user": "U0BOT", "bot_id": "B0BOT"}
    usual |= {"app_id": "A0APP", "installed_by": "UANA00001"}
    times = {"installed_at": AT, "sealed_tokens": b"sealed", "token_key": "one"}
    return Installation(workspace=workspace, **{**usual, **times, **given})
