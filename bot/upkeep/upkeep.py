"""What goes on beside the requests, begun and ended together."""

from __future__ import annotations

from dataclasses import dataclass

from bot.terminal.door import Door
from bot.upkeep.purging import Purging


@dataclass(frozen=True, slots=True)
class Upkeep:
    """All of it. `start` once, `stop` once."""

    door: Door
    purging: Purging

    def start(self) -> None:
        """Hear the operator, and purge every day, as far as the settings want it."""
        self.door.open()
        self.purging.start()

    def stop(self) -> None:
        """End both."""
        self.door.close()
        self.purging.stop()
