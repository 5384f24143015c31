"""What the loop, the worker and the Slack edge share: one value, made once in `bot.app`, that owns
no thread.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from bot.clock import Clock
from bot.identity import Identity
from bot.policy.authority import Authority, Directory
from bot.policy.evaluate import Policy
from bot.settings import Settings
from bot.tools import Registry
from storage.store import Store


@dataclass(slots=True)
class Core:
    """The parts everything needs."""

    settings: Settings
    store: Store
    clock: Clock
    policy: Policy
    tools: Registry
    authority: Authority
    directory: Directory
    identity: Identity
    key: bytes
    # what is under way is left for the next start
    stopping: threading.Event = field(default_factory=threading.Event)
    wake: Callable[[], None] = field(default=lambda: None)  # a fact was stored: look
    calm: Callable[[], None] = field(default=lambda: None)  # let what arrives be acknowledged first
    post: Callable[[], None] = field(default=lambda: None)  # the outbox has something: look


def body(text: str) -> dict[str, Any]:
    """A stored JSON object."""
    loaded: dict[str, Any] = json.loads(text)
    return loaded
