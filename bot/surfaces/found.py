"""Which surfaces there are, made, started and stopped together."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from bot.config.entry_points import Added, EntryPointError, added
from bot.surfaces.port import Host, SurfacePort

log = logging.getLogger("countersign.surfaces")
GROUP = "countersign.surfaces"
OWN = (("terminal", "bot.terminal.surface:TerminalSurface"),)


class SurfacesError(ValueError):
    """A surface cannot be used; says which one, and why, for who installed it."""


@dataclass(frozen=True, slots=True)
class NamedSurface:
    """A surface under the name of its entry point."""

    name: str
    surface: SurfacePort


def surface_classes() -> list[Added]:
    """Return the classes of all surfaces; raises SurfacesError."""
    try:
        found = added(GROUP, OWN)
    except EntryPointError as error:
        raise SurfacesError(str(error)) from error
    for each in found:
        is_one = all(hasattr(each.value, name) for name in ("start", "stop"))
        if not is_one or not isinstance(each.value, type):
            why = "is no surface: that is a class with start and stop"
            raise SurfacesError(f"{each.name} of {each.source} {why}")
    return found


def made(host: Host) -> tuple[NamedSurface, ...]:
    """Make all of them; raises SurfacesError for one that cannot be made."""
    return tuple(NamedSurface(each.name, _made(each, host)) for each in surface_classes())


def _made(each: Added, host: Host) -> SurfacePort:
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
