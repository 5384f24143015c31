"""Which surfaces and sources there are, made, started and stopped together."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from bot.config.entry_points import EntryPointError, LoadedEntryPoint, load_entry_points
from bot.surfaces.port import Host, SurfacePort

log = logging.getLogger("countersign.surfaces")


class PartKind(StrEnum):
    """What other packages may add."""

    SURFACE = "surface"  # where people see what goes on and decide
    SOURCE = "source"  # what puts calls before people

    @property
    def group(self) -> str:
        """The group of its entry points."""
        return f"countersign.{self}s"


OWN = {
    PartKind.SURFACE: (("terminal", "bot.terminal.surface:TerminalSurface"),),
    PartKind.SOURCE: (("programs", "bot.programs.endpoint:ProgramsDoor"),),
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
