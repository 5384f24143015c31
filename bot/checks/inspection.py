"""Looks beside the work at what `countersign doctor` looks at: soon after the start, when another
policy is in force, and again for as long as something is wrong.

It decides nothing and delays nothing: on a thread of its own, with connections of its own. What it
finds is a line of the log each, and a number of the metrics.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING

from slack_sdk import WebClient

from bot.checks.check import Check, Level
from bot.clock import Clock
from bot.config.settings import Settings
from bot.policy.current_policy import CurrentPolicy
from bot.signals import Signals
from bot.slack.client import reading_client
from bot.tools import Registry
from storage.store import Store

if TYPE_CHECKING:
    from collections.abc import Mapping

log = logging.getLogger("countersign.setup")
SOON = 1.0  # seconds after the start, which has other things to do
AGAIN = 600.0  # seconds until it is looked again, where something was wrong


class Inspection:
    """One per process."""

    def __init__(
        self,
        settings: Settings,
        policy: CurrentPolicy,
        tools: Registry,
        store: Store,
        clock: Clock,
        signals: Signals,
    ) -> None:
        """`signals.policy` says that another policy is in force."""
        self._settings, self._policy, self._tools = settings, policy, tools
        self._store, self._clock, self._signals = store, clock, signals
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        self._client = reading_client(
            settings.slack_bot_token.get_secret_value(), settings.slack_api_url, signals.tracer
        )

    def start(self) -> None:
        """Look soon, on a thread of its own."""
        self._thread = threading.Thread(target=self._run, name="inspection", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Look no more; what is being asked is not waited for."""
        self._ended.set()
        self._signals.policy.give()
        self._client.close()

    def _run(self) -> None:
        known: frozenset[str] = frozenset()
        self._ended.wait(SOON)
        while not self._ended.is_set():
            changed = self._signals.policy
            changed.clear()
            try:
                found = self.look()
            except Exception:
                log.exception("the setup could not be looked at")
                found = []
            if self._ended.is_set():
                return
            known = self._tell(found, known)
            changed.wait(AGAIN if found else None)
            if changed.is_given():
                known = frozenset()  # of another policy all is said

    def look(self) -> list[Check]:
        """Make all checks, and return those by which something is wrong or odd."""
        return [each for each in self._checks() if each.level is not Level.OK]

    def _tell(self, found: list[Check], known: frozenset[str]) -> frozenset[str]:
        """Log what is not `known`, and have all of it counted; return what is known now."""
        lines = [" ".join(str(each).split()) for each in found]
        for line in lines:
            if line not in known:
                log.warning("the setup: %s", line)
        if not lines:
            log.info("the setup: all is well")
        levels = [each.level for each in found]
        counts: Mapping[str, int] = {each: levels.count(each) for each in (Level.FAIL, Level.WARN)}
        self._signals.tracer.inspected(counts)
        return frozenset(lines)

    def _checks(self) -> Iterator[Check]:
        # only now: a start waits for none of what they import
        from bot.checks.rules import check_hours, check_rules

        policy = self._policy.policy
        yield from self._at_slack(self._client)
        yield from check_rules(self._tools, policy)
        yield from check_hours(policy, self._clock.now())

    def _at_slack(self, client: WebClient) -> Iterator[Check]:
        """What only Slack can say."""
        from bot.checks.people_checks import check_operator, check_people, usual_of
        from bot.checks.slack import check_places, check_sign_in, sign_in

        settings, policy = self._settings, self._policy.policy
        found = sign_in(client, self._clock)
        if isinstance(found, Check):
            yield found
            return
        try:
            yield from check_sign_in(found, settings)
            yield from check_places(policy, found.workspace)
            usual = usual_of(self._store, self._clock.now())
            yield from check_people(policy, found.workspace, usual)
            yield from check_operator(settings, policy, found.workspace)
        finally:
            found.workspace.directory.close()
