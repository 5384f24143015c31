"""Deadlines fall: what nobody decided in time is denied by the clock, and the thread is told."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping
from datetime import datetime

from bot.agent import outputs
from bot.approvals.questions.rows import is_question
from bot.approvals.questions.waiting import replied_in_time, say_unanswered
from bot.approvals.terms.effect import effect_of
from bot.clock import Clock
from bot.messages.actions.codec import decode_action, decode_dialog
from bot.messages.actions.targets import CallTarget, CardTarget, RunTarget
from bot.messages.sentences import notices
from bot.tools import Registry
from storage import calls, endings, inbox, outbox, runs, schedule
from storage.availability import passes
from storage.models import Call, Delivery
from storage.states import CallStatus, DeliveryKind
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
        """Let deadlines fall, but never one of what an undecided click in time is about.

        Returns whether any was due. Raises what the database could not: it is tried again.
        """
        now = self._clock.now()
        with self._store.read() as tx:
            due = schedule.due(tx, now)
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
                # only now: who stored a click in time has done so before this could write
                arrived = inbox.new(tx)
                clicked = _clicked(arrived)
                found = [calls.get(tx, each) for each in ids]
                fallen = [
                    call
                    for call in found
                    if call
                    and not _in_time(call, clicked)
                    and not (is_question(call) and replied_in_time(tx, call, arrived))
                    and endings.expire(tx, call, at=now, words=outputs, output=_told(call))
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
        run = runs.get(tx, fallen[0].run_id)
        asking = [call for call in fallen if is_question(call)]
        fallen = [call for call in fallen if not is_question(call)]
        if run is not None:
            say_unanswered(tx, run, asking)
        if run is not None and fallen:
            first, effects = fallen[0], [self._effect(tx, call) for call in fallen]
            text = notices.expired_line(effects, first.deadline, run.requester)
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


def _told(call: Call) -> str:
    """Return what the model is told of a question; "" for what everything else is told."""
    return outputs.UNANSWERED if is_question(call) else ""


def _clicked(deliveries: Iterable[Delivery]) -> dict[str, datetime]:
    """Return when the first of these clicks on each call, plan and request was stored."""
    found: dict[str, datetime] = {}
    for each in deliveries:
        if each.kind in inbox.CLICKS:
            found.setdefault(_about(each), each.received_at)
    return found


def _about(click: Delivery) -> str:
    """Return the id of what was clicked, or the dialog was about; "" where that cannot be read."""
    try:
        payload = json.loads(click.body)
        read = (
            decode_action(payload["actions"][0])
            if click.kind == DeliveryKind.ACTION
            else decode_dialog(payload["view"])
        )
    except (LookupError, TypeError, ValueError):
        return ""
    match getattr(read, "target", None):
        case CallTarget(call=found) | CardTarget(plan=found) | RunTarget(run=found):
            return found
        case _:
            return ""


def _in_time(call: Call, clicked: Mapping[str, datetime]) -> bool:
    """Return whether it was clicked before its deadline."""
    at = [clicked[each] for each in (call.id, call.plan_id, call.run_id) if each in clicked]
    return bool(at) and call.deadline is not None and min(at) < call.deadline
