"""Facts about the Web API methods the sandbox answers: scopes, requests a minute, required
arguments, error codes.

Puts the tables of method_table and method_errors into the words the rest of the sandbox uses. No
I/O, no state.
"""

from __future__ import annotations

from bot.sandbox.spec.errors import ANYWHERE, ERRORS
from bot.sandbox.spec.table import (
    CHANNEL_KINDS,
    MAY_BE_EMPTY,
    SPECIAL,
    TABLE,
    WORDS_FOR_MISSING,
    Facts,
)
from bot.sandbox.web_api.arguments import Args, SlackError, invalid

__all__ = [
    "ANYWHERE",
    "CHANNEL_KINDS",
    "ERRORS",
    "FACTS",
    "SCOPES",
    "TIERS",
    "Facts",
    "check_required",
    "scope_for",
]

_PER_MINUTE = {1: 1, 2: 20, 3: 50, 4: 100, SPECIAL: 600}  # special: "several hundred"

FACTS: dict[str, Facts] = TABLE
SCOPES: dict[str, tuple[str, ...]] = {method: facts.scopes for method, facts in TABLE.items()}
# requests a minute
TIERS: dict[str, int] = {method: _PER_MINUTE[facts.tier] for method, facts in TABLE.items()}


def scope_for(method: str, kind: str) -> tuple[str, ...]:
    """The scopes of which one is needed to use `method` on a conversation of `kind` (one of
    CHANNEL_KINDS).

    Methods whose scopes do not depend on the kind of conversation give the same for each. KeyError
    for a method the sandbox does not know, ValueError for a kind that does not exist.
    """
    if kind not in CHANNEL_KINDS:
        raise ValueError(f"no such kind of conversation: {kind}")
    scopes = SCOPES[method]
    return tuple(scope for scope in scopes if scope.split(":")[0] == kind) or scopes


def check_required(method: str, args: Args) -> None:
    """SlackError unless the call has every argument that the method cannot do without.

    Slack has words of its own for some; all others are listed in one invalid_arguments.
    """
    empty = {
        name: (None,) if name in MAY_BE_EMPTY else (None, "") for name in FACTS[method].required
    }
    missing = [name for name, nothing in empty.items() if args.values.get(name) in nothing]
    words = [
        WORDS_FOR_MISSING[method, name] for name in missing if (method, name) in WORDS_FOR_MISSING
    ]
    unnamed = [name for name in missing if (method, name) not in WORDS_FOR_MISSING]
    if unnamed:
        raise invalid([f"missing required field: {name}" for name in unnamed])
    if words:
        raise SlackError(words[0])
