"""Who may use a dialog: checked when it is opened and when it is submitted. Any thread.

A dialog shows all of a call, so it is only for people who may do what it is for; anybody else is
told why not, and the attempt is recorded. The same goes for the file with all rows.
"""

from __future__ import annotations

from dataclasses import dataclass

from bot.approvals.call_state import all_rows
from bot.approvals.permissions import Permissions
from bot.approvals.replies import tell
from bot.cards import refusals
from bot.cards.action_names import Action
from bot.cards.button_codec import CallTarget, CardTarget
from bot.cards.call_pieces import ROWS_SENT
from bot.clock import Clock
from bot.policy.authority import No, Yes
from bot.tools import Table
from bot.tools.tables import csv_text
from storage import decisions, inbox, outbox, runs, trail
from storage.decisions import OpenRevision
from storage.models import Call, Delivery, Message, Run
from storage.states import MessageKind, Verb
from storage.store import Store
from storage.transaction import Transaction

# who cannot approve for one of these may reject, and so may look
LOOKS_ON = frozenset({"own_request", "own_edit", "not_yet"})


@dataclass(frozen=True, slots=True)
class DialogAdmission:
    """Permission to use the dialog, with the calls it is about."""

    run: Run
    calls: tuple[Call, ...]
    bar: str = ""  # why they may only look; "" when they may do what the dialog is for


@dataclass(frozen=True, slots=True)
class DialogRefusal:
    """Refusal of a dialog; the sentence is for the person who asked for it."""

    sentence: str
    call: Call | None = None  # one that it is about; None where there is none any more
    why: str = ""


class DialogAccess:
    """Checks access to all dialogs, and records it."""

    def __init__(self, store: Store, clock: Clock, permissions: Permissions) -> None:
        """Store the dependencies; `permissions` says who may decide."""
        self._store = store
        self._clock = clock
        self._permissions = permissions

    def admit(
        self, verb: Verb, target: CallTarget | CardTarget, person: str, team: str
    ) -> DialogAdmission | DialogRefusal:
        """Return whether `person` may do this to a call now, or to any pending call of a card.

        `team` is the workspace they come from: people from outside are refused without a look-up.
        Somebody who may reject but not approve is admitted to look.
        """
        now = self._clock.now()
        with self._store.read() as tx:
            if isinstance(target, CallTarget):
                found = decisions.check_decidable(tx, target.call, target.revision, now)
                waiting = [found.call] if isinstance(found, OpenRevision) else []
            else:
                found = None
                waiting = decisions.pending_calls_on_card(
                    tx, target.plan, target.revision, target.card
                )
            run = runs.get(tx, waiting[0].run_id) if waiting else None
        if run is None:
            lost = self._permissions.lost(found, person) if found else refusals.stale_card()
            return DialogRefusal(lost)
        verdict: Yes | No = No("stranger")
        for call in waiting if team == self._permissions.team else []:
            verdict = self._permissions.verdict(verb, call, run, person, at=now)
            if isinstance(verdict, Yes):
                return DialogAdmission(run, tuple(waiting))
        assert isinstance(verdict, No)
        sentence = self._permissions.refusal(verdict, waiting[0], verb)
        if verb is Verb.APPROVE and verdict.why in LOOKS_ON:
            return DialogAdmission(run, tuple(waiting), sentence)
        return DialogRefusal(sentence, waiting[0], verdict.why)

    def record(self, tx: Transaction, turned: DialogRefusal, person: str, dialog: str) -> None:
        """Record in the audit that somebody tried to use a dialog who may not."""
        if call := turned.call:
            details = {"dialog": dialog, "why": turned.why}
            self._write(tx, "dialog.refused", call, person, details)

    def record_shown(
        self, tx: Transaction, call: Call, person: str, dialog: str, *, more: bool
    ) -> None:
        """Record in the audit that somebody was shown all of a call.

        `more`: whether that is more than everybody is shown.
        """
        event = "call.revealed" if more else "call.shown"
        details = {"dialog": dialog, "digest": call.digest}
        self._write(tx, event, call, person, details)

    def _write(
        self, tx: Transaction, event: str, call: Call, person: str, details: dict[str, str]
    ) -> None:
        at, run = self._clock.now(), call.run_id
        data = {**details, "tool": call.tool, "revision": call.revision}
        trail.record(tx, event, at=at, actor=person, run_id=run, call_id=call.id, data=data)


class AllRows:
    """Sends a person all rows of a table that a preview shows in part; on the loop."""

    def __init__(self, store: Store, access: DialogAccess) -> None:
        """Store the dependencies; the rows are for people whom `access` admits to Review."""
        self._store = store
        self._access = access

    def send(self, delivery: Delivery, target: CallTarget) -> None:
        """Send the file to the person who clicked, in a direct message, or say why not.

        Settles the delivery. Looks people up.
        """
        person = delivery.user
        found = self._access.admit(Verb.APPROVE, target, person, delivery.team)
        with self._store.write() as tx:
            match found:
                case DialogRefusal(sentence=sentence):
                    self._access.record(tx, found, person, Action.ROWS)
                    tell(tx, delivery, sentence)
                    inbox.settle_delivery(tx, delivery, "refused")
                case DialogAdmission(calls=(call, *_)):
                    self._put(tx, delivery, call)

    def _put(self, tx: Transaction, delivery: Delivery, call: Call) -> None:
        rows = all_rows(call)
        if rows is None:
            tell(tx, delivery, refusals.stale_card())
            inbox.settle_delivery(tx, delivery, "no rows")
            return
        self._access.record_shown(tx, call, delivery.user, Action.ROWS, more=True)
        outbox.put_message(tx, _file(delivery, call, rows))
        tell(tx, delivery, ROWS_SENT)
        inbox.settle_delivery(tx, delivery, "rows sent")


def _file(delivery: Delivery, call: Call, rows: Table) -> Message:
    name = f"{call.tool}-{call.id[:8]}-{call.revision}-{delivery.seq}.csv"  # nobody else's
    title = f"{rows.title}{', the first of them' if rows.more else ''} (#{call.digest[:8]})"
    file = {"name": name, "title": title, "content": csv_text(rows)}
    return Message(
        key=f"rows:{delivery.seq}",
        kind=MessageKind.FILE,
        run_id=call.run_id,
        channel=delivery.user,
        recipient=delivery.user,
        body=outbox.dump_body(file),
    )
