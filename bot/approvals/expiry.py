"""Deadlines fall: what nobody decided in time is denied by the clock, and the thread is told."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping
from datetime import datetime

from bot.agent import outputs
from bot.approvals.call_state import effect_of
from bot.approvals.person_questions import is_question, replied_in_time, say_unanswered
from bot.cards import notices
from bot.cards.button_codec import CallTarget, CardTarget, RunTarget, decode_action, decode_dialog
from bot.clock import Clock
from bot.tools import Registry
from storage import calls, endings, inbox, moves, outbox, runs, schedule
from storage.availability import may_pass
from storage.models import Call, Delivery, Message
from storage.states import CallStatus, DeliveryKind, MessageKind, MessageStatus
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
            due = schedule.due_calls(tx, now)
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
                arrived = inbox.new_deliveries(tx)
                clicked = _clicked(arrived)
                found = [calls.get(tx, each) for each in ids]
                fallen = [
                    call
                    for call in found
                    if call
                    and not _in_time(call, clicked)
                    and not (is_question(call) and replied_in_time(tx, call, arrived))
                    and endings.expire_call(tx, call, at=now, words=outputs, output=_told(call))
                ]
                if denied := [call for call in fallen if call.status is CallStatus.PENDING]:
                    self._announce(tx, denied)
        except Exception as error:
            if may_pass(error):
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
            if may_pass(error):
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


# What cannot be shown: calls on a lost card are not done, and somebody is told so.

UNSEEN = "I could not show this to its approvers, so it will not happen."

NO_ROOT = "I could not send you a direct message, so your request did not start."
NO_FILE = (
    "I could not upload the file with all of it; what stands above is what there is to see here."
)
NO_ROWS = "I could not send you the file with all rows."
NO_TABLE = "I could not show the rows: Slack did not accept the table."


def close_unseen(tx: Transaction, card: Message, code: str, *, at: datetime) -> bool:
    """Cancel what only this card, given up as `code`, asked for, and tell the request.

    Return False when copies of the card show all of it.

    In the caller's transaction, after the card was marked as failed.
    """
    copies = (
        [
            other
            for other in outbox.cards(tx, card.plan_id)
            if other.status is not MessageStatus.FAILED
        ]
        if card.plan_id
        else []
    )
    shown = {call for copy in copies for call in outbox.body(copy)["calls"]}
    lost = [call for call in outbox.body(card).get("calls", []) if call not in shown]
    for call_id in lost:
        call = calls.get(tx, call_id)
        if call is not None and call.status is CallStatus.PENDING:
            note = f"the card could not be shown to its approvers ({code})"
            output = outputs.unseen(note)
            moves.call(
                tx, call, CallStatus.CANCELLED, at=at, actor="system", output=output, note=note
            )
            runs.free_if_decided(tx, call.run_id, at=at, actor="system")
    run = runs.get(tx, card.run_id) if lost else None
    if run is not None and run.channel != card.channel:
        outbox.notice(tx, run, f"unseen:{card.key}", {"text": UNSEEN})
    elif run is not None:  # what could not be posted there would not arrive there either
        to = run.requester
        outbox.put_private(
            tx, f"unseen:{card.key}", channel=to, thread_ts="", person=to, text=UNSEEN
        )
    return bool(lost)


def elsewhere(tx: Transaction, root: Message) -> bool:
    """Have a request begin in a direct message with who asked, as it cannot where it was to.

    Return False where that is what could not be done.
    """
    run = runs.get(tx, root.run_id)
    if run is None or root.channel == run.requester or root.channel.startswith("D"):
        return False
    if root.status is not MessageStatus.PENDING:
        moves.message(tx, root, MessageStatus.PENDING)
    outbox.update_message(tx, root, channel=run.requester, attempts=0, due_at=None)
    return True


def close_unrooted(tx: Transaction, root: Message, *, at: datetime) -> None:
    """Cancel a request whose first message could be shown nowhere, not even to who asked.

    They are told where they asked, if that was in a channel.
    """
    run = runs.get(tx, root.run_id)
    if run is None or not endings.cancel_run(tx, run, at=at, actor="system", words=outputs):
        return
    place = inbox.asked_in(tx, run.id)
    if place and place[0].startswith(("C", "G")):
        channel, thread = place
        outbox.put_private(
            tx,
            f"unrooted:{run.id}",
            channel=channel,
            thread_ts=thread,
            person=run.requester,
            text=NO_ROOT,
        )


def tell_of_rows(tx: Transaction, row: Message) -> None:
    """Tell the thread, which was to get a table or was promised a file, that Slack took neither.

    A file for one person is their business alone.
    """
    if to := row.recipient:
        key = f"unsent:{row.key}"
        outbox.put_private(tx, key, channel=to, thread_ts="", person=to, text=NO_ROWS)
        return
    run, text = runs.get(tx, row.run_id), NO_FILE if row.kind is MessageKind.FILE else NO_TABLE
    if run is not None:
        outbox.notice(tx, run, f"unsent:{row.key}", {"text": text})
