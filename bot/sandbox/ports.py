"""Which port a page is served on."""

from __future__ import annotations

import socket

PORT, HIGHEST = 8765, 65535
TRIES = 20  # ports looked at from PORT on


class PortTakenError(Exception):
    """Nothing can be served there; says so in one sentence."""


def free_port(wanted: int | None) -> int:
    """`wanted` (0: any), or the first free port from PORT on; PortTakenError where it is taken."""
    if wanted is not None and not 0 <= wanted <= HIGHEST:
        raise PortTakenError(f"{wanted} is no port; give one from 0 to {HIGHEST} with --port")
    for port in [wanted] if wanted is not None else range(PORT, PORT + TRIES):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except PermissionError:
                why = f"port {port} is not for this user; choose one above 1023 with --port"
                raise PortTakenError(why) from None
            except OSError:
                continue
            return port
    raise PortTakenError(
        f"port {PORT if wanted is None else wanted} is taken; choose another with --port"
    )
