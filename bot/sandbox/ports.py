"""Which port a page is served on."""

from __future__ import annotations

import socket
from contextlib import suppress

PORT = 8765
TRIES = 20  # ports looked at from PORT on


class PortTakenError(Exception):
    """Nothing can be served there; says so in one sentence."""


def free_port(wanted: int | None) -> int:
    """`wanted` (0: any), or the first free port from PORT on; PortTakenError where it is taken."""
    for port in [wanted] if wanted is not None else range(PORT, PORT + TRIES):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            with suppress(OSError, OverflowError):
                probe.bind(("127.0.0.1", port))
                return port
    raise PortTakenError(
        f"port {PORT if wanted is None else wanted} is taken; choose another with --port"
    )
