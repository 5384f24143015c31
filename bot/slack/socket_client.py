"""The Socket Mode client, which opens and reads a new connection before it closes the old one.

Each envelope is acknowledged on the connection that it came by, as long as that one exists.
"""

from __future__ import annotations

import json
import logging
import socket
import struct
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from slack_sdk import WebClient
from slack_sdk.errors import SlackApiError, SlackClientNotConnectedError
from slack_sdk.proxy_env_variable_loader import load_http_proxy_from_env
from slack_sdk.socket_mode.builtin.connection import Connection
from slack_sdk.socket_mode.builtin.frame_header import FrameHeader
from slack_sdk.socket_mode.builtin.internals import _build_data_frame_for_sending as frame_of
from slack_sdk.socket_mode.client import BaseSocketModeClient
from slack_sdk.socket_mode.request import SocketModeRequest
from slack_sdk.socket_mode.response import SocketModeResponse

from bot.slack.client import get_retry_after_seconds, is_rate_limited
from bot.slack.websocket_frames import MessageSocket

# One WebSocket to Slack: read by its own thread, and ended with a close frame.

log = logging.getLogger("countersign.socket")


Json = dict[str, Any]
NORMAL_CLOSE_CODE = 1000  # in a close frame


class _ReaderStopFlag:
    """The flag that slack_sdk's read loop checks to know whether it has to end."""

    def __init__(self, line: SlackWebSocketConnection) -> None:
        self._line, self._is_over = line, False

    @property
    def terminated(self) -> bool:
        """Whether to stop reading: the library asked for it, or the connection has ended."""
        return self._is_over or not self._line.is_active()

    @terminated.setter
    def terminated(self, value: bool) -> None:
        self._is_over = value


class SlackWebSocketConnection(Connection):
    """A WebSocket connection from its handshake to its close frame.

    `close` and `disconnect` may be called from any thread, and wait for no reader.
    """

    def __init__(
        self,
        url: str,
        *,
        handle_message: Callable[[SlackWebSocketConnection, Json], None],
        ended: Callable[[SlackWebSocketConnection], None],
        **options: Any,
    ) -> None:
        """`handle_message` gets each message, on the reader's thread; `ended` is called last.

        Neither may wait.
        """
        super().__init__(
            url,
            on_message_listener=self._handle_text,
            on_error_listener=self._log_error,
            on_close_listener=lambda *_: self.send_close_frame(),
            **options,
        )
        self._handle_message, self._handle_end = handle_message, ended
        self._unanswered: set[str] = set()  # ids of envelopes that are not handled yet
        self._has_said_goodbye = False
        self._reader = threading.Thread(
            target=self._read_messages, name="slack-reader", daemon=True
        )
        self.created_at = time.monotonic()
        self.replaced_at: float | None = None  # when another connection took its place
        self.ended_at: float | None = None  # when it ended

    def connect(self) -> None:
        """Connect and start the reader thread; `is_active` then says whether that succeeded."""
        super().connect()
        if self.sock is not None:
            self.sock = MessageSocket(self.sock)  # type: ignore[assignment]  # all of one that is used
            self._reader.start()
        else:
            self.ended_at = time.monotonic()

    def mark_replaced(self) -> None:
        """Record that another connection is to replace this one."""
        self.replaced_at = time.monotonic()

    def send(self, payload: str) -> None:
        """Send text; raise SlackClientNotConnectedError if the connection has ended."""
        data = frame_of(payload, FrameHeader.OPCODE_TEXT)
        with self.sock_send_lock:
            if self.sock is None or self._has_said_goodbye:
                raise SlackClientNotConnectedError("the connection has ended")
            try:
                self.sock.send(data)
            except OSError as error:
                raise SlackClientNotConnectedError(f"the connection broke: {error}") from error

    def has_handled_all_envelopes(self) -> bool:
        """Return whether all envelopes that came by this connection have been handled."""
        return not self._unanswered

    def mark_handled(self, envelope: str) -> None:
        """Record that an envelope that came by this connection has been handled."""
        self._unanswered.discard(envelope)

    def send_close_frame(self) -> None:
        """Send the close frame, once; the reader goes on until Slack's own arrives."""
        data = frame_of(struct.pack("!H", NORMAL_CLOSE_CODE), FrameHeader.OPCODE_CLOSE)
        with self.sock_send_lock, suppress(OSError):
            if self.sock is not None and not self._has_said_goodbye:
                self._has_said_goodbye = True
                self.sock.send(data)

    def wait_for_reader(self, seconds: float) -> None:
        """Wait until the reader thread has ended, at most so many seconds."""
        if self._reader.is_alive() and self._reader is not threading.current_thread():
            self._reader.join(max(0.0, seconds))

    def disconnect(self) -> None:
        """Close the socket, which also wakes the reader thread."""
        if (sock := self.sock) is not None:
            with suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)  # wakes the reader, which would wait for Slack
        with self.sock_send_lock, self.sock_receive_lock:
            if self.sock is not None:
                self.sock.close()
                self.sock = None

    def _read_messages(self) -> None:
        try:
            self.run_until_completion(_ReaderStopFlag(self))  # type: ignore[arg-type]  # all that it asks
        except Exception:
            log.exception("the connection to Slack could not be read")
        self.disconnect()
        self.ended_at = time.monotonic()
        self._handle_end(self)

    def _handle_text(self, text: str) -> None:
        if not text.startswith("{"):
            return
        message = json.loads(text)
        if envelope := message.get("envelope_id"):
            self._unanswered.add(envelope)
        self._handle_message(self, message)

    def _log_error(self, error: Exception) -> None:
        """Log an error of the library; only as debug if the connection was to end anyway."""
        is_over = self.replaced_at is not None or self._has_said_goodbye
        log.log(logging.DEBUG if is_over else logging.ERROR, "the connection to Slack: %s", error)


# seconds between two pings, and between two attempts to connect; a connection is given up after
# five failed pings, and receives nothing meanwhile
PING_INTERVAL_SECONDS = 2.0
MAX_PARALLEL_DELIVERIES = 10
ACKNOWLEDGE_TIMEOUT_SECONDS = 3.0  # to acknowledge what has arrived before its connection closes
CLOSE_TIMEOUT_SECONDS = 0.5  # for Slack's close frame after ours
NEW_HELLO_TIMEOUT_SECONDS = 1.0  # an old connection waits so long for the new one's hello
GHOST_CONNECTION_SECONDS = 30.0  # so long Slack may count a connection that has ended
SHORT_CONNECTION_SECONDS = 5.0  # several that end sooner in a row are replaced more slowly
DEFAULT_RETRY_SECONDS = 30.0  # if Slack limits connecting without saying for how long
MAX_RETRY_SECONDS = 60.0  # longer waits that Slack asks for are cut to this


@dataclass(frozen=True, slots=True)
class HelloMessage:
    """Slack's first message on a connection."""

    connections: int  # of this app, including this one
    own_connections: int  # this process's own among those; may include some that have ended
    app_id: str  # id of the app that the token belongs to; "" if Slack does not say


class EnvelopeAcknowledger:
    """The object by which a listener acknowledges an envelope on the connection that it came by."""

    def __init__(self, client: ReconnectingSocketClient, line: SlackWebSocketConnection) -> None:
        self._client, self._connection = client, line
        self.logger = client.logger

    def send_socket_mode_response(self, response: SocketModeResponse) -> None:
        """Send an acknowledgement; raise SlackClientNotConnectedError without a connection."""
        self._client.send_acknowledgement(self._connection, json.dumps(response.to_dict()))


class ReconnectingSocketClient(BaseSocketModeClient):
    """The connection to Slack, kept up for as long as the process lives; any thread."""

    def __init__(
        self,
        app_token: str,
        logger: logging.Logger,
        web_client: WebClient,
        *,
        proxy: str | None,
        deal: Callable[[EnvelopeAcknowledger, SocketModeRequest], None],
        greeted: Callable[[HelloMessage], None],
    ) -> None:
        """`deal` handles one delivery; `greeted` gets Slack's first message on each connection."""
        self.app_token, self.logger, self.web_client = app_token, logger, web_client
        self._handle_request = deal
        self._proxy = proxy or load_http_proxy_from_env(logger)
        self._greeted = greeted
        self.closed = False
        self.connect_operation_lock = threading.Lock()
        self.message_workers = ThreadPoolExecutor(
            MAX_PARALLEL_DELIVERIES, thread_name_prefix="slack-delivery"
        )
        # clicks and commands do not wait behind many people's messages
        self.click_workers = ThreadPoolExecutor(
            MAX_PARALLEL_DELIVERIES, thread_name_prefix="slack-click"
        )
        self._state = threading.Condition()
        self.current_session: SlackWebSocketConnection | None = None
        # earlier connections, also ended ones that Slack may still count
        self._old_connections: list[SlackWebSocketConnection] = []
        self._has_greeted = False  # whether the current connection got its hello
        self._check_now = threading.Event()  # tells the keeper to check at once
        self._closing = threading.Event()
        self._keeper_thread = threading.Thread(
            target=self._keep_connected, name="slack-socket", daemon=True
        )
        self._short_lived_count = 0  # in a row

    def is_connected(self) -> bool:
        """Return whether the current connection is active."""
        return self.current_session is not None and self.current_session.is_active()

    def connect(self) -> None:
        """Connect to Slack, and stay connected until `close`; do nothing once closed.

        Raises Slack's error if Slack does not give an address to connect to.
        """
        with self.connect_operation_lock:
            if self.closed:
                return
            line = SlackWebSocketConnection(
                self.issue_new_wss_url(),
                handle_message=self._handle_message,
                ended=lambda _: self._check_now.set(),
                logger=self.logger,
                ping_interval=PING_INTERVAL_SECONDS,
                proxy=self._proxy,
                ssl_context=self.web_client.ssl,
            )
            self._switch_to_connection(line)
            if not self._keeper_thread.is_alive() and not self.closed:
                self._keeper_thread.start()

    def _switch_to_connection(self, line: SlackWebSocketConnection) -> None:
        """Open this connection and make it the current one; mark the previous one for closing.

        Raises ConnectionError if it replaces another line and cannot connect.
        """
        with self._state:
            before, is_first = self.current_session, self.current_session is None
            greeted, self._has_greeted = self._has_greeted, False
        line.connect()
        with self._state:
            if not line.is_active() and not is_first:
                self._has_greeted = greeted
                raise ConnectionError("no connection to Slack could be made")
            if before is not None:
                before.mark_replaced()
                self._old_connections.append(before)
            self.current_session = line
            self._state.notify_all()
        if self.closed:
            self._close_connections(line)
        self._close_replaced_connections()

    def connect_to_new_endpoint(self, force: bool = False) -> None:
        """Connect if there is no active connection; with `force` in any case."""
        if force or not self.is_connected():
            self.connect()

    def disconnect(self) -> None:
        """Close the current connection; the keeper thread opens another."""
        if (line := self.current_session) is not None:
            line.disconnect()

    def issue_new_wss_url(self) -> str:
        """Ask Slack for the address to connect to, and wait while Slack limits such requests.

        Raises Slack's other errors, and ConnectionError if the answer has no address.
        """
        while True:
            try:
                answer = self.web_client.apps_connections_open(app_token=self.app_token)
            except SlackApiError as error:
                if not is_rate_limited(error):
                    raise
                seconds = min(
                    MAX_RETRY_SECONDS, get_retry_after_seconds(error) or DEFAULT_RETRY_SECONDS
                )
                log.warning("Slack accepts no connection for %g seconds: too many", seconds)
                if self._closing.wait(seconds):
                    raise
            else:
                if isinstance(url := answer.get("url"), str):
                    return url
                raise ConnectionError("Slack does not say where to connect")

    def send_acknowledgement(self, line: SlackWebSocketConnection, text: str) -> None:
        """Send an acknowledgement by its envelope's connection (`line`), or the current one."""
        try:
            line.send(text)
        except SlackClientNotConnectedError:
            self.send_message(text)

    def send_message(self, message: str) -> None:
        """Send text by the current connection or the one that soon replaces it.

        Raises SlackClientNotConnectedError if there is none within ACKNOWLEDGE_TIMEOUT_SECONDS.
        """
        until, line = time.monotonic() + ACKNOWLEDGE_TIMEOUT_SECONDS, self.current_session
        while line is not None:
            try:
                line.send(message)
            except SlackClientNotConnectedError:
                line = self._wait_for_replacement(line, until - time.monotonic())
            else:
                return
        raise SlackClientNotConnectedError("there is no connection to Slack")

    def _wait_for_replacement(
        self, line: SlackWebSocketConnection, seconds: float
    ) -> SlackWebSocketConnection | None:
        """Return the connection that replaces this one; None if there is none within the time."""
        with self._state:
            self._state.wait_for(lambda: self.current_session is not line or self.closed, seconds)
            return self.current_session if self.current_session is not line else None

    def close(self) -> None:
        """Close all connections for good, each with a close frame."""
        self._closing.set()
        with self._state:
            self.closed = True
            lines = [*self._old_connections, *filter(None, [self.current_session])]
            self._state.notify_all()
        self._check_now.set()
        self._close_connections(*lines)
        if self._keeper_thread.is_alive():
            # the keeper may be asking Slack for an address
            self._keeper_thread.join(ACKNOWLEDGE_TIMEOUT_SECONDS)
        for workers in (self.message_workers, self.click_workers):
            workers.shutdown(cancel_futures=True)

    @staticmethod
    def _close_connections(*lines: SlackWebSocketConnection) -> None:
        for line in lines:
            line.send_close_frame()
        until = time.monotonic() + CLOSE_TIMEOUT_SECONDS
        for line in lines:
            line.wait_for_reader(until - time.monotonic())
            line.disconnect()
            line.wait_for_reader(CLOSE_TIMEOUT_SECONDS)

    def _handle_message(self, line: SlackWebSocketConnection, message: Json) -> None:
        """Handle a message from Slack; on the reader's thread, so in order of arrival."""
        match message.get("type"):
            case "hello":
                self._handle_hello(line, message)
            case "disconnect":
                line.mark_replaced()
                self._check_now.set()
            case _ if not self.closed:
                is_event = message.get("type") == "events_api"
                workers = self.message_workers if is_event else self.click_workers
                workers.submit(self._handle_delivery, line, message)

    def _handle_hello(self, line: SlackWebSocketConnection, message: Json) -> None:
        with self._state:
            now = time.monotonic()
            self._old_connections = [
                each
                for each in self._old_connections
                if each.ended_at is None or now - each.ended_at < GHOST_CONNECTION_SECONDS
            ]
            own_count = 1 + sum(each is not line for each in self._old_connections)
            if self.current_session is not line:  # the hello comes before it is made current
                own_count += self.current_session is not None
            self._has_greeted = True
        connections = int(message.get("num_connections") or 1)
        app = str((message.get("connection_info") or {}).get("app_id") or "")
        self._greeted(HelloMessage(connections, own_count, app))
        self._close_replaced_connections()

    def _handle_delivery(self, line: SlackWebSocketConnection, message: Json) -> None:
        request = SocketModeRequest.from_dict(message)
        try:
            if request:
                self._handle_request(EnvelopeAcknowledger(self, line), request)
        except Exception:
            log.exception("a delivery failed")
        finally:
            line.mark_handled(str(message.get("envelope_id")))
            self._close_replaced_connections()

    def _close_replaced_connections(self) -> None:
        """Close replaced connections once their deliveries are acknowledged, or after a while."""
        with self._state:
            left = list(self._old_connections)
            has_greeted = self._has_greeted
            now = time.monotonic()
        for line in left:
            waited = now - (line.replaced_at or now)
            is_greeted = has_greeted or waited > NEW_HELLO_TIMEOUT_SECONDS
            is_done = line.has_handled_all_envelopes() or waited > ACKNOWLEDGE_TIMEOUT_SECONDS
            if line.is_active() and is_greeted and is_done:
                line.send_close_frame()
            if line.is_active() and waited > 2 * ACKNOWLEDGE_TIMEOUT_SECONDS:
                line.disconnect()

    def _keep_connected(self) -> None:
        """Ping, and replace the current connection when it ends or is to end; the keeper's body."""
        while not self._closing.is_set():
            self._check_now.wait(PING_INTERVAL_SECONDS)
            self._check_now.clear()
            self._close_replaced_connections()
            line = self.current_session
            if line is None or self._closing.is_set():
                continue
            line.check_state()
            if line.is_active() and line.replaced_at is None:
                continue
            try:
                self._wait_before_reconnecting(line)
                self.connect()
            except Exception as error:  # noqa: BLE001 - whatever it is, it is tried again
                log.warning("no new connection to Slack: %s", error)
                self._closing.wait(PING_INTERVAL_SECONDS)
                self._check_now.set()

    def _wait_before_reconnecting(self, line: SlackWebSocketConnection) -> None:
        """Wait before replacing a connection that ended at once, longer each time in a row.

        Slack may also say at once that one is to end, as there are too many, and leave it open.
        """
        is_short = time.monotonic() - line.created_at < SHORT_CONNECTION_SECONDS
        self._short_lived_count = self._short_lived_count + 1 if is_short else 0
        if self._short_lived_count > 1:
            self._closing.wait(min(PING_INTERVAL_SECONDS, 0.1 * 2**self._short_lived_count))
