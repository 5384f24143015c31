"""How much one run and one person may use: the part of the settings that the limits are."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, Field

Count = Annotated[int, Field(ge=1, le=1_000_000)]


class Limits(BaseModel):
    """The limits, as settings: `title` is the variable, the description the sentence for people."""

    max_turns: Count = Field(
        20, title="COUNTERSIGN_MAX_TURNS", description="How often one run may ask the model."
    )
    max_calls: Count = Field(
        50, title="COUNTERSIGN_MAX_CALLS", description="How many tool calls one run may propose."
    )
    max_rounds: Count = Field(
        3, title="COUNTERSIGN_MAX_ROUNDS", description="How often one plan may be sent back."
    )
    max_cards: Count = Field(
        10, title="COUNTERSIGN_MAX_CARDS", description="How many plans one run may show people."
    )
    max_depth: int = Field(
        2,
        title="COUNTERSIGN_MAX_DEPTH",
        ge=0,
        le=5,
        description="How many sub-agents may stand one below the other; 0 for none at all.",
    )
    max_tokens: int = Field(
        200_000,
        title="COUNTERSIGN_MAX_TOKENS",
        ge=1000,
        le=1_000_000_000,
        description="How many tokens, in and out, one run may use.",
    )
    max_pending: Count = Field(
        20, title="COUNTERSIGN_MAX_PENDING", description="Undecided calls of one requester."
    )
    max_asked_per_hour: Count = Field(
        60,
        title="COUNTERSIGN_MAX_ASKED_PER_HOUR",
        description="About how many calls of one requester people are asked within an hour.",
    )
    max_tokens_per_day: int = Field(
        2_000_000,
        title="COUNTERSIGN_MAX_TOKENS_PER_DAY",
        ge=1000,
        le=1_000_000_000,
        description="How many tokens, in and out, the requests of one person may use in 24 hours.",
    )
