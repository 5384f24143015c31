"""How Slack's deliveries and programs' requests come in: by Socket Mode, by HTTP, or by both."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from slack_bolt import App as BoltApp

from bot.config.connection_settings import DEFAULT_ADDRESS, Transport
from bot.config.startup import StartupError
from bot.core import Core
from bot.identity import HostedApp
from bot.policy.authority import Directory
from bot.slack.client import SlackClient, find_app_id
from bot.slack.listeners import SlackListeners
from bot.slack.socket import SocketModeConnection, open_sole_slack_connection
from bot.slack.socket_client import ACKNOWLEDGE_TIMEOUT_SECONDS
from storage import webhooks

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from bot.http.http_side import HttpServices

NOT_INSTALLED_ERROR = (
    "COUNTERSIGN_HTTP, passkeys, many workspaces and `countersign serve` need {0}: "
    "pip install 'countersign-bot[serve]'"
)


class InboundConnections:
    """The connections on which input arrives (Slack, HTTP); one per process."""

    def __init__(
        self,
        core: Core,
        bolt: BoltApp,
        slack: SlackClient,
        listeners: SlackListeners,
        names: Directory,
        hosted: HostedApp | None = None,
    ) -> None:
        """`slack` checks whether the bot's token is still valid; `names` looks people's names up.

        `hosted`: given if another server serves what `get_web_app` returns, else None.
        """
        self._core, self._bolt, self._slack = core, bolt, slack
        self._listeners, self._names = listeners, names
        self._hosted, self._building = hosted, threading.Lock()
        self.socket: SocketModeConnection | None = None
        self.web: HttpServices | None = None

    def get_web_app(self) -> ASGIApp:
        """Return the ASGI app of this bot's HTTP side, for another server; made when first asked.

        Raises StartupError if it cannot be made.
        """
        with self._building:
            if self.web is None:
                web = self._build_http_side()
                web.start()
                self.web = web
        assert self.web.app is not None
        return self.web.app

    def start_receiving(self, ended: threading.Event) -> None:
        """Begin to receive deliveries and requests; `ended` is set when the process is to stop.

        Raises StartupError if Slack cannot be connected to as the settings say, or nothing can
        listen at the address.
        """
        core, settings = self._core, self._core.settings
        if self._hosted is not None:
            with core.store.read() as tx:
                is_web_needed = webhooks.find_next_webhook_time(tx) is not None
            if is_web_needed:
                self.get_web_app()
            return
        own = {core.identity.user, core.identity.bot} - {""}
        over_http = settings.transport is Transport.HTTP
        if settings.http is not None or over_http or self._needs_signing_pages():
            self.web = self._build_http_side()
            if over_http:
                self.web.add_slack_endpoint(self._bolt, own)
        if not over_http:
            own_app = find_app_id(self._slack, core.identity.bot)
            arrivals = core.signals.arrivals
            self.socket = open_sole_slack_connection(
                self._bolt, settings, arrivals, ended, own, own_app
            )
        if self.web is not None:
            self.web.start()

    def _needs_signing_pages(self) -> bool:
        """Return whether the policy asks for signatures, and people can sign here."""
        asks = any(each.wants_signature for each in self._core.policy.policy.asks())
        return asks and not self._core.build_signing_links().describe_problem()

    def _build_http_side(self) -> HttpServices:
        """Return the bot's HTTP services, not started yet; raise StartupError if that fails.

        If they have an address of their own, they already listen at it.
        """
        try:
            from bot.http.http_side import HttpServices
        except ModuleNotFoundError as error:
            raise StartupError([NOT_INSTALLED_ERROR.format(error.name)], ()) from None
        core, hosted_at = self._core, self._hosted.url if self._hosted else ""
        address = None if self._hosted else core.settings.http or DEFAULT_ADDRESS
        keep = self._listeners.store_delivery
        return HttpServices(core, self._slack, address, keep, self._names, hosted_at)

    def stop_receiving(self) -> None:
        """Refuse new input, and wait for a limited time until deliveries are acknowledged."""
        if self.web is not None:
            self.web.refuse_requests()
            self._core.signals.arrivals.wait_until_acknowledged(ACKNOWLEDGE_TIMEOUT_SECONDS)
        if self.socket is not None:
            self.socket.close()

    def close(self) -> None:
        """Close the HTTP side, which answers nothing from then on."""
        if self.web is not None:
            self.web.close()
