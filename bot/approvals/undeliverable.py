"""What cannot be shown: calls on a lost card are not done, and somebody is told so.

It sends nothing.
"""

from __future__ import annotations

from datetime import datetime

from bot.agent import outputs
from storage import calls, endings, inbox, moves, outbox, runs
from storage.models import Message
from storage.states import CallStatus, MessageKind, MessageStatus
from storage.transaction import Transaction

UNSEEN = "I could not show this to its approvers, so it will not happen."

NO_ROOT = "I could not write to you in a direct message, so nothing came of your request."
NO_FILE = (
    "I could not upload the file with all of it; what stands above is what there is to see here."
)
NO_ROWS = "I could not send you the file with all rows."
NO_TABLE = "I could not show the rows that were found: Slack did not take the table."


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
            runs.free(tx, call.run_id, at=at, actor="system")
    run = runs.get(tx, card.run_id) if lost else None
    if run is not None and run.channel != card.channel:
        outbox.notice(tx, run, f"unseen:{card.key}", {"text": UNSEEN})
    elif run is not None:  # what could not be posted there would not arrive there either
        to = run.requester
        outbox.private(tx, f"unseen:{card.key}", channel=to, thread_ts="", person=to, text=UNSEEN)
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
    outbox.change(tx, root, channel=run.requester, attempts=0, due_at=None)
    return True


def close_unrooted(tx: Transaction, root: Message, *, at: datetime) -> None:
    """Cancel a request whose first message could be shown nowhere, not even to who asked.

    They are told where they asked, if that was in a channel.
    """
    run = runs.get(tx, root.run_id)
    if run is None or not endings.cancel(tx, run, at=at, actor="system", words=outputs):
        return
    place = inbox.asked_in(tx, run.id)
    if place and place[0].startswith(("C", "G")):
        channel, thread = place
        outbox.private(
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
        outbox.private(tx, key, channel=to, thread_ts="", person=to, text=NO_ROWS)
        return
    run, text = runs.get(tx, row.run_id), NO_FILE if row.kind is MessageKind.FILE else NO_TABLE
    if run is not None:
        outbox.notice(tx, run, f"unsent:{row.key}", {"text": text})
