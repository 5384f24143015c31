"""Who looks after the bot on its machine, and how long it remembers: a part of the settings."""

from __future__ import annotations

from pydantic import BaseModel, Field

LEAST = 90  # days that are kept: rules may count what was done that long ago


class Keeping(BaseModel):
    """All of it, as settings: `title` is the variable, the description the sentence for people."""

    operator: str | None = Field(
        None,
        title="COUNTERSIGN_OPERATOR",
        pattern="^[UW][A-Z0-9]{2,30}$",
        description="Whom `countersign approve` and `reject` decide for: a Slack user id, U….",
    )
    keep_days: int | None = Field(
        None,
        title="COUNTERSIGN_KEEP_DAYS",
        ge=LEAST,
        le=36_500,
        description="After how many days what was said in a request is purged; unset: never.",
    )
