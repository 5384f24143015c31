"""Client for programs that ask people for approval over HTTP before they act.

from countersign import Countersign, countersigned

Each name below is imported when it is first used, so that the command line starts without it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from countersign.client import Countersign
    from countersign.context import asking
    from countersign.decorated import countersigned
    from countersign.request import (
        AlreadyTaken,
        CountersignError,
        DidNotWork,
        Does,
        Expired,
        Handout,
        NotAllowed,
        NotVerified,
        OwnAction,
        Rejected,
        Request,
        RequestStatus,
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
    "NotVerified",
    "OwnAction",
    "Rejected",
    "Request",
    "RequestStatus",
    "Undecided",
    "Unreachable",
    "asking",
    "countersigned",
]
_MODULE_BY_NAME = {"Countersign": "client", "asking": "context", "countersigned": "decorated"}


def __getattr__(name: str) -> Any:
    """Import a name of `__all__` from its module when it is used; AttributeError for any other."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULE_BY_NAME.get(name, 'request')}"), name)
