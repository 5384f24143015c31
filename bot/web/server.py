"""The server: uvicorn on a thread of its own, from before the first request to after the last."""

from __future__ import annotations

import logging
import socket
import threading

from starlette.types import ASGIApp
from uvicorn import Config, Server

from bot.config.connection_settings import Endpoint, reason
from bot.web.patience import Impatient

log = logging.getLogger("countersign.http")
UNDER_WAY = 3  # seconds that answers have to be sent when the server ends
BACKLOG = 1024  # connections that the system keeps for us


class NotListeningError(Exception):
    """An address that cannot be listened to; says which and why."""


class WebServer:
    """One per process; listens from the moment it is made: who connects before `start` waits."""

    def __init__(self, address: Endpoint) -> None:
        """Raises NotListeningError where the address cannot be listened to."""
        self._socket = _listening(address)
        self.address = Endpoint(address.host, self._socket.getsockname()[1])
        self._server: Server | None = None
        self._thread: threading.Thread | None = None

    @property
    def url(self) -> str:
        """Where it listens."""
        host, port = self.address
        return f"http://{f'[{host}]' if ':' in host else host}:{port}"

    def start(self, app: ASGIApp) -> None:
        """Begin to answer."""
        logging.getLogger("uvicorn").setLevel(logging.WARNING)
        config = Config(
            app,
            http=Impatient,
            loop="asyncio",
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            # nothing asks for the other side's address, so no header that names one is believed
            proxy_headers=False,
            server_header=False,
            timeout_graceful_shutdown=UNDER_WAY,
        )
        config.load()
        self._server = Server(config)
        self._thread = threading.Thread(target=self._run, args=(self._server,), name="http")
        self._thread.daemon = True
        self._thread.start()
        log.info("listening at %s", self.url)

    def _run(self, server: Server) -> None:
        server.run(sockets=[self._socket])

    def close(self) -> None:
        """Answer what is under way, then listen no more; returns when that is done."""
        if self._server is None or self._thread is None:
            self._socket.close()
            return
        self._server.should_exit = True
        self._thread.join(UNDER_WAY + 2)


def _listening(address: Endpoint) -> socket.socket:
    """A socket that listens at the address."""
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    try:
        return socket.create_server(address, family=family, backlog=BACKLOG)
    except OSError as error:
        where = f"{address.host}:{address.port}"
        raise NotListeningError(f"{where} cannot be listened to ({reason(error)})") from None
