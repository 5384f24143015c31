"""The terminal as a surface: one class, with a door at which the operator's commands are heard."""

from __future__ import annotations

from bot.surfaces.port import Host
from bot.terminal.door import Door
from bot.terminal.terminal import Terminal
from bot.terminal.wire import socket_path


class TerminalSurface:
    """Heard while the settings name an operator; the entry point `terminal`."""

    def __init__(self, host: Host) -> None:
        """Nobody is heard yet."""
        operator = host.settings.operator
        terminal = Terminal(host, operator) if operator is not None else None
        self._door = Door(socket_path(host.store.path), terminal)

    def start(self) -> None:
        """Hear the operator; without one, do nothing."""
        self._door.open()

    def stop(self) -> None:
        """Hear nobody any more; what is stored stays."""
        self._door.close()
