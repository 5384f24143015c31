"""In whose name, where and why something is asked, for all that is asked within a block.

with asking(run="thread 7", requester="@ben", channel="#support"):
    agent.run(…)
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True, slots=True)
class Circumstances:
    """What a request has beside what is asked.

    `run`: what the work is called, the same in every life of it: what was asked within it once is
    not asked again. `requester`: a Slack user id or @handle. `channel`: an id or #name. `reason`:
    for the approver. `call`: what the run calls this call, where it has names for its calls.
    """

    run: str = ""
    requester: str = ""
    channel: str = ""
    reason: str = ""
    call: str = ""


_NOW: ContextVar[Circumstances] = ContextVar("circumstances", default=Circumstances())  # noqa: B039 # frozen


def current() -> Circumstances:
    """Return the circumstances of this block."""
    return _NOW.get()


@contextmanager
def asking(
    *,
    run: str | None = None,
    requester: str | None = None,
    channel: str | None = None,
    reason: str | None = None,
) -> Iterator[Circumstances]:
    """Have what is asked in this block asked so; what is left out stays as it is around it.

    It holds in tasks and in threads that copy the context (`asyncio.to_thread`), in no others.
    """
    given = {"run": run, "requester": requester, "channel": channel, "reason": reason}
    made = replace(current(), **{name: text for name, text in given.items() if text is not None})
    token = _NOW.set(made)
    try:
        yield made
    finally:
        _NOW.reset(token)


def key_of(run: str, what: str, arguments: Mapping[str, Any]) -> str:
    """Return the idempotency key: the same for the same call in the same run, else a new one."""
    if not run:
        return uuid.uuid4().hex
    body = json.dumps([run, what, arguments], sort_keys=True)
    return hashlib.sha256(body.encode()).hexdigest()
