"""What goes on beside the requests, begun and ended together."""

from __future__ import annotations

from dataclasses import dataclass

from bot.surfaces.found import NamedSurface, start, stop
from bot.upkeep.purging import Purging


@dataclass(frozen=True, slots=True)
class Upkeep:
    """All of it. `start` once, `stop` once."""

    surfaces: tuple[NamedSurface, ...]
    purging: Purging

    def start(self) -> None:
        """Hear people at every surface beside Slack, and purge every day, as the settings want it.

        Raises SurfacesError for a surface that does not start.
        """
        start(self.surfaces)
        self.purging.start()

    def stop(self) -> None:
        """End both."""
        stop(self.surfaces)
        self.purging.stop()
