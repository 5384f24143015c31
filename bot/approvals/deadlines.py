"""Ends calls that are past their deadline or cannot be posted, and starts scheduled ones.

Expiry runs on the loop.

The next due time is in the call's row (`next_at`), so a restart loses none and repeats none.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping
from datetime import datetime

from bot.agent import outputs, prompt
from bot.approvals import call_state, person_questions
from bot.cards import button_codec, notices
from bot.clock import Clock
from bot.tools import Registry
from storage import calls, endings, inbox, moves, outbox, runs, schedule
from storage.database_errors import is_temporary_database_error
from storage.record import Call, Delivery, Message, Store, Transaction
from storage.states import CallStatus, DeliveryKind, MessageKind, MessageStatus

# Expiry: calls that nobody decided in time are denied by the clock, and the thread is told.

log = logging.getLogger("countersign.deadlines")


class CallExpirer:
    """Ends calls after their deadline. One per process; called by the loop only."""

    def __init__(self, store: Store, clock: Clock, tools: Registry) -> None:
        """Store the dependencies; `tools` describe what an expired call would have done."""
        self._store = store
        self._clock = clock
        self._tools = tools

    def expire_due_calls(self) -> bool:
        """End the calls whose deadline has passed, except those with a timely, unhandled click.

        Returns whether any was due. Raises temporary database errors: the loop tries again.
        """
        now = self._clock.now()
        with self._store.read() as tx:
            due = schedule.list_call_and_plan_ids_due_by(tx, now)
        together: dict[str, list[str]] = {}
        for call_id, plan_id in due:
            together.setdefault(plan_id, []).append(call_id)
        for ids in together.values():
            self._expire_calls_of_plan(ids, now)
        return bool(due)

    def _expire_calls_of_plan(self, ids: list[str], now: datetime) -> None:
        """End these calls of one plan, and say so in its thread, in one transaction.

        If one of the calls fails, each is handled in a transaction of its own.
        """
        try:
            with self._store.write() as tx:
                # read only inside the write transaction: by now every click in time has been stored
                arrived = inbox.list_new_deliveries(tx)
                clicked = _find_first_click_times(arrived)
                due_calls = [calls.get_call(tx, each) for each in ids]
                fallen = [
                    call
                    for call in due_calls
                    if not _was_clicked_in_time(call, clicked)
                    and not (
                        person_questions.is_question_to_person(call)
                        and person_questions.has_timely_unhandled_reply(tx, call, arrived)
                    )
                    and not _start_if_its_time_has_come(tx, call, now)
                    and endings.expire_call_if_overdue(
                        tx, call, at=now, output=_unanswered_question_text(call)
                    )
                ]
                if denied := [call for call in fallen if call.status is CallStatus.PENDING]:
                    self._announce_expiry(tx, denied)
        except Exception as error:
            if is_temporary_database_error(error):
                raise
            if len(ids) == 1:
                log.exception("call %s: could not be expired", ids[0])
                return
            for each in ids:
                self._expire_calls_of_plan([each], now)

    def _announce_expiry(self, tx: Transaction, fallen: list[Call]) -> None:
        """Say in the thread which calls of one plan have expired."""
        run = runs.get_run(tx, fallen[0].run_id)
        person_questions.announce_unanswered_questions(tx, run, fallen)
        fallen = [call for call in fallen if not person_questions.is_question_to_person(call)]
        if fallen:
            first, effects = fallen[0], [self._describe_effect(tx, call) for call in fallen]
            text = notices.nobody_decided_in_time_line(effects, first.deadline, run.requester)
            key, to = f"expired:{first.id}:{first.revision}", [run.requester]
            outbox.queue_notice(tx, run, key, {"text": text}, notified=to)

    def _describe_effect(self, tx: Transaction, call: Call) -> str:
        """Return what the call would have done; only the tool's name if that sentence fails."""
        try:
            return call_state.describe_call_effect(self._tools, tx, call)
        except Exception as error:
            if is_temporary_database_error(error):
                raise
            log.exception("run %s call %s: its expiry could not be announced", call.run_id, call.id)
            return call.tool


def _start_if_its_time_has_come(tx: Transaction, call: Call, now: datetime) -> bool:
    """Let an approved call go ahead whose time to start has come; return whether it does.

    A call whose votes do not approve it is left to expire.
    """
    shown = calls.find_call_with_votes(tx, call) if calls.is_scheduled(call) else None
    if shown is None or not call_state.list_vote_digests_if_approved(shown):
        return False
    return endings.approve_scheduled_call(
        tx, call, call_state.list_approving_votes(shown.votes), now
    )


def _unanswered_question_text(call: Call) -> str:
    """Return what the model gets for an unanswered question; "" for any other call."""
    return outputs.QUESTION_EXPIRED if person_questions.is_question_to_person(call) else ""


def _find_first_click_times(deliveries: Iterable[Delivery]) -> dict[str, datetime]:
    """Return when the first of these clicks about each call, plan or run was stored, by its id."""
    found: dict[str, datetime] = {}
    for each in deliveries:
        if each.kind in inbox.CLICK_KINDS:
            found.setdefault(_get_click_target_id(each), each.received_at)
    return found


def _get_click_target_id(click: Delivery) -> str:
    """Return the id of the call, plan or run a click or dialog is about; "" if it is unreadable."""
    try:
        payload = json.loads(click.body)
        if click.kind == DeliveryKind.SIGNATURE:
            return str(payload["call"])
        read = (
            button_codec.decode_clicked_element(payload["actions"][0])
            if click.kind == DeliveryKind.ACTION
            else button_codec.decode_dialog_subject(payload["view"])
        )
    except (LookupError, TypeError, ValueError):
        return ""
    match getattr(read, "target", None):
        case (
            button_codec.CallTarget(call=found)
            | button_codec.CardTarget(plan=found)
            | button_codec.RunTarget(run=found)
        ):
            return found
        case _:
            return ""


def _was_clicked_in_time(call: Call, clicked: Mapping[str, datetime]) -> bool:
    """Return whether the call was clicked before its deadline."""
    at = [clicked[each] for each in (call.id, call.plan_id, call.run_id) if each in clicked]
    return bool(at) and call.deadline is not None and min(at) < call.deadline


# Cards that Slack did not accept: their calls are cancelled, and the requester is told.

DELETED_AGAIN_CODE = "deleted twice"
DELETED_AGAIN_NOTICE = (
    "The message that asks for this was deleted in Slack twice. "
    "I have stopped asking, and nothing has been done."
)
NOT_SHOWN_NOTICE = "I could not show this to its approvers, so it will not happen."
NOT_POSTED_NOTICE = "I could not post there, so you get this here."

NO_DIRECT_MESSAGE_NOTICE = "I could not send you a direct message, so your request did not start."
NO_FILE_NOTICE = "I could not upload the full file, so only the part above is shown here."
NO_ROWS_NOTICE = "I could not send you the file with all rows."
NO_TABLE_NOTICE = "I could not show the rows: Slack did not accept the table."


def cancel_calls_of_failed_card(tx: Transaction, card: Message, code: str, *, at: datetime) -> bool:
    """Cancel the calls shown only by this card, which Slack refused; return whether any were.

    Return False when other copies of the card show all of them. `code` is why Slack refused the
    card, or DELETED_AGAIN_CODE. Runs in the caller's transaction, after the card was marked as
    failed.
    """
    shown_elsewhere = {
        call
        for other in outbox.list_cards_of_plan(tx, card.plan_id)
        if other.status is not MessageStatus.FAILED
        for call in outbox.parse_message_body(other)["calls"]
    }
    hidden = [
        calls.get_call(tx, call)
        for call in outbox.parse_message_body(card)["calls"]
        if call not in shown_elsewhere
    ]
    lost = [call for call in hidden if call.status is CallStatus.PENDING]
    for call in lost:
        note = f"the card could not be shown to its approvers ({code})"
        output = outputs.card_not_shown_output(note)
        moves.change_call_status(
            tx, call, CallStatus.CANCELLED, at=at, actor="system", output=output, note=note
        )
        moves.resume_run_if_unblocked(tx, call.run_id, at=at, actor="system")
    if lost:
        run = runs.get_run(tx, card.run_id)
        text = DELETED_AGAIN_NOTICE if code == DELETED_AGAIN_CODE else NOT_SHOWN_NOTICE
        outbox.queue_notice(tx, run, f"unseen:{card.key}", {"text": text})
    return bool(lost)


def send_unposted_message_to_requester(tx: Transaction, row: Message, *, at: datetime) -> None:
    """Send the requester an answer or notice that could not be posted in the request's thread.

    Runs in the caller's transaction, after the message was marked as failed. Does nothing for
    requests in direct messages, and for notices that are for other people.
    """
    run = runs.find_run(tx, row.run_id)
    if run is None or (row.channel, row.thread_ts) != (run.channel, run.thread_ts):
        return
    body = outbox.parse_message_body(row)
    to_others = body.get(outbox.NOTIFIED_KEY) and run.requester not in body[outbox.NOTIFIED_KEY]
    if run.channel.startswith("D") or to_others or not body.get("text"):
        return
    said = (
        prompt.extract_request_text(item)
        for item in runs.list_user_messages_until(tx, run.root_id, at)
    )
    asked = notices.quoted_request_notice(run.channel, next(filter(str.strip, said), ""))
    place = {"run_id": run.id, "channel": run.requester}
    for key, kind, told in (
        (f"unposted:{run.root_id}", MessageKind.NOTICE, {"text": f"{asked}\n{NOT_POSTED_NOTICE}"}),
        (f"private:{row.key}", row.kind, body),
    ):
        outbox.queue_message(
            tx, Message(key=key, kind=kind, body=outbox.dump_message_body(told), **place)
        )


def redirect_first_message_to_requester(tx: Transaction, root: Message) -> bool:
    """Move a request's first message, which cannot be posted, to its requester's direct messages.

    Return False if it was to be posted there already.
    """
    run = runs.find_run(tx, root.run_id)
    if run is None or root.channel == run.requester or root.channel.startswith("D"):
        return False
    if root.status is not MessageStatus.PENDING:
        moves.change_message_status(tx, root, MessageStatus.PENDING)
    outbox.update_message(tx, root, channel=run.requester, attempts=0, due_at=None)
    return True


def cancel_unpostable_request(tx: Transaction, root: Message, *, at: datetime) -> None:
    """Cancel a request whose first message could be posted nowhere, not even to its requester.

    The requester is told where they asked, if that was in a channel.
    """
    run = runs.find_run(tx, root.run_id)
    if run is None or not endings.cancel_run(tx, run, at=at, actor="system"):
        return
    place = inbox.find_first_delivery_thread(tx, run.id)
    if place and place[0].startswith(("C", "G")):
        channel, thread = place
        outbox.queue_private_message(
            tx,
            f"unrooted:{run.id}",
            channel=channel,
            thread_ts=thread,
            person=run.requester,
            text=NO_DIRECT_MESSAGE_NOTICE,
        )


def report_unsent_table_or_file(tx: Transaction, row: Message) -> None:
    """Tell the run's thread that Slack refused this message, a table or a file of rows.

    If the file was for one person, only they are told.
    """
    if to := row.recipient:
        key = f"unsent:{row.key}"
        outbox.queue_private_message(tx, key, person=to, text=NO_ROWS_NOTICE)
        return
    run = runs.find_run(tx, row.run_id)
    text = NO_FILE_NOTICE if row.kind is MessageKind.FILE else NO_TABLE_NOTICE
    if run is not None:
        outbox.queue_notice(tx, run, f"unsent:{row.key}", {"text": text})
