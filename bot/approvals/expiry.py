"""Deadlines fall: what nobody decided in time is denied by the clock, and the thread is told."""

from __future__ import annotations

import logging

from bot.agent import outputs
from bot.approvals.terms.effect import effect_of
from bot.clock import Clock
from bot.messages import sentences
from bot.tools import Registry
from storage import calls, endings, inbox, outbox, runs, schedule
from storage.models import Call
from storage.states import CallStatus
from storage.store import Store

log = logging.getLogger("countersign.expiry")


class Expiry:
    """One per process; `expire` is called by the loop only."""

    def __init__(self, store: Store, clock: Clock, tools: Registry) -> None:
        """`tools` word what has expired."""
        self._store = store
        self._clock = clock
        self._tools = tools

    def expire(self) -> bool:
        """Let deadlines fall up to now, but never past a stored click that is not decided yet.

        Returns whether any was due.
        """
        now = self._clock.now()
        with self._store.read() as tx:
            oldest = inbox.oldest_click(tx)
            due = schedule.due(tx, min(now, oldest) if oldest else now)
        fallen: dict[str, list[Call]] = {}
        for call_id in due:
            try:
                with self._store.write() as tx:
                    call = calls.get(tx, call_id)
                    if (
                        call
                        and endings.expire(tx, call, at=now, words=outputs)
                        and call.status is CallStatus.PENDING
                    ):
                        fallen.setdefault(call.plan_id, []).append(call)
            except Exception:
                log.exception("call %s: could not be expired", call_id)
        for group in fallen.values():
            try:
                self._announce(group)
            except Exception:
                log.exception("run %s: could not say what expired", group[0].run_id)
        return bool(due)

    def _announce(self, group: list[Call]) -> None:
        """Say in the thread what of one plan has expired."""
        with self._store.write() as tx:
            run = runs.get(tx, group[0].run_id)
            if run is not None:
                effects = [effect_of(self._tools, tx, call) for call in group]
                text = sentences.expired_line(effects, group[0].deadline)
                outbox.notice(tx, run, f"expired:{group[0].id}:{group[0].revision}", {"text": text})
