"""Requests that a policy prepares for people: a tool, with some of its fields filled in for good.

PURE; whether there is such a tool, with such fields, is looked at where the tools are known.
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict

from bot.policy.gates import Approvers


class Template(BaseModel):
    """One prepared request."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    title: str  # what people choose it by
    tool: str
    fixed: dict[str, Any] = {}  # JSON values by field; nobody who asks can change them
    who: Approvers | None = None  # who may ask for it; None: everybody
    place: str = ""  # where it stands, for messages: file, line, template
