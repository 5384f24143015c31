"""What a surface and a source are, and what the bot hands them.

A surface decides nothing. What its people do becomes a delivery, as Slack's does, and the loop
deals with it; what they are told then stands in the delivery's `answer`. A source only asks.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:  # it names them, and is imported by what makes them
    from bot.approvals.edits import Edits
    from bot.approvals.permissions import Permissions
    from bot.clock import Clock
    from bot.config.settings import Settings
    from bot.identity import Identity
    from bot.policy.authority import Authority
    from bot.runs.program_requests import ProgramRequests
    from bot.signals import Signals
    from bot.tools import Registry
    from storage.models import Delivery
    from storage.store import Store


@dataclass(frozen=True, slots=True)
class Host:
    """What the bot hands a surface or a source; it may use all of it on threads of its own."""

    settings: Settings
    store: Store  # to read; a surface writes by `keep`
    clock: Clock
    tools: Registry
    identity: Identity  # the workspace, and who the bot is there
    signals: Signals  # `rest` says that something came to its end
    authority: Authority  # who somebody is; asks Slack
    permissions: Permissions  # who may do what to a call; asks Slack
    edits: Edits  # checks what somebody changed, as Slack's dialog does
    keep: Callable[[Delivery], None]  # stores what somebody did, and wakes the loop
    named: Callable[[str], str]  # writes names into the mentions of a text
    programs: ProgramRequests  # puts a call before people, in the name of a colleague


class SurfacePort(Protocol):
    """A place where people see what goes on and decide; one class, made with the `Host`.

    It is found by its entry point in the group `countersign.surfaces`. None of its methods may
    wait for people.
    """

    def __init__(self, host: Host) -> None:
        """Take what it needs; nothing has started yet. What it raises stops the start."""
        ...

    def start(self) -> None:
        """Begin to hear people; where its settings do not want it, do nothing."""
        ...

    def stop(self) -> None:
        """Hear nobody any more; called once, also where `start` was not."""
        ...


class SourcePort(SurfacePort, Protocol):
    """A way in for requests that no person typed and no agent made; it asks by `host.programs`.

    It is found by its entry point in the group `countersign.sources`, and else is as a surface is.
    """
