"""The HTTP side of one process, put together: its pages, Slack's door, the API, the server."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING

from slack_bolt import App as BoltApp
from slack_sdk.errors import SlackApiError
from starlette.types import ASGIApp

from bot.config.connection_settings import Endpoint
from bot.http.api import make_api
from bot.http.app import Page, PageText, web_app
from bot.http.ask_route import AskHandler
from bot.http.server import WebServer
from bot.http.slack_endpoint import Signatures, SlackEndpoint
from bot.http.webhooks import WebhookNotifier
from bot.monitoring.exporters import METRICS, missing
from bot.monitoring.health_checks import OK, CachedCheck, check_writable
from bot.monitoring.spans import Tracer
from bot.signals import Signal
from bot.slack.client import SlackClient, is_token

if TYPE_CHECKING:
    from bot.core import Core
    from bot.runs.program_requests import ProgramRequests


# Whether the process lives, and whether work may be sent to it, for whatever looks after it.

# What Prometheus reads: the page of metrics.

KIND = "text/plain; version=0.0.4; charset=utf-8"


def metrics_page(tracer: Tracer) -> Page:
    """Return the page; where nothing counts it says which extra is missing."""

    def answer() -> PageText:
        text = tracer.page()
        if text is None:
            return PageText(HTTPStatus.NOT_IMPLEMENTED, f"{missing(METRICS)}\n")
        return PageText(HTTPStatus.OK, text, KIND)

    return Page("/metrics", answer)


GOOD_FOR = 2.0  # seconds for which the database is not asked again
ASK_AGAIN = 60.0  # seconds between two questions to Slack
BEHIND = 5.0  # seconds after a look was due when no work is sent here any more
LOST = 120.0  # and when nobody expects the loop to look again


class Health:
    """What is asked about this process."""

    def __init__(
        self,
        loop: Signal,
        tick: float,
        database: CachedCheck,
        slack: CachedCheck,
        stopping: Callable[[], bool],
    ) -> None:
        """`loop` is the signal that the loop looks at, every `tick` seconds at least.

        `stopping` says that the process is on its way out.
        """
        self._loop, self._tick = loop, tick
        self._database, self._slack = database, slack
        self._stopping = stopping

    def pages(self) -> list[Page]:
        """Return where it is asked."""
        return [Page("/healthz", self.alive), Page("/readyz", self.ready)]

    def alive(self) -> PageText:
        """Say whether the process lives: its loop looks, or is only late."""
        return _said("alive", {"loop": self._late(LOST)})

    def ready(self) -> PageText:
        """Say whether work may be sent here."""
        if self._stopping():
            return _said("ready", {"process": "is stopping"})
        return _said(
            "ready",
            {
                "loop": self._late(BEHIND),
                "database": self._database.now(),
                "slack": self._slack.lately(),
            },
        )

    def close(self) -> None:
        """Look at nothing any more."""
        self._database.close()
        self._slack.close()

    def _late(self, allowed: float) -> str:
        looked = self._loop.looked_at
        if looked is None:
            return "has not begun"
        late = time.monotonic() - looked - self._tick
        return OK if late <= allowed else f"is {late:.0f} seconds late"


def _said(word: str, found: Mapping[str, str]) -> PageText:
    """The answer to these findings: the word where all is well, and a line for each."""
    well = all(each == OK for each in found.values())
    lines = [word if well else f"not {word}", *(f"{name}: {each}" for name, each in found.items())]
    status = HTTPStatus.OK if well else HTTPStatus.SERVICE_UNAVAILABLE
    return PageText(status, "\n".join(lines) + "\n")


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
        self._door: SlackEndpoint | None = None
        self.health = Health(
            core.signals.work,
            core.settings.tick,
            CachedCheck(lambda: check_writable(core.store), GOOD_FOR),
            CachedCheck(TokenLook(slack), ASK_AGAIN, OK),  # a start has just signed in
            self.is_stopping,
        )
        expected = Signal()  # a request was asked whose program is to be told of it
        self._asking = AskHandler(core, programs, expected.give)
        self._teller = WebhookNotifier(core.store, core.clock, programs, expected)
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
        self._door = SlackEndpoint(bolt, signatures, core.signals.arrivals, own)

    def start(self) -> None:
        """Begin to answer."""
        api = make_api(self._core, self._asking, self.is_stopping)
        self._server.start(web_app(self.pages(), self._door, api, self._hosts()))
        self._teller.start()

    def _hosts(self) -> ASGIApp | None:
        """Return what MCP hosts talk to; None where the extra `mcp` is not installed."""
        try:
            from bot.http.mcp_endpoint import McpEndpoint
        except ModuleNotFoundError as error:
            if error.name != "mcp":
                raise
            return None
        return McpEndpoint(self._core, self.url, self.is_stopping)

    def pages(self) -> list[Page]:
        """Return what machines may ask."""
        return [*self.health.pages(), metrics_page(self._core.signals.tracer)]

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
