"""Which port a page is served on."""

from __future__ import annotations

import random
import socket

DEFAULT_PORT = 8765
MAX_PORT = 65535
MAX_PORTS_TRIED = 20
# those below the ones that the system itself gives to connections and to servers at port 0
UNASSIGNED_PORTS = range(10_000, 32_000)


class PortTakenError(Exception):
    """Raised if nothing can be served at a port; the text is one sentence."""


def free_port(wanted: int | None) -> int:
    """`wanted` (0: any), or the first free one from DEFAULT_PORT on; PortTakenError if taken."""
    if wanted is None:
        return first_free(DEFAULT_PORT)
    if not 0 <= wanted <= MAX_PORT:
        raise PortTakenError(f"{wanted} is not a port; give one from 0 to {MAX_PORT} with --port")
    if not _is_free(wanted):
        raise PortTakenError(f"port {wanted} is taken; choose another with --port")
    return wanted


def first_free(port: int) -> int:
    """Return the first free port from `port` on; raises PortTakenError if none is near it."""
    for each in range(port, port + MAX_PORTS_TRIED):
        if _is_free(each):
            return each
    raise PortTakenError(f"port {port} is taken; choose another with --port")


def any_free(among: range = UNASSIGNED_PORTS) -> int:
    """Return a port that is free and stays so until a server listens there.

    For addresses that have to be known before the server listens. The system gives a port of its
    own range to the next connection that asks for one; these it gives to nobody.
    """
    chance = random.SystemRandom()  # processes of one parent do not choose the same
    return next(port for port in iter(lambda: chance.choice(among), None) if _is_free(port))


def _is_free(port: int) -> bool:
    """Whether the port is free; raises PortTakenError if this user may not listen there."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except PermissionError:
            why = f"port {port} is not for this user; choose one above 1023 with --port"
            raise PortTakenError(why) from None
        except OSError:
            return False
    return True
