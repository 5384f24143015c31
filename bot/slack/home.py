"""The Home tab, published when a person opens it, and again while its content changes.

It has its own thread, as drawing it may look people up. Best effort: a failure to publish is logged
and tried again, twice at once, then when something changes or the tab is opened again.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, ClassVar

from slack_bolt import App

from bot.approvals.dialog_access import DialogRefusal
from bot.approvals.passkeys import PasskeyManager
from bot.approvals.person_views import PersonViewFactory
from bot.cards import button_codec, passkey_views
from bot.cards.action_names import Action, DialogId
from bot.cards.button_codec import (
    DEFAULT_HOME_TARGET,
    HOME_PAGE_ACTIONS,
    Click,
    HomeTabTarget,
    decode_clicked_element,
)
from bot.cards.home_tab import HomeView, render_home_tab
from bot.cards.views import get_sender_workspace_id
from bot.explain.rule_report import load_rule_report, render_findings_text
from bot.policy.authority import Directory
from bot.signals import Signal, Signals
from bot.slack.client import SlackClient
from bot.slack.command_answers import DEFAULT_REPORT_DAYS, SlackMentionStyle
from bot.slack.dialogs import PreparedDialog

log = logging.getLogger("countersign.home")
HOME_LOOKUP_TIMEOUT_SECONDS = 5.0
LIVE_UPDATE_SECONDS = 900.0  # after the tab was opened
MAX_LIVE_VIEWERS = 30  # the people who opened it last
MAX_PUBLISH_ATTEMPTS = 3  # to publish one view
MAX_FINDINGS_AGE = timedelta(minutes=10)  # then the findings on past decisions are computed again
MIN_ROUND_INTERVAL_SECONDS = 1.0  # between two rounds, unless a person opens the tab


@dataclass(slots=True)
class _Viewer:
    """A person who has opened the Home tab, and what they see there."""

    opened_at: float
    page: HomeTabTarget = DEFAULT_HOME_TARGET
    published: str = ""  # the view published last, as JSON; "" to publish in any case
    failures: int = 0  # failed attempts in a row


class ReportingHomeBuilder:
    """Builds Home tabs, with findings on past decisions for those who may read every request."""

    def __init__(self, views: PersonViewFactory, directory: Directory) -> None:
        """`views` makes the builders of the rest of the Home tab."""
        self._views = views
        self._build = views.build_home_view_builder().build_home_view
        self._words = SlackMentionStyle(directory)
        self._findings: tuple[datetime, str] | None = None

    def build_home_view(self, person: str, shows: HomeTabTarget) -> HomeView | None:
        """Return the page `shows` of a member's Home tab, None for others.

        Raises LookupFailedError.
        """
        view, lists = self._build(person, shows), self._views.build_overview()
        if view is None or shows.part is not DEFAULT_HOME_TARGET.part or shows.channel:
            return view
        if not lists.histories.may_read_every_request(person):
            return view
        now = lists.clock.now()
        if self._findings is None or now - self._findings[0] >= MAX_FINDINGS_AGE:
            _, findings = load_rule_report(
                self._views, now - timedelta(days=DEFAULT_REPORT_DAYS), now
            )
            self._findings = now, render_findings_text(findings, self._words)
        return replace(view, findings=self._findings[1])


class HomeTabPublisher:
    """The publisher of Home tabs; one per process, any thread may call `schedule_publishing`."""

    def __init__(
        self,
        client: SlackClient,
        view: Callable[[str, HomeTabTarget], HomeView | None],
        signals: Signals,
        team: str,
    ) -> None:
        """`view` returns the page of a person's Home tab that they chose, and may wait.

        `signals` say that something has changed. `team` is the only workspace whose people can turn
        pages.
        """
        self._client = client
        self._view = view
        self._signals = signals
        self._team = team
        self._changed = Signal()
        self._opened = Signal()
        self._lock = threading.Lock()
        self._viewers: OrderedDict[str, _Viewer] = OrderedDict()
        signals.outbox.forward(self._changed)  # a change to any call also has its cards redrawn

    def register_listeners(self, app: App) -> None:
        """Register on the Bolt app the buttons that choose a page of the Home tab."""
        for action in sorted(HOME_PAGE_ACTIONS):
            app.action(action)(self._handle_page_click)

    def _handle_page_click(self, ack: Callable[[], None], body: dict[str, Any]) -> None:
        ack()
        click = decode_clicked_element(body["actions"][0])
        ours = get_sender_workspace_id(body) == self._team
        if ours and isinstance(click, Click) and isinstance(click.target, HomeTabTarget):
            self.schedule_publishing(str(body["user"]["id"]), click.target)

    def schedule_publishing(self, person: str, shows: HomeTabTarget = DEFAULT_HOME_TARGET) -> None:
        """Have this person's tab published, and updated for a while; return at once."""
        with self._lock:
            self._viewers[person] = _Viewer(time.monotonic(), shows)
            self._viewers.move_to_end(person)
            if len(self._viewers) > MAX_LIVE_VIEWERS:
                self._viewers.popitem(last=False)
        self._opened.notify()
        self._changed.notify()

    def run(self) -> None:
        """Publish Home tabs that have changed until the process stops; the thread's body."""
        while not self._signals.stopping.is_set():
            self._changed.wait()
            self._changed.clear()
            self._opened.clear()
            for person, viewer in self._list_recent_viewers():
                self._publish_tab(person, viewer)
            if not self._signals.stopping.is_set():  # set before `stop` wakes this thread
                self._opened.wait(MIN_ROUND_INTERVAL_SECONDS)

    def stop(self) -> None:
        """Wake the thread, so that it ends; `stopping` has to be set before."""
        self._opened.notify()
        self._changed.notify()

    def _list_recent_viewers(self) -> list[tuple[str, _Viewer]]:
        """Return the people who opened the tab within LIVE_UPDATE_SECONDS, the latest first."""
        since = time.monotonic() - LIVE_UPDATE_SECONDS
        with self._lock:
            for person in [who for who, each in self._viewers.items() if each.opened_at < since]:
                del self._viewers[person]
            return list(reversed(self._viewers.items()))

    def _publish_tab(self, person: str, viewer: _Viewer) -> None:
        """Publish this person's tab, unless it is what was published last."""
        if self._signals.stopping.is_set():
            return
        self._signals.wait_until_urgent_work_done()
        try:
            view = render_home_tab(self._view(person, viewer.page))
            drawn = json.dumps(view)
            if drawn != viewer.published:
                self._client.views_publish(user_id=person, view=view)
                viewer.published = drawn
            viewer.failures = 0
        except Exception as error:  # noqa: BLE001 - a view is a comfort; the cards decide
            viewer.published, viewer.failures = "", viewer.failures + 1
            if viewer.failures % MAX_PUBLISH_ATTEMPTS:
                self._changed.notify()
            log.warning("the Home of %s was not published: %s", person, error)


# The dialog to rename a passkey, which is opened from the tab.


@dataclass(frozen=True, slots=True)
class PasskeyDialogFamily:
    """The handlers of the dialog in which a person renames their passkey."""

    passkeys: PasskeyManager

    actions: ClassVar[Collection[Action]] = (Action.RENAME_PASSKEY,)
    dialogs: ClassVar[Collection[DialogId]] = (DialogId.RENAME_PASSKEY,)

    def prepare_dialog(
        self, click: button_codec.Click, body: dict[str, Any]
    ) -> PreparedDialog | DialogRefusal:
        """Return the dialog to rename a passkey, or a refusal if it is not the person's own."""
        target = click.target
        assert isinstance(target, button_codec.PasskeyTarget)
        with self.passkeys.store.read() as tx:
            row = self.passkeys.find_own_passkey(tx, target.passkey, body["user"]["id"])
        if row is None:
            return DialogRefusal(passkey_views.ALREADY_REVOKED_REPLY)
        return PreparedDialog(passkey_views.render_rename_dialog(row.id, row.name))

    def validate_submission(
        self, _subject: button_codec.DialogSubject, _body: dict[str, Any]
    ) -> dict[str, str]:
        """Return no errors: Slack requires a name, and the passkey's owner is checked later."""
        return {}
