"""Who may use a dialog, checked when it is opened and when submitted; and who has one open.

A dialog shows all of a call, so it is only for people who may do what it is for; anybody else is
told why not, and the attempt is recorded. The same goes for the file with all rows. Any thread.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from bot.approvals.call_state import load_full_preview_table
from bot.approvals.permissions import PermissionChecker, reply_privately
from bot.cards import sentences
from bot.cards.action_names import Action, DialogId
from bot.cards.button_codec import CallTarget, CardTarget, Click, DialogSubject
from bot.cards.call_pieces import ALL_ROWS_SENT_REPLY
from bot.clock import Clock
from bot.policy.authority import Denial, Permission
from bot.tools import Table
from bot.tools.tables import csv_text
from storage import decisions, inbox, outbox, runs, trail
from storage.record import Call, Delivery, Message, Run, Store, Transaction
from storage.states import CallVerb, MessageKind

# people who cannot approve for one of these reasons may still reject, so they may look
VIEW_ONLY_REASONS = frozenset({Denial.OWN_REQUEST, Denial.OWN_EDIT, Denial.NOT_YET})


@dataclass(frozen=True, slots=True)
class DialogAdmission:
    """Permission to use the dialog, with the calls it is about."""

    run: Run
    calls: tuple[Call, ...]
    view_only_reason: str = ""  # why they may only look; "" if they may do what the dialog is for


@dataclass(frozen=True, slots=True)
class DialogRefusal:
    """Refusal of a dialog; the sentence is for the person who asked for it."""

    sentence: str
    call: Call | None = None  # a call that it is about; None if there is none any more
    why: Denial | None = None


class DialogAccessChecker:
    """Checks who may use a dialog, and records it in the audit."""

    def __init__(self, store: Store, clock: Clock, permissions: PermissionChecker) -> None:
        """Store the dependencies; `permissions` says who may decide."""
        self._store = store
        self._clock = clock
        self._permissions = permissions

    def decide_access(
        self, verb: CallVerb, target: CallTarget | CardTarget, person: str, team: str
    ) -> DialogAdmission | DialogRefusal:
        """Return whether `person` may do `verb` to a call now, or to any pending call of a card.

        `team` is the workspace they come from: people from outside are refused without a look-up.
        Somebody who may reject but not approve is admitted to look.
        """
        now = self._clock.now()
        with self._store.read() as tx:
            if isinstance(target, CallTarget):
                check_result = decisions.check_vote_is_possible(
                    tx, target.call, target.revision, verb, now
                )
                waiting = (
                    [check_result.call] if isinstance(check_result, decisions.DecidableCall) else []
                )
            else:
                check_result = None
                waiting = decisions.list_pending_calls_on_card(
                    tx, target.plan, target.revision, target.card
                )
            run = runs.find_run(tx, waiting[0].run_id) if waiting else None
        if run is None:
            return DialogRefusal(self._permissions.too_late_sentence(check_result, person))
        verdict: Permission | Denial = Denial.STRANGER
        for call in waiting if team == self._permissions.authority.team else []:
            verdict = self._permissions.judge_action(verb, call, run, person, at=now)
            if isinstance(verdict, Permission):
                return DialogAdmission(run, tuple(waiting))
        assert isinstance(verdict, Denial)
        sentence = self._permissions.refusal_sentence(verdict, waiting[0], verb)
        if verb is CallVerb.APPROVE and verdict in VIEW_ONLY_REASONS:
            return DialogAdmission(run, tuple(waiting), sentence)
        return DialogRefusal(sentence, waiting[0], verdict)

    def record_refused_access(
        self, tx: Transaction, turned: DialogRefusal, person: str, dialog: str
    ) -> None:
        """Record in the audit that somebody tried to use a dialog that they may not use."""
        if call := turned.call:
            details = {"dialog": dialog, "why": turned.why or ""}
            self._record_event(tx, "dialog.refused", call, person, details)

    def record_call_shown(
        self, tx: Transaction, call: Call, person: str, dialog: str, *, more: bool
    ) -> None:
        """Record in the audit that somebody was shown all of a call.

        `more`: whether that is more than everybody is shown.
        """
        event = "call.revealed" if more else "call.shown"
        details = {"dialog": dialog, "digest": call.digest}
        self._record_event(tx, event, call, person, details)

    def _record_event(
        self, tx: Transaction, event: str, call: Call, person: str, details: dict[str, str]
    ) -> None:
        at, run = self._clock.now(), call.run_id
        data = {**details, "tool": call.tool, "revision": call.revision}
        trail.record_event(tx, event, at=at, actor=person, run_id=run, call_id=call.id, data=data)


class PreviewRowsSender:
    """Sends a person all rows of a table that a preview shows in part; on the loop."""

    def __init__(self, store: Store, access: DialogAccessChecker) -> None:
        """Store the dependencies; the rows are for people whom `access` admits to Review."""
        self._store = store
        self._access = access

    def get_action_handlers(self) -> Mapping[Action | DialogId, Any]:
        """Return the handler of the button that asks for the rows."""
        return {Action.ROWS: self.send_rows}

    def send_rows(
        self, delivery: Delivery, asked: Click | DialogSubject, _payload: dict[str, Any]
    ) -> None:
        """Send a file of all rows to the person who clicked, in a direct message, or say why not.

        Settles the delivery. Looks people up.
        """
        assert isinstance(asked.target, CallTarget)
        person = delivery.user
        access_decision = self._access.decide_access(
            CallVerb.APPROVE, asked.target, person, delivery.team
        )
        with self._store.write() as tx:
            match access_decision:
                case DialogRefusal(sentence=sentence):
                    self._access.record_refused_access(tx, access_decision, person, Action.ROWS)
                    reply_privately(tx, delivery, sentence)
                    inbox.mark_delivery_done(tx, delivery, "refused")
                case DialogAdmission(calls=(call, *_)):
                    self._queue_rows_file(tx, delivery, call)

    def _queue_rows_file(self, tx: Transaction, delivery: Delivery, call: Call) -> None:
        rows = load_full_preview_table(call)
        if rows is None:
            reply_privately(tx, delivery, sentences.OUTDATED_CARD_REPLY)
            inbox.mark_delivery_done(tx, delivery, "no rows")
            return
        self._access.record_call_shown(tx, call, delivery.user, Action.ROWS, more=True)
        outbox.queue_message(tx, _build_rows_message(delivery, call, rows))
        reply_privately(tx, delivery, ALL_ROWS_SENT_REPLY)
        inbox.mark_delivery_done(tx, delivery, "rows sent")


def _build_rows_message(delivery: Delivery, call: Call, rows: Table) -> Message:
    # unique, so that the file can be found if Slack's answer is lost
    name = f"{call.tool}-{call.id[:8]}-{call.revision}-{delivery.seq}.csv"
    title = f"{rows.title}{', the first of them' if rows.more else ''} (#{call.digest[:8]})"
    file = {"name": name, "title": title, "content": csv_text(rows)}
    return Message(
        key=f"rows:{delivery.seq}",
        kind=MessageKind.FILE,
        run_id=call.run_id,
        channel=delivery.user,
        recipient=delivery.user,
        body=outbox.dump_message_body(file),
    )


# Who has a waiting call open in a dialog now: its card says so, so that others need not read it
# too. Kept in this process's memory only. Each opening costs two updates of one card.

VIEWING_SHOWN_DURATION = timedelta(minutes=2)  # how long a card says that somebody has it open
CARD_UPDATE_DELAY = timedelta(seconds=1)  # a decision made within it redraws the card anyway
ViewedCard = tuple[str, str]  # the card's channel, and its message's key


class CardViewers:
    """The people with an open dialog, by card, and when cards are due to show them; any thread."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        # by person, as each has at most one dialog open, with the time they opened it
        self._views: dict[str, tuple[ViewedCard, datetime]] = {}
        self._due: dict[ViewedCard, datetime] = {}  # the latest time at which a card is redrawn

    def start_viewing(self, person: str, card: ViewedCard, now: datetime) -> None:
        """Note that a person has opened a dialog about a call on this card."""
        with self._lock:
            self._views[person] = card, now
            self._due[card] = min(
                now + CARD_UPDATE_DELAY, self._due.get(card, now + CARD_UPDATE_DELAY)
            )

    def end_viewing(self, person: str, now: datetime) -> bool:
        """Note that a person has decided or closed their dialog; return whether one was open."""
        with self._lock:
            card, _ = self._views.pop(person, (None, now))
            if card:
                self._due[card] = now + CARD_UPDATE_DELAY
            return card is not None

    def list_viewers(self, card: ViewedCard, now: datetime) -> dict[str, datetime]:
        """Return who has a dialog about this card open, and since when.

        To be called when the card is drawn with them: notes when it is due to be drawn again.
        """
        with self._lock:
            of_card = {who: since for who, (each, since) in self._views.items() if each == card}
            found = {
                who: since for who, since in of_card.items() if now < since + VIEWING_SHOWN_DURATION
            }
            if found:
                self._due[card] = min(found.values()) + VIEWING_SHOWN_DURATION
            else:
                self.forget_card(card)
            return found

    def forget_card(self, card: ViewedCard) -> None:
        """Forget who has a dialog about this card open, and that it is due to be redrawn."""
        with self._lock:
            self._views = {who: each for who, each in self._views.items() if each[0] != card}
            self._due.pop(card, None)

    def list_due_channels(self, now: datetime) -> set[str]:
        """Return the channels with cards that are due to be redrawn with their viewers."""
        with self._lock:
            return {channel for (channel, _), at in self._due.items() if at <= now}

    def pop_due_keys(self, channel: str, now: datetime) -> list[str]:
        """Return the keys of the channel's cards due to be redrawn, which are then due no more."""
        with self._lock:
            due = [card for card, at in self._due.items() if card[0] == channel and at <= now]
            for card in due:
                self._due.pop(card)
            return [key for _, key in due]

    def find_next_due_time(self, now: datetime) -> datetime | None:
        """Return when the next card is due to be redrawn after `now`; None if none is."""
        with self._lock:
            return min((at for at in self._due.values() if at > now), default=None)
