"""The model that plans, and how it is asked: a part of the settings."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Literal

from pydantic import BaseModel, Field, SecretStr, field_validator

from bot.config.connection_settings import MISSING

SECONDS_MIN = 0.05  # below this a loop would spin


class ModelApi(StrEnum):
    """What the model's server speaks."""

    RESPONSES = "responses"  # OpenAI's Responses API
    CHAT = "chat"  # Chat Completions, which most other servers speak
    AUTO = "auto"  # the first of them that it has


class FilesGiven(StrEnum):
    """Which of the files that people attach the model is given."""

    ON = "on"  # pictures, PDFs and texts
    TEXT = "text"  # texts alone
    OFF = "off"  # none


class Model(BaseModel):
    """All of it, as settings: `title` is the variable, the description the sentence for people."""

    openai_api_key: SecretStr = Field(
        MISSING,
        title="OPENAI_API_KEY",
        description="The key of the model's API; any word if your server needs none. "
        "Unset: no model, people ask with forms.",
    )
    openai_base_url: str | None = Field(
        None,
        title="OPENAI_BASE_URL",
        description="Another server that speaks the Responses API or Chat Completions, up to /v1.",
    )
    openai_api: ModelApi = Field(
        ModelApi.AUTO,
        title="OPENAI_API",
        description="What that server speaks: responses, chat (Chat Completions), or auto: "
        "whichever it has.",
    )
    openai_model: str = Field(
        "gpt-5.1",
        title="OPENAI_MODEL",
        min_length=1,
        max_length=200,
        description="The name of the model that plans.",
    )
    context_tokens: int | None = Field(
        None,
        title="COUNTERSIGN_CONTEXT_TOKENS",
        ge=1000,
        le=100_000_000,
        description="How many tokens the model reads at once; unset: as its server says when it "
        "refuses.",
    )
    attached_files: FilesGiven = Field(
        FilesGiven.ON,
        title="COUNTERSIGN_FILES",
        description="Which of the files that people attach the model is given: on (pictures, PDFs "
        "and texts), text, or off.",
    )
    reasoning_effort: Literal["none", "minimal", "low", "medium", "high"] | None = Field(
        None,
        title="COUNTERSIGN_REASONING_EFFORT",
        description="How long the model thinks; unset: its own default.",
    )
    model_timeout: float = Field(
        120.0,
        title="COUNTERSIGN_MODEL_TIMEOUT",
        ge=SECONDS_MIN,
        le=3600,
        description="Seconds without a sign of the model before a request is given up.",
    )
    model_retries: int = Field(
        4,
        title="COUNTERSIGN_MODEL_RETRIES",
        ge=0,
        le=20,
        description="How often a failed request is repeated.",
    )
    model_backoff: float = Field(
        1.0,
        title="COUNTERSIGN_MODEL_BACKOFF",
        ge=0,
        le=60,
        description="Seconds before the first repetition; doubled each time.",
    )

    @property
    def has_model(self) -> bool:
        """Whether there is a model to read what people write."""
        return bool(self.openai_api_key.get_secret_value())

    @field_validator("openai_api_key")
    @classmethod
    def _api_key(cls, value: SecretStr) -> SecretStr:
        if value is not MISSING and not re.fullmatch(r"[!-~]+", value.get_secret_value()):
            raise ValueError("it is empty, or holds characters that no key has")
        return value
