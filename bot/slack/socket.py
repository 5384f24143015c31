"""Bolt's Socket Mode handler, extended to count deliveries that are not yet acknowledged."""

from __future__ import annotations

import logging
import threading
from collections.abc import Collection
from typing import Any, Protocol

from slack_bolt import BoltRequest, BoltResponse
from slack_bolt.adapter.socket_mode import SocketModeHandler
from slack_sdk import WebClient
from slack_sdk.socket_mode.response import SocketModeResponse

from bot.config.settings import Settings
from bot.config.startup import StartupError
from bot.signals import UnacknowledgedDeliveries
from bot.slack.client import is_own_event
from bot.slack.socket_client import (
    ACKNOWLEDGE_TIMEOUT_SECONDS,
    HelloMessage,
    ReconnectingSocketClient,
)

log = logging.getLogger("countersign.socket")

HELLO_TIMEOUT_SECONDS = 5.0
# seconds between attempts while Slack counts another connection: it may notice late that a process
# has died
RETRY_PAUSES_SECONDS = (1.0, 2.0, 4.0, 8.0, 8.0, 8.0)


class DeliveryReceiver(Protocol):
    """The receiver of Slack's deliveries: a Bolt app, or a dispatcher that finds one for each."""

    @property
    def client(self) -> WebClient: ...
    @property
    def logger(self) -> logging.Logger: ...
    def dispatch(self, req: BoltRequest, /) -> BoltResponse: ...


OTHER_PROCESS_CONNECTED_ERROR = (
    "another process is connected to Slack with this SLACK_APP_TOKEN, and Slack gives each "
    "delivery to only one of the two; stop it, or set COUNTERSIGN_OTHER_CONNECTIONS=on"
)
TOKENS_OF_TWO_APPS_ERROR = (
    "SLACK_APP_TOKEN belongs to the app {0}, and SLACK_BOT_TOKEN to the app {1}: what people do"
    " would never arrive; take both from one app's page at Slack"
)
CONNECTION_COUNT_TEXT = "Slack counts %d connections of this app: each delivery goes to one of them"


class SocketModeConnection(SocketModeHandler):
    """One connection to Slack in Socket Mode."""

    def __init__(
        self,
        app: DeliveryReceiver,
        token: str,
        arrivals: UnacknowledgedDeliveries,
        own: Collection[str] = (),
        own_app: str = "",
    ) -> None:
        """`token` is the app-level one; `arrivals` counts deliveries not yet acknowledged.

        `own`: the bot's user id and bot id. `own_app`: the id of the app that the bot token belongs
        to; "" if it is not known.
        """
        self._arrivals = arrivals
        self._own_ids, self._own_app = own, own_app
        self._is_closed = threading.Event()  # once set, deliveries are ignored
        self._is_greeted = threading.Event()
        self._others_allowed = True  # whether other connections may exist
        self.other_connections = 0  # other processes' connections with this token
        self.other_app_id = ""  # id of the app that the token belongs to, if it is not the bot's
        self.app = app  # type: ignore[assignment]  # of which Bolt's handler uses no more
        self.app_token = token
        self.client: ReconnectingSocketClient = ReconnectingSocketClient(  # type: ignore[assignment]  # all that Bolt's handler uses
            token,
            app.logger,
            app.client,
            proxy=app.client.proxy,
            deal=self.handle,
            greeted=self._handle_hello,
        )

    def connect_and_check_other_connections(self, *, allowed: bool) -> bool:
        """Connect; return False if another process uses this token and that is not `allowed`.

        Deliveries are then ignored, and also if the token belongs to another app (`other_app_id`).
        """
        self._others_allowed = allowed
        self.connect()  # type: ignore[no-untyped-call]  # Bolt's own signature
        if not self._is_greeted.wait(HELLO_TIMEOUT_SECONDS):
            log.warning("Slack has not said hello within %g seconds", HELLO_TIMEOUT_SECONDS)
        return allowed or not self.other_connections

    def _handle_hello(self, hello: HelloMessage) -> None:
        """Check in Slack's first message whose token it is and how many connections are open."""
        if hello.app_id and self._own_app and hello.app_id != self._own_app:
            self.other_app_id = hello.app_id
            self._is_closed.set()
        self.other_connections = max(0, hello.connections - hello.own_connections)
        is_first = not self._is_greeted.is_set()
        if self.other_connections and is_first and not self._others_allowed:
            self._is_closed.set()  # the caller reports it
        elif self.other_connections:
            log.log(
                logging.INFO if self._others_allowed else logging.ERROR,
                CONNECTION_COUNT_TEXT,
                hello.connections,
            )
        self._is_greeted.set()

    def handle(self, client: Any, req: Any) -> None:
        """Handle one delivery up to its acknowledgement; ignore it once closing has begun."""
        with self._arrivals.track_unacknowledged_delivery():
            if self._is_closed.is_set():
                return
            if is_own_event(req.payload, self._own_ids):
                client.send_socket_mode_response(SocketModeResponse(req.envelope_id))
            else:
                super().handle(client, req)

    def close(self) -> None:
        """Disconnect for good, and return once the connection's threads have ended; raise nothing.

        Deliveries being stored are acknowledged first; Slack delivers later ones again, or tells
        the person that they did not arrive.
        """
        self._is_closed.set()
        self._arrivals.wait_until_acknowledged(ACKNOWLEDGE_TIMEOUT_SECONDS)
        try:
            self.client.close()
        except Exception as error:  # noqa: BLE001 - the client may raise here
            log.debug("closing the connection: %s", error)


def open_sole_slack_connection(
    app: DeliveryReceiver,
    settings: Settings,
    arrivals: UnacknowledgedDeliveries,
    ended: threading.Event,
    own_ids: Collection[str] = (),
    own_app: str = "",
) -> SocketModeConnection:
    """Return a connection to Slack, the only one with its token unless the settings allow others.

    `own_ids`: the bot's user id and bot id; events that only report what the bot did are
    acknowledged and not handled. `own_app`: the id of the bot's app.

    Raises StartupError if the token belongs to another app, or if another process has a connection
    and the settings do not allow that. It retries for a while first, as Slack may still count the
    connection of a process that has just died.
    """
    token, allowed = settings.slack_app_token.get_secret_value(), settings.other_connections
    counted = 0
    for pause in (0.0, *RETRY_PAUSES_SECONDS):
        if ended.wait(pause) and counted:
            break
        connection = SocketModeConnection(app, token, arrivals, own_ids, own_app)
        is_alone = connection.connect_and_check_other_connections(allowed=allowed)
        if is_alone and not connection.other_app_id:
            return connection
        connection.close()
        if connection.other_app_id:
            raise StartupError(
                [TOKENS_OF_TWO_APPS_ERROR.format(connection.other_app_id, own_app)], ()
            )
        counted = connection.other_connections + 1
        log.info(CONNECTION_COUNT_TEXT + "; one may be of a process that has died", counted)
    log.error(CONNECTION_COUNT_TEXT, counted)
    raise StartupError([OTHER_PROCESS_CONNECTED_ERROR], ())
