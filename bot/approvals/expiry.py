"""Deadlines fall: what nobody decided in time is denied by the clock, and the thread is told."""

from __future__ import annotations

import logging
from datetime import datetime

from bot.agent import outputs
from bot.approvals.terms.effect import effect_of
from bot.clock import Clock
from bot.messages import sentences
from bot.tools import Registry
from storage import calls, endings, inbox, outbox, runs, schedule
from storage.models import Call
from storage.patience import passes
from storage.states import CallStatus
from storage.store import Store
from storage.transaction import Transaction

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

        Returns whether any was due. Raises what the database could not: it is tried again.
        """
        now = self._clock.now()
        with self._store.read() as tx:
            oldest = inbox.oldest_click(tx)
            due = schedule.due(tx, min(now, oldest) if oldest else now)
        together: dict[str, list[str]] = {}
        for call_id, plan_id in due:
            together.setdefault(plan_id, []).append(call_id)
        for ids in together.values():
            self._fall(ids, now)
        return bool(due)

    def _fall(self, ids: list[str], now: datetime) -> None:
        """Let the deadlines of one plan's calls fall, and say so in its thread: one transaction.

        Where one of them cannot be dealt with, each is dealt with by itself.
        """
        try:
            with self._store.write() as tx:
                found = [calls.get(tx, each) for each in ids]
                fallen = [
                    call
                    for call in found
                    if call and endings.expire(tx, call, at=now, words=outputs)
                ]
                if denied := [call for call in fallen if call.status is CallStatus.PENDING]:
                    self._announce(tx, denied)
        except Exception as error:
            if passes(error):
                raise
            if len(ids) == 1:
                log.exception("call %s: could not be expired", ids[0])
                return
            for each in ids:
                self._fall([each], now)

    def _announce(self, tx: Transaction, fallen: list[Call]) -> None:
        """Say in the thread what of one plan has expired."""
        first, run = fallen[0], runs.get(tx, fallen[0].run_id)
        if run is not None:
            text = sentences.expired_line(
                [self._effect(tx, call) for call in fallen], first.deadline
            )
            outbox.notice(tx, run, f"expired:{first.id}:{first.revision}", {"text": text})

    def _effect(self, tx: Transaction, call: Call) -> str:
        """Return what the call would have done; a deadline falls also where that cannot be said."""
        try:
            return effect_of(self._tools, tx, call)
        except Exception as error:
            if passes(error):
                raise
            log.exception("run %s call %s: what has expired cannot be said", call.run_id, call.id)
            return call.tool
