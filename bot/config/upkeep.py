"""Who looks after the bot on its machine: the part of the settings that the upkeep is."""

from __future__ import annotations

from pydantic import BaseModel, Field


class Upkeep(BaseModel):
    """The upkeep, as settings: `title` is the variable, the description the sentence for people."""

    operator: str | None = Field(
        None,
        title="COUNTERSIGN_OPERATOR",
        pattern="^[UW][A-Z0-9]{2,30}$",
        description="Whom `countersign approve` and `reject` decide for: a Slack user id, U….",
    )
