"""How the bot is watched while it works: a part of the settings."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field, field_validator

from bot.config.environment import split
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
    traces: str | None = Field(
        None,
        title="COUNTERSIGN_TRACES",
        description="Where a collector takes traces, OTLP over HTTP, ending in /v1/traces.",
    )

    @field_validator("traces")
    @classmethod
    def _collector(cls, value: str | None) -> str | None:
        if value is not None:
            parts = split(value)
            odd = parts.query or parts.fragment or parts.username or parts.password
            if parts.scheme not in ("https", "http") or not parts.hostname or odd:
                raise ValueError("it is not a plain http(s) address")
        return value
