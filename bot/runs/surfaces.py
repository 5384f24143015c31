"""Plug-ins where people see requests and decide (surfaces), or that make requests (sources).

A surface decides nothing. What its people do becomes a delivery, as in Slack, which the loop
processes; the reply to them is then in the delivery's `answer`. A source only asks.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

from bot.config.entry_points import EntryPointError, LoadedEntryPoint, load_entry_points
from storage.record import Delivery, Store

if TYPE_CHECKING:  # only for annotations: the modules that make these import this one
    from bot.approvals.edits import EditHandler
    from bot.approvals.passkeys import PasskeyManager
    from bot.approvals.permissions import PermissionChecker
    from bot.clock import Clock
    from bot.config.settings import Settings
    from bot.identity import Identity
    from bot.policy.authority import Authority
    from bot.runs.program_requests import ProgramRequests
    from bot.signals import Signals
    from bot.tools import Registry


log = logging.getLogger("countersign.surfaces")


@dataclass(frozen=True, slots=True)
class Host:
    """The parts of the bot that a plug-in (surface or source) may use, also on its own threads."""

    settings: Settings
    store: Store  # for reading only; a surface writes with `keep`
    clock: Clock
    tools: Registry
    identity: Identity  # the workspace, and who the bot is there
    signals: Signals  # `rest` is notified when a piece of work has ended
    authority: Authority  # who somebody is; asks Slack
    permissions: PermissionChecker  # who may do what to a call; asks Slack
    edits: EditHandler  # checks edits, as Slack's dialog does
    keep: Callable[[Delivery], None]  # stores what somebody did, and wakes the loop
    add_names: Callable[[str], str]  # adds people's names to the mentions in a text
    programs: ProgramRequests  # asks for approval of a call, in a colleague's name
    passkeys: PasskeyManager  # lists and revokes people's passkeys


class SurfacePort(Protocol):
    """A place where people see requests and decide; its class is called with the `Host`.

    It is found by its entry point in the group `countersign.surfaces`. A source has the same
    methods and the group `countersign.sources`: it makes requests that come from neither a person
    nor an agent, through `host.programs`. None of the methods may wait for people.
    """

    def __init__(self, host: Host) -> None:
        """Keep what is needed of the host, without starting; any error stops the bot's start."""
        ...

    def start(self) -> None:
        """Begin to accept people's input; do nothing if the settings disable this surface."""
        ...

    def stop(self) -> None:
        """Stop accepting input; called once, even if `start` was not."""
        ...


class EntryPointKind(StrEnum):
    """The kinds of plug-ins: surfaces, where people decide, and sources, which make requests."""

    SURFACE = "surface"
    SOURCE = "source"

    @property
    def entry_point_group(self) -> str:
        """Return the name of the entry point group of this kind."""
        return f"countersign.{self}s"


BUILT_IN_ENTRY_POINTS: dict[EntryPointKind, tuple[tuple[str, str], ...]] = {
    EntryPointKind.SURFACE: (("terminal and programs", "bot.http.local_socket:LocalSocket"),),
    EntryPointKind.SOURCE: (),
}


class SurfaceError(ValueError):
    """Raised if a surface or source cannot be used; the text says which one and why."""


@dataclass(frozen=True, slots=True)
class NamedSurface:
    """A surface or a source with the name of its entry point."""

    name: str
    surface: SurfacePort


def load_surface_classes(kind: EntryPointKind) -> list[LoadedEntryPoint]:
    """Return the classes of all surfaces, or of all sources; raises SurfaceError."""
    try:
        found = load_entry_points(kind.entry_point_group, BUILT_IN_ENTRY_POINTS[kind])
    except EntryPointError as error:
        raise SurfaceError(str(error)) from error
    for each in found:
        is_one = all(hasattr(each.value, name) for name in ("start", "stop"))
        if not is_one or not isinstance(each.value, type):
            why = f"is no {kind}: that is a class with start and stop"
            raise SurfaceError(f"{each.name} of {each.source} {why}")
    return found


def create_surfaces(host: Host) -> tuple[NamedSurface, ...]:
    """Create all surfaces and sources; raises SurfaceError if one cannot be created."""
    found = [each for kind in EntryPointKind for each in load_surface_classes(kind)]
    return tuple(NamedSurface(each.name, _create_surface(each, host)) for each in found)


def _create_surface(each: LoadedEntryPoint, host: Host) -> SurfacePort:
    try:
        surface: SurfacePort = each.value(host)
    except Exception as error:
        why = f"{type(error).__name__}: {error}"
        raise SurfaceError(f"{each.name} of {each.source} cannot be made ({why})") from error
    return surface


def start_surfaces(surfaces: Sequence[NamedSurface]) -> None:
    """Start the surfaces in order; raises SurfaceError if one does not start."""
    for each in surfaces:
        try:
            each.surface.start()
        except Exception as error:
            why = f"{type(error).__name__}: {error}"
            raise SurfaceError(f"{each.name} does not start ({why})") from error


def stop_surfaces(surfaces: Sequence[NamedSurface]) -> None:
    """Stop all surfaces; log those that cannot be stopped."""
    for each in surfaces:
        try:
            each.surface.stop()
        except Exception:
            log.exception("the surface %s could not be stopped", each.name)
