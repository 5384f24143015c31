"""The tables of errors and methods in the words that the rest of the sandbox uses.

Scopes, requests a minute, required arguments and error codes of every method. No I/O, no state.
"""

from __future__ import annotations

from slack_sandbox.spec.errors import ANYWHERE, ERRORS
from slack_sandbox.spec.table import CHANNEL_KINDS, SPECIAL, TABLE, Facts

__all__ = [
    "ANYWHERE",
    "CHANNEL_KINDS",
    "ERRORS",
    "FACTS",
    "SCOPES",
    "TIERS",
    "Facts",
    "scope_for",
]

_PER_MINUTE = {1: 1, 2: 20, 3: 50, 4: 100, SPECIAL: 600}  # Slack says "several hundred" for special

FACTS: dict[str, Facts] = TABLE
SCOPES: dict[str, tuple[str, ...]] = {method: facts.scopes for method, facts in TABLE.items()}
# requests a minute
TIERS: dict[str, int] = {method: _PER_MINUTE[facts.tier] for method, facts in TABLE.items()}


def scope_for(method: str, kind: str) -> tuple[str, ...]:
    """Return the scopes of which `method` needs one on a conversation of `kind`.

    `kind` is one of CHANNEL_KINDS; many methods have the same scopes for each. KeyError for a
    method that the sandbox does not know, ValueError for a kind that does not exist.
    """
    if kind not in CHANNEL_KINDS:
        raise ValueError(f"no such kind of conversation: {kind}")
    scopes = SCOPES[method]
    return tuple(scope for scope in scopes if scope.split(":")[0] == kind) or scopes
