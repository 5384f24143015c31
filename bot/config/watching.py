"""How the bot is watched while it works: a part of the settings."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field

from bot.watch.logs import LogFormat


class Watching(BaseModel):
    """All of it, as settings: `title` is the variable, the description the sentence for people."""

    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", title="COUNTERSIGN_LOG", description="How much is logged."
    )
    log_format: LogFormat = Field(
        LogFormat.TEXT,
        title="COUNTERSIGN_LOG_FORMAT",
        description="text for people, json for programs: an object on each line.",
    )
