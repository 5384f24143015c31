"""For programs that ask people by HTTP before they act; imports nothing else of the bot.

from bot.client import Countersign, countersigned
"""

from bot.client.circumstances import asking
from bot.client.countersign import Countersign
from bot.client.decorated import countersigned
from bot.client.request import Does, Handout, OwnAction, Request, RequestStatus
from bot.client.troubles import (
    AlreadyTaken,
    CountersignError,
    DidNotWork,
    Expired,
    NotAllowed,
    Rejected,
    Undecided,
    Unreachable,
)

__all__ = [
    "AlreadyTaken",
    "Countersign",
    "CountersignError",
    "DidNotWork",
    "Does",
    "Expired",
    "Handout",
    "NotAllowed",
    "OwnAction",
    "Rejected",
    "Request",
    "RequestStatus",
    "Undecided",
    "Unreachable",
    "asking",
    "countersigned",
]
