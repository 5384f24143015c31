"""Bolt's Socket Mode handler, which also says what has arrived and is not acknowledged yet."""

from __future__ import annotations

import errno
import json
import logging
import socket
import threading
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

from slack_bolt import App
from slack_bolt.adapter.socket_mode import SocketModeHandler
from slack_sdk.socket_mode.builtin.client import SocketModeClient
from slack_sdk.socket_mode.builtin.connection import Connection, ConnectionState
from slack_sdk.socket_mode.response import SocketModeResponse

from bot.config.settings import Settings
from bot.config.startup import StartupError
from bot.signals import Arrivals
from bot.slack.echoes import is_echo

log = logging.getLogger("countersign.socket")

# seconds between two pings; the client gives a dead line up after five that failed, and is deaf
# till then
PING = 2.0
# Bytes read at once. The client takes what has arrived apart by recursion, a level for each read:
# with its own 1,024 a burst of some two hundred clicks would reach Python's limit.
BUFFER = 65_536
HELLO, LOOKED_AT = "hello", 200  # the first frame of a connection, and where it says so
GREETED = 5.0  # seconds that Slack may take to say hello
ACKNOWLEDGED = 3.0  # seconds that what has arrived may take before the connection is closed
LOOK = 0.1  # seconds after which the reader looks for a connection that nobody told it of

LINGERING = (1.0, 2.0, 4.0, 8.0)  # seconds between tries while another connection is counted
NOT_ALONE = (
    "another process is connected to Slack with this SLACK_APP_TOKEN, and Slack gives each "
    "delivery to one of the two only; stop it, or set COUNTERSIGN_OTHER_CONNECTIONS=on"
)
ANOTHERS = (
    "SLACK_APP_TOKEN is a token of the app {0}, and SLACK_BOT_TOKEN one of the app {1}: what people"
    " do would never arrive; take both from one app's page at Slack"
)


@dataclass(frozen=True, slots=True)
class Hello:
    """What Slack says first on a connection."""

    connections: int  # of this app, this one included
    app: str  # the id of the app whose token it was; "" where Slack does not say


class _Reading(ConnectionState):
    """Whether the reader of one connection is to end: somebody says so, or the client has another
    connection by now, or is closed for good.

    The client's own flag belongs to a connection, and is put in its place after that; its reader
    sets it back as it begins (slack_sdk 3.47, `connect` and `_run_current_session`). A reader that
    began in between, or as the client was being closed, would wait for ever for a socket that is
    gone, and `close()` for the reader.
    """

    def __init__(self, client: SocketClient, session: Connection) -> None:
        self._client, self._session = client, session
        self._told = client.current_session_state
        self._is_over = False

    @property
    def terminated(self) -> bool:
        """Whether it is."""
        client = self._client
        is_ours = client.current_session is self._session and not client.closed
        return self._is_over or self._told.terminated or not is_ours

    @terminated.setter
    def terminated(self, value: bool) -> None:
        self._is_over = value


class _Line:
    """A connection's socket that raises when the other side has ended it.

    The client's reader takes no bytes for nothing new and asks again at once, without end, until
    its pings are found unanswered (slack_sdk 3.47, `run_until_completion`): ten seconds deaf,
    with a processor kept busy.
    """

    def __init__(self, sock: Any, client: SocketClient) -> None:
        self._sock, self._client = sock, client

    def recv(self, size: int) -> bytes:
        """At most `size` bytes; ConnectionResetError where there will be no more."""
        received: bytes = self._sock.recv(size)
        if not received and not self._client.closed:
            raise ConnectionResetError(errno.ECONNRESET, "the connection was ended without a word")
        return received

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sock, name)


class SocketClient(SocketModeClient):
    """The built-in client, whose `close` returns, and which does not connect again after it."""

    def __init__(self, *args: Any, greeted: Callable[[Hello], None], **options: Any) -> None:
        """`greeted` hears what Slack says first of each connection."""
        self._greeted = greeted
        self._connected = threading.Event()  # there may be a connection that is not read yet
        self.closed = False  # the reader asks before the client has said so
        super().__init__(*args, **options)

    def _on_message(self, message: str) -> None:
        # here, on the reader's thread: nothing that comes after it is dealt with before
        if HELLO in message[:LOOKED_AT] and message.startswith("{"):
            found = json.loads(message)
            if found.get("type") == HELLO:
                app = str((found.get("connection_info") or {}).get("app_id") or "")
                self._greeted(Hello(int(found.get("num_connections", 1)), app))
        super()._on_message(message)

    def connect(self) -> None:
        """Connect, unless it was closed, also while this was going on."""
        if not self.closed:
            super().connect()
            session = self.current_session
            if session is not None and session.sock is not None:
                session.sock = _Line(session.sock, self)  # type: ignore[assignment]  # all of a socket that it uses
            self._connected.set()
        if self.closed:
            self._end()

    def close(self) -> None:
        """Disconnect for good; returns when no thread of the connection is left."""
        with self.connect_operation_lock:  # a reconnection under way comes to its end first
            self.closed = True
            self._connected.set()
            self._end()
        self.message_queue.put(None)  # wakes whoever takes messages, who would wait for a second
        super().close()

    def _run_current_session(self) -> None:
        """The reader's body: each connection from the moment it is there, until all is closed.

        The client's own looks for one ten times a second, for which what Slack says first waits.
        """
        while not self.closed:
            self._connected.wait(LOOK)
            self._connected.clear()
            session = self.current_session
            if session is None or not session.is_active():
                continue
            try:
                session.run_until_completion(_Reading(self, session))
            except Exception:
                log.exception("the connection to Slack could not be read")
                return  # it is called again in a moment

    def _end(self) -> None:
        self.default_auto_reconnect_enabled = self.auto_reconnect_enabled = False
        session = self.current_session
        if session is None:
            return
        try:
            if (sock := session.sock) is not None:
                # wakes the reader, who would wait for Slack up to three seconds
                sock.shutdown(socket.SHUT_RDWR)
        except OSError as error:
            log.debug("waking the reader: %s", error)
        session.close()


class SocketMode(SocketModeHandler):
    """One connection to Slack."""

    def __init__(
        self,
        app: App,
        token: str,
        arrivals: Arrivals,
        own: Collection[str] = (),
        own_app: str = "",
    ) -> None:
        """`token` is the app-level one; `arrivals` counts what is not acknowledged yet.

        `own`: the ids that the bot has as a user and as a bot. `own_app`: the id of the app that
        the bot's token is of; "" where that is not known.
        """
        self._arrivals = arrivals
        self._own, self._own_app = own, own_app
        self._shut = threading.Event()  # nothing more is taken in
        self._is_greeted = threading.Event()
        self._allowed = True  # that there are others
        self.others = 0  # connections that other processes have with this token
        self.stranger = ""  # the id of the app that the token is of, where that is another one
        self.app, self.app_token = app, token
        self.client = SocketClient(
            token,
            app.logger,
            app.client,
            proxy=app.client.proxy,
            ping_interval=PING,
            receive_buffer_size=BUFFER,
            greeted=self._greeted,
        )
        self.client.socket_mode_request_listeners.append(self.handle)

    def connect_alone(self, *, allowed: bool) -> bool:
        """Connect; whether nobody else is connected with this token, or that is `allowed`.

        Where it is neither, nothing that arrives is taken in, nor where the token is another app's.
        """
        self._allowed = allowed
        self.connect()  # type: ignore[no-untyped-call]  # Bolt's own signature
        if not self._is_greeted.wait(GREETED):
            log.warning("Slack has not said hello within %g seconds", GREETED)
        return allowed or not self.others

    def _greeted(self, hello: Hello) -> None:
        """Slack says how many there are; one that is made anew overlaps with its predecessor."""
        own = 2 if self._is_greeted.is_set() else 1
        if hello.app and self._own_app and hello.app != self._own_app:
            self.stranger = hello.app
            self._shut.set()
        connections = hello.connections
        self.others = max(0, connections - own)
        if self.others:
            log.log(
                logging.INFO if self._allowed else logging.ERROR,
                "Slack counts %d connections of this app: each delivery goes to one of them",
                connections,
            )
            if own == 1 and not self._allowed:
                self._shut.set()
        self._is_greeted.set()

    def handle(self, client: Any, req: Any) -> None:
        """One delivery, up to its acknowledgement; none any more once this is being closed."""
        with self._arrivals.one():
            if self._shut.is_set():
                return
            if is_echo(req.payload, self._own):
                client.send_socket_mode_response(SocketModeResponse(req.envelope_id))
            else:
                super().handle(client, req)

    def close(self) -> None:
        """Disconnect for good; returns when no thread of the connection is left. Raises nothing.

        What is being stored is acknowledged first; what comes later Slack delivers again, or tells
        the person that it did not arrive.
        """
        self._shut.set()
        self._arrivals.wait(ACKNOWLEDGED)
        try:
            self.client.close()
        except Exception as error:  # noqa: BLE001 - the client may raise here
            log.debug("closing the connection: %s", error)


def connect_alone(
    app: App,
    settings: Settings,
    arrivals: Arrivals,
    ended: threading.Event,
    own: Collection[str] = (),
    own_app: str = "",
) -> SocketMode:
    """Return a connection to Slack that is the only one with this app's token.

    `own`: the ids of the bot, whose echoes are acknowledged and no more; `own_app`: its app's.

    Raises StartupError where another process keeps one, unless the settings allow it; one that has
    just died may still count for a while. Raises it as well where the token is another app's.
    """
    token, allowed = settings.slack_app_token.get_secret_value(), settings.other_connections
    for pause in (0.0, *LINGERING):
        ended.wait(pause)
        made = SocketMode(app, token, arrivals, own, own_app)
        is_alone = made.connect_alone(allowed=allowed)
        if is_alone and not made.stranger:
            return made
        made.close()
        if made.stranger:
            raise StartupError([ANOTHERS.format(made.stranger, own_app)], ())
    raise StartupError([NOT_ALONE], ())
