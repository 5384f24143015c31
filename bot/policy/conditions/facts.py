"""What a policy may know of a call when it judges it.

Plain data; `bot.approvals.facts` fills it in.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any


@dataclass(frozen=True, slots=True, order=True)
class Spent:
    """A sum (or, without a field, a count) over the calls of one tool within a window: those of the
    same requester, or of anyone, and only those that have the same values in some fields.
    """

    tool: str
    field: str  # "" counts calls
    window: int  # seconds
    same: tuple[str, ...] = ()  # fields whose values are as in the call that is judged, sorted
    anyone: bool = False


@dataclass(frozen=True, slots=True)
class Facts:
    """All that a rule may know of a call.

    What could not be had is None, and what needs it cannot be told.
    """

    tool: str
    effect: str
    requester: str
    args: Mapping[str, Any]
    channel: str = ""
    risk: str = "medium"
    client: str = ""  # the name of the key by which a program asks
    now: datetime | None = None
    groups: Mapping[str, frozenset[str] | None] | None = None  # handle without @ -> user ids
    channels: Mapping[str, str | None] | None = None  # #name -> id
    people: Mapping[str, str | None] | None = None  # handle without @ -> user id
    spent: Mapping[Spent, Decimal | None] | None = None
    arguments: str = ""  # `args` as canonical JSON, where a sum compares them with those of others


@dataclass(frozen=True, slots=True)
class Needs:
    """What rules need to know beside the call itself."""

    groups: frozenset[str]  # handles without @
    channels: frozenset[str]  # #names
    spent: frozenset[Spent]
    people: frozenset[str] = frozenset()  # handles without @
