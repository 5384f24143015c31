"""The ways by which Slack's deliveries and the questions of machines come in, as the settings say.

The HTTP side is imported only where the settings want it, as what it needs may not be installed.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from slack_bolt import App as BoltApp

from bot.config.connection import USUAL, Transport
from bot.config.startup import StartupError
from bot.runs.direct.programs import Programs
from bot.slack.apps import app_of
from bot.slack.client import SlackClient
from bot.slack.socket import SocketMode, connect_alone
from bot.slack.socket_client import ACKNOWLEDGED

if TYPE_CHECKING:
    from bot.core import Core
    from bot.web.web import Web

NOT_INSTALLED = (
    "COUNTERSIGN_HTTP and `countersign serve` need {0}: pip install 'countersign-bot[serve]'"
)


class WaysIn:
    """One per process; opened once, shut, then closed."""

    def __init__(self, core: Core, bolt: BoltApp, slack: SlackClient) -> None:
        """`bolt` has the listeners; `slack` is asked whether the bot's token is still good."""
        self._core, self._bolt, self._slack = core, bolt, slack
        self.socket: SocketMode | None = None
        self.web: Web | None = None

    def open(self, ended: threading.Event) -> None:
        """Let in what comes; `ended` says that the process is to stop.

        Raises StartupError where Slack or the address is not to be had.
        """
        core, settings = self._core, self._core.settings
        own = {core.identity.user, core.identity.bot} - {""}
        over_http = settings.transport is Transport.HTTP
        if settings.http is not None or over_http:
            self.web = self._listening()
            if over_http:
                self.web.let_slack_in(self._bolt, own)
        if not over_http:
            own_app = app_of(self._slack, core.identity.bot)
            arrivals = core.signals.arrivals
            self.socket = connect_alone(self._bolt, settings, arrivals, ended, own, own_app)
        if self.web is not None:
            self.web.start()

    def _listening(self) -> Web:
        """Return the HTTP side, which listens already."""
        try:
            from bot.web.server import NotListeningError
            from bot.web.web import Web
        except ModuleNotFoundError as error:
            raise StartupError([NOT_INSTALLED.format(error.name)], ()) from None
        try:
            core = self._core
            programs = Programs(core.forms(), core.signals)
            return Web(core, self._slack, core.settings.http or USUAL, programs)
        except NotListeningError as error:
            remedy = "name another address, or stop who has it"
            raise StartupError([f"COUNTERSIGN_HTTP: {error}; {remedy}"], ()) from None

    def shut(self) -> None:
        """Take nothing more in; returns when what has arrived is acknowledged."""
        if self.web is not None:
            self.web.shut()
            self._core.signals.arrivals.wait(ACKNOWLEDGED)
        if self.socket is not None:
            self.socket.close()

    def close(self) -> None:
        """Answer nothing any more."""
        if self.web is not None:
            self.web.close()
