"""The digest of a call: what is shown is what runs."""

from __future__ import annotations

from typing import Any

from bot.tools import Registry, Tool
from storage import calls
from storage.chain import key_of
from storage.digest import digest
from storage.models import Call, Run
from storage.transaction import Transaction


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


def as_asked_again(tx: Transaction, key: bytes, run: Run, call: Call, tools: Registry) -> str:
    """Return the digest of the call's next revision, of the same arguments; "" for no tool."""
    tool, current = tools.of(call), calls.revision(tx, call.id, call.revision)
    if tool is None or current is None:
        return ""
    return fingerprint(
        key_of(key, call.key_id),
        run,
        tool,
        current.arguments,
        gate=call.gate,
        revision=call.revision + 1,
        expects=call.expects,
    )
