"""The Home tab, published when a person opens it, and again while what it shows changes.

On a thread of its own, as people are looked up for it. Best effort: what could not be published is
logged, and tried again: twice in a moment, then when something changes or it is opened again.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from slack_bolt import App

from bot.cards.button_codec import HOME, TURNS_HOME, Click, HomeTarget, decode_action
from bot.cards.home_tab import HomeView, draw_home
from bot.cards.views import team_of
from bot.signals import Signal, Signals
from bot.slack.client import SlackClient

log = logging.getLogger("countersign.home")
PATIENCE = 5.0  # seconds that a look-up for it may take
LIVE = 900.0  # seconds after it was opened for which it is kept up to date
WATCHED = 30  # people whose tab is kept up to date, those who opened it last
TRIES = 3  # to publish one view
PAUSE = 1.0  # seconds at least between two rounds, but for who opens it


@dataclass(slots=True)
class _Viewer:
    """Somebody who has opened the tab."""

    opened_at: float
    shows: HomeTarget = HOME
    shown: str = ""  # what was published last, as JSON; "": publish whatever it is
    failed: int = 0  # times in a row


class SlackHome:
    """One per process; `opened` may be called from any thread."""

    def __init__(
        self,
        client: SlackClient,
        view: Callable[[str, HomeTarget], HomeView | None],
        signals: Signals,
        team: str,
    ) -> None:
        """`view` makes a page of a person's view, and may wait; `signals` say that something has
        changed. `team` is the only workspace whose people turn pages.
        """
        self._client = client
        self._view = view
        self._signals = signals
        self._team = team
        self._changed = Signal()
        self._opened = Signal()
        self._lock = threading.Lock()
        self._viewers: OrderedDict[str, _Viewer] = OrderedDict()
        signals.post.forward(self._changed)  # whatever moves a call has cards drawn again

    def listen(self, app: App) -> None:
        """Hang the buttons that choose what is shown on the Bolt app."""
        for action in sorted(TURNS_HOME):
            app.action(action)(self._turned)

    def _turned(self, ack: Callable[[], None], body: dict[str, Any]) -> None:
        ack()
        click = decode_action(body["actions"][0])
        ours = team_of(body) == self._team
        if ours and isinstance(click, Click) and isinstance(click.target, HomeTarget):
            self.opened(str(body["user"]["id"]), click.target)

    def opened(self, person: str, shows: HomeTarget = HOME) -> None:
        """Publish the tab of this person, and keep it up to date for a while. Waits for nothing."""
        with self._lock:
            self._viewers[person] = _Viewer(time.monotonic(), shows)
            self._viewers.move_to_end(person)
            if len(self._viewers) > WATCHED:
                self._viewers.popitem(last=False)
        self._opened.give()
        self._changed.give()

    def run(self) -> None:
        """Publish what has changed until the process stops; the thread's body."""
        while not self._signals.stopping.is_set():
            self._changed.wait()
            self._changed.clear()
            self._opened.clear()
            for person, viewer in self._watching():
                self._publish(person, viewer)
            if not self._signals.stopping.is_set():  # set before `stop` wakes this thread
                self._opened.wait(PAUSE)

    def stop(self) -> None:
        """Wake the thread, which ends once `stopping` is set."""
        self._opened.give()
        self._changed.give()

    def _watching(self) -> list[tuple[str, _Viewer]]:
        """Whoever opened it a while ago has left it, as far as is known."""
        since = time.monotonic() - LIVE
        with self._lock:
            for person in [who for who, each in self._viewers.items() if each.opened_at < since]:
                del self._viewers[person]
            return list(reversed(self._viewers.items()))

    def _publish(self, person: str, viewer: _Viewer) -> None:
        """Show this person what there is now, unless that is what they were shown last."""
        if self._signals.stopping.is_set():
            return
        self._signals.give_way()
        try:
            view = draw_home(self._view(person, viewer.shows))
            drawn = json.dumps(view)
            if drawn != viewer.shown:
                self._client.views_publish(user_id=person, view=view)
                viewer.shown = drawn
            viewer.failed = 0
        except Exception as error:  # noqa: BLE001 - a view is a comfort; the cards decide
            viewer.shown, viewer.failed = "", viewer.failed + 1
            if viewer.failed % TRIES:
                self._changed.give()
            log.warning("the Home of %s was not published: %s", person, error)
