"""The digest of a call: what is shown is what runs."""

from __future__ import annotations

from typing import Any

from bot.tools import Tool
from storage.digest import digest
from storage.models import Run


def fingerprint(
    key: bytes, run: Run, tool: Tool[Any], arguments: str, *, gate: str, revision: int, expects: str
) -> str:
    """Return the digest of what would run, for whom, under which gate and with which preview."""
    return digest(
        key,
        tool=tool.name,
        schema=tool.schema_digest(),
        arguments=arguments,
        requester=run.requester,
        team=run.team,
        gate=gate,
        revision=revision,
        expects=expects,
    )
