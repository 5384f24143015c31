"""The HTTP side of one process, put together: its pages, Slack's door, the API, the server."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from slack_bolt import App as BoltApp
from slack_sdk.errors import SlackApiError
from starlette.types import ASGIApp

from bot.config.connection_settings import Endpoint
from bot.http.api import make_api
from bot.http.app import Page, web_app
from bot.http.ask_route import Asker
from bot.http.health import ASK_AGAIN, GOOD_FOR, Health, metrics_page
from bot.http.server import WebServer
from bot.http.slack_endpoint import Signatures, SlackDoor
from bot.http.webhooks import Teller
from bot.monitoring.health_checks import OK, CachedCheck, check_writable
from bot.signals import Signal
from bot.slack.client import SlackClient, is_token

if TYPE_CHECKING:
    from bot.core import Core
    from bot.runs.program_requests import ProgramRequests


class Web:
    """One per process; listens from the moment it is made, and answers from `start` on."""

    def __init__(
        self, core: Core, slack: SlackClient, address: Endpoint, programs: ProgramRequests
    ) -> None:
        """`slack` is asked whether the bot's token is still good; `programs` what programs want.

        Raises NotListeningError where the address cannot be listened to.
        """
        self._core = core
        self._shut = False
        self._door: SlackDoor | None = None
        self.health = Health(
            core.signals.work,
            core.settings.tick,
            CachedCheck(lambda: check_writable(core.store), GOOD_FOR),
            CachedCheck(TokenLook(slack), ASK_AGAIN, OK),  # a start has just signed in
            self.is_stopping,
        )
        expected = Signal()  # a request was asked whose program is to be told of it
        self._asking = Asker(core, programs, expected.give)
        self._teller = Teller(core.store, core.clock, programs, expected)
        self._server = WebServer(address)

    @property
    def url(self) -> str:
        """Where it listens."""
        return self._server.url

    def let_slack_in(self, bolt: BoltApp, own: Collection[str]) -> None:
        """Have Slack's signed requests heard by the listeners on `bolt`; before `start`.

        `own`: the ids that the bot has as a user and as a bot.
        """
        core = self._core
        secret = core.settings.slack_signing_secret.get_secret_value()
        signatures = Signatures(secret, core.clock)
        self._door = SlackDoor(bolt, signatures, core.signals.arrivals, own)

    def start(self) -> None:
        """Begin to answer."""
        api = make_api(self._core, self._asking, self.is_stopping)
        self._server.start(web_app(self.pages(), self._door, api, self._hosts()))
        self._teller.start()

    def _hosts(self) -> ASGIApp | None:
        """Return what MCP hosts talk to; None where the extra `mcp` is not installed."""
        try:
            from bot.http.mcp_endpoint import HostsDoor
        except ModuleNotFoundError as error:
            if error.name != "mcp":
                raise
            return None
        return HostsDoor(self._core, self.url, self.is_stopping)

    def pages(self) -> list[Page]:
        """Return what machines may ask."""
        return [*self.health.pages(), metrics_page(self._core.signals.watch)]

    def is_stopping(self) -> bool:
        """Return whether this process is on its way out."""
        return self._shut or self._core.signals.stopping.is_set()

    def shut(self) -> None:
        """Take nothing more in, and say so to who asks."""
        self._shut = True
        if self._door is not None:
            self._door.close()

    def close(self) -> None:
        """Answer nothing any more."""
        self._server.close()
        self._teller.stop()
        self.health.close()


class TokenLook:
    """Asks Slack whether the bot's token is good; where Slack cannot be asked, the last word holds.

    For one thread.
    """

    def __init__(self, slack: SlackClient) -> None:
        """It was good when it was signed in with."""
        self._slack, self._last = slack, OK

    def __call__(self) -> str:
        """Return OK, or that Slack refuses it."""
        try:
            self._slack.auth_test()
        except SlackApiError as error:
            if is_token(error):
                self._last = "refuses the bot token"
        except OSError:
            pass
        else:
            self._last = OK
        return self._last
