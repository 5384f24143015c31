"""What surfaces and sources are, what the bot hands them, and how all of them are made and started.

A surface decides nothing. What its people do becomes a delivery, as Slack's does, and the loop
deals with it; what they are told then stands in the delivery's `answer`. A source only asks.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

from bot.config.entry_points import EntryPointError, LoadedEntryPoint, load_entry_points

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


log = logging.getLogger("countersign.surfaces")


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


class PartKind(StrEnum):
    """What other packages may add."""

    SURFACE = "surface"  # where people see what goes on and decide
    SOURCE = "source"  # what puts calls before people

    @property
    def group(self) -> str:
        """The group of its entry points."""
        return f"countersign.{self}s"


OWN: dict[PartKind, tuple[tuple[str, str], ...]] = {
    PartKind.SURFACE: (("terminal and programs", "bot.http.local_socket:LocalSocket"),),
    PartKind.SOURCE: (),
}


class SurfacesError(ValueError):
    """A surface or a source cannot be used; says which one and why, for who installed it."""


@dataclass(frozen=True, slots=True)
class NamedSurface:
    """A surface or a source under the name of its entry point."""

    name: str
    surface: SurfacePort


def surface_classes(kind: PartKind) -> list[LoadedEntryPoint]:
    """Return the classes of all surfaces, or of all sources; raises SurfacesError."""
    try:
        found = load_entry_points(kind.group, OWN[kind])
    except EntryPointError as error:
        raise SurfacesError(str(error)) from error
    for each in found:
        is_one = all(hasattr(each.value, name) for name in ("start", "stop"))
        if not is_one or not isinstance(each.value, type):
            why = f"is no {kind}: that is a class with start and stop"
            raise SurfacesError(f"{each.name} of {each.source} {why}")
    return found


def made(host: Host) -> tuple[NamedSurface, ...]:
    """Make all of them; raises SurfacesError for one that cannot be made."""
    found = [each for kind in PartKind for each in surface_classes(kind)]
    return tuple(NamedSurface(each.name, _made(each, host)) for each in found)


def _made(each: LoadedEntryPoint, host: Host) -> SurfacePort:
    try:
        surface: SurfacePort = each.value(host)
    except Exception as error:
        why = f"{type(error).__name__}: {error}"
        raise SurfacesError(f"{each.name} of {each.source} cannot be made ({why})") from error
    return surface


def start(surfaces: Sequence[NamedSurface]) -> None:
    """Start them in order; raises SurfacesError for one that does not start."""
    for each in surfaces:
        try:
            each.surface.start()
        except Exception as error:
            why = f"{type(error).__name__}: {error}"
            raise SurfacesError(f"{each.name} does not start ({why})") from error


def stop(surfaces: Sequence[NamedSurface]) -> None:
    """Stop all of them; one that cannot be stopped is told of in the log."""
    for each in surfaces:
        try:
            each.surface.stop()
        except Exception:
            log.exception("the surface %s could not be stopped", each.name)
