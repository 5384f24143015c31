"""Requests whose message is edited or deleted, or whose requester has left.

Their cards say so, or the request is withdrawn.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from bot.approvals import deadlines
from bot.cards import answers, notices
from bot.cards.views import extract_message_text, is_deletion, mentions_bot
from bot.policy.authority import Authority
from storage import calls, endings, inbox, outbox, runs, trail, transcripts
from storage.record import Delivery, Message, Run, Store, Transaction
from storage.states import DeliveryStatus, MessageKind

MESSAGE_CHANGE_SUBTYPES = ("message_changed", "message_deleted")
NO_REQUEST_CHANGED_NOTE = "no request's message changed"
NOT_ADDRESSED_NOTE = "not addressed to the bot"  # compared with stored rows


def cancel_requests_if_person_left(
    store: Store, authority: Authority, person: str, at: datetime
) -> list[Run]:
    """Cancel a person's open requests if they have left or become a guest; return them.

    Their cards say so: nobody is left who wants the result. Slack is asked, as its event may be
    about another workspace of an organisation. Raises LookupFailedError and LookupPendingError.
    """

    def is_theirs(run: Run) -> bool:
        return (run.team, run.requester) == (authority.team, person)

    with store.read() as tx:
        has_asked = runs.has_open_run(tx, authority.team, person)
    if not has_asked or authority.is_active_colleague(person):
        return []
    text = notices.requester_left_notice(person)
    return cancel_requests(store, is_theirs, at, notices.REQUESTER_LEFT_REASON, text)


def cancel_requests(
    store: Store, chosen: Callable[[Run], bool], at: datetime, note: str, text: str
) -> list[Run]:
    """Cancel the open requests that `chosen` picks; return them.

    Their cards say `note`, and a line in their threads says `text`.
    """
    with store.write() as tx:
        found = (run for run in runs.list_open_and_failed_runs(tx) if chosen(run))
        first = [run for run in found if not run.parent_call and runs.is_run_open(run)]
        for run in first:
            parts = runs.list_open_runs_of_request(tx, run.id)
            plans = [plan.id for each in parts for plan in calls.list_open_plans(tx, each.id)]
            endings.cancel_run(tx, run, at=at, actor="system", note=note)
            outbox.queue_line_in_all_threads(tx, run, plans, f"left:{run.id}", text)
    return first


@dataclass(frozen=True, slots=True)
class MessageChangeOutcome:
    """The result of an edited or deleted message."""

    note: str  # for the operator
    ended: Run | None = None  # the run that this ended
    message: dict[str, Any] | None = None  # the event of the message that the delivery is now


def process_message_change(
    tx: Transaction, delivery: Delivery, event: Mapping[str, Any], *, at: datetime, bot_user: str
) -> MessageChangeOutcome:
    """Process an edit or deletion of a Slack message.

    An edit that adds the bot's mention becomes a message for the bot, which is not handled yet.
    Any other change is applied to its request, and done.
    """
    if message := _take_edit_as_message(tx, delivery, event, bot_user):
        return MessageChangeOutcome("the bot's mention was added", message=message)
    outcome = _apply_message_change_to_request(tx, delivery, event, at=at, bot_user=bot_user)
    inbox.finish_delivery_and_erase_body(tx, delivery, outcome.note)
    return outcome


def _take_edit_as_message(
    tx: Transaction, delivery: Delivery, event: Mapping[str, Any], bot_user: str
) -> dict[str, Any] | None:
    """Make a delivery of an edit the message itself, if nobody could tell before that it is for us.

    That is so if the edit adds the bot's mention. Slack sends `app_mention` as well, but with the
    key of a message that may be handled already. Returns the message's event; None if it is not so.
    """
    after, before = event.get("message") or {}, event.get("previous_message") or {}
    if not before or mentions_bot(before, bot_user) or not mentions_bot(after, bot_user):
        return None
    key = transcripts.build_message_key(delivery.team, delivery.channel, after["ts"])
    original = inbox.find_delivery(tx, key)
    if original is not None and original.note != NOT_ADDRESSED_NOTE:
        return None
    place = {each: event[each] for each in ("channel", "channel_type") if each in event}
    message = {**after, "type": "message", **place}
    delivery.key, delivery.user = key, str(after.get("user") or "")
    delivery.thread_ts = str(after.get("thread_ts") or after["ts"])
    delivery.body = json.dumps(json.loads(delivery.body) | {"event": message})
    inbox.replace_delivery(tx, original, delivery)
    return message


def _apply_message_change_to_request(
    tx: Transaction, delivery: Delivery, event: Mapping[str, Any], *, at: datetime, bot_user: str
) -> MessageChangeOutcome:
    """Apply an edit or deletion of a Slack message to its request.

    Nothing changes if the request has ended, or if an edit leaves the words the same, as when Slack
    adds a link's preview.
    """
    after = event.get("message") or {}
    before = event.get("previous_message") or {}
    ts = event.get("deleted_ts") or after.get("ts") or before.get("ts") or ""
    key = transcripts.build_message_key(delivery.team, delivery.channel, ts)
    is_deleted = is_deletion(event)
    if is_deleted and (card := outbox.find_card(tx, delivery.channel, ts)):
        return _restore_deleted_card(tx, card)
    _withhold_removed_files(tx, key, before, {} if is_deleted else after, at)
    original = inbox.find_delivery(tx, key)
    if original is None:
        is_for_us = is_deleted and _may_be_for_bot(tx, delivery, event, before, bot_user)
        if not is_for_us:
            return MessageChangeOutcome(NO_REQUEST_CHANGED_NOTE)
        return MessageChangeOutcome(_store_deleted_message(tx, delivery, key, before))
    if original.status is DeliveryStatus.NEW:
        changed = None if is_deleted else after
        return MessageChangeOutcome(_change_unread_message(tx, original, changed))
    run = runs.find_run(tx, original.run_id) if original.run_id else None
    if run is None or not runs.is_run_open(run):
        return MessageChangeOutcome("no open request's message changed")
    if is_deleted:
        if inbox.is_first_delivery_of_run(tx, original):
            return _cancel_deleted_request(tx, run, event, ts, at)
        return _record_deleted_message(tx, run, original, ts, at)
    if original.status is DeliveryStatus.HELD:
        return MessageChangeOutcome(_change_unread_message(tx, original, after))
    if (words := json.loads(original.body).get("event")) is None:
        # its deletion came in first
        return MessageChangeOutcome("the message was deleted before it was read")
    read = extract_message_text(words, bot_user)
    old_text = extract_message_text(before, bot_user) if before else read
    text = extract_message_text(after, bot_user)
    if text == old_text:
        return MessageChangeOutcome("the words are the same")
    trail.record_event(
        tx, "request.edited", at=at, actor=original.user, run_id=run.id, data={"message": ts}
    )
    runs.store_edited_message_text(tx, run, ts, None if text == read else text)
    _post_in_thread_and_under_cards(
        tx, run, delivery, answers.request_edited_notice(original.user, text)
    )
    return MessageChangeOutcome("request edited")


def _restore_deleted_card(tx: Transaction, card: Message) -> MessageChangeOutcome:
    """Have a card that somebody deleted posted again if people can still decide on it.

    The redraw finds that it is gone.
    """
    shown = (calls.get_call(tx, each) for each in outbox.parse_message_body(card)["calls"])
    if not any(map(calls.is_waiting_for_people, shown)):
        return MessageChangeOutcome("a card with nothing to decide was deleted")
    outbox.mark_cards_for_redraw(tx, card.plan_id)
    return MessageChangeOutcome("a waiting card was deleted")


def _may_be_for_bot(
    tx: Transaction,
    delivery: Delivery,
    event: Mapping[str, Any],
    before: Mapping[str, Any],
    bot_user: str,
) -> bool:
    """Return whether a message that never arrived may have been for the bot."""
    if event.get("channel_type") == "im" or mentions_bot(before, bot_user):
        return True
    thread = before.get("thread_ts") or ""
    return bool(
        thread and runs.find_newest_run_in_thread(tx, delivery.team, delivery.channel, thread)
    )


def _store_deleted_message(
    tx: Transaction, delivery: Delivery, key: str, before: Mapping[str, Any]
) -> str:
    """Store as handled a message deleted before Slack delivered it; return a note of it."""
    never = Delivery(
        key=key,
        kind=delivery.kind,
        team=delivery.team,
        user=str(before.get("user") or delivery.user),
        channel=delivery.channel,
        thread_ts=str(before.get("thread_ts") or before.get("ts") or delivery.thread_ts),
        body="{}",
        received_at=delivery.received_at,
    )
    note = "deleted before it was delivered"
    if inbox.insert_delivery(tx, never) and (stored := inbox.find_delivery(tx, key)):
        inbox.finish_delivery_and_erase_body(tx, stored, note)
    return note


def _withhold_removed_files(
    tx: Transaction, key: str, before: Mapping[str, Any], after: Mapping[str, Any], at: datetime
) -> None:
    """Withhold from the model the files that were removed with this change of a message."""
    there, had = _list_file_ids(after), _list_file_ids(before)
    for file in transcripts.list_files_of_message(tx, key):
        if file.slack_id not in there and (file.slack_id in had or not after):
            transcripts.withhold_file(
                tx, file, transcripts.WithheldReason.DELETED, at=at, actor="system"
            )


def _list_file_ids(message: Mapping[str, Any]) -> set[str]:
    """Return the Slack ids of a message's files, without deleted ones."""
    files = message.get("files") or ()
    return {str(each.get("id")) for each in files if each.get("mode") != "tombstone"}


def _change_unread_message(
    tx: Transaction, asked: Delivery, after: Mapping[str, Any] | None
) -> str:
    """Store the new text of a message not read yet, or drop a deleted one; return a note of it."""
    if after is None:
        inbox.finish_delivery_and_erase_body(tx, asked, "deleted before it was read")
        return "deleted before it was read"
    body = json.loads(asked.body)
    lists = {name: after.get(name) or [] for name in ("files", "attachments", "blocks")}
    body["event"] |= {"text": after.get("text") or "", **lists}
    inbox.replace_body_of_unread_message(tx, asked, json.dumps(body))
    return "edited before it was read"


def _cancel_deleted_request(
    tx: Transaction, run: Run, event: Mapping[str, Any], ts: str, at: datetime
) -> MessageChangeOutcome:
    """Cancel a request whose message was deleted; without a thread, the requester is told alone."""
    data = {"message": ts, "why": "its message was deleted"}
    trail.record_event(tx, "request.withdrawn", at=at, actor="system", run_id=run.id, data=data)
    endings.cancel_run(tx, run, at=at, actor="system")
    key, told = f"cancelled:{run.id}", {"text": answers.REQUEST_DELETED_NOTICE}
    is_thread_gone = event["subtype"] == "message_deleted" and run.thread_ts == ts
    if is_thread_gone and not run.channel.startswith("D"):
        place = {"run_id": run.id, "channel": run.channel, "thread_ts": run.thread_ts}
        body = outbox.dump_message_body(told)
        notice = Message(key=key, kind=MessageKind.NOTICE, body=body, **place)
        deadlines.send_unposted_message_to_requester(tx, notice, at=at)
    else:
        outbox.queue_notice(tx, run, key, told)
    return MessageChangeOutcome("request withdrawn", run)


def _record_deleted_message(
    tx: Transaction, run: Run, asked: Delivery, ts: str, at: datetime
) -> MessageChangeOutcome:
    """Record that a later message of a request was deleted; the request goes on.

    If the model has not read the message yet, it never will.
    """
    if asked.status is DeliveryStatus.HELD:
        inbox.finish_delivery_and_erase_body(tx, asked, "deleted before it was read")
    data = {"message": ts, "read": asked.status is DeliveryStatus.DONE}
    trail.record_event(tx, "request.unsaid", at=at, actor=asked.user, run_id=run.id, data=data)
    return MessageChangeOutcome("a later message of the request was deleted")


def _post_in_thread_and_under_cards(
    tx: Transaction, run: Run, delivery: Delivery, text: str
) -> None:
    """Post a text in the request's thread and below its cards in other places; redraw the cards."""
    agents = runs.list_open_runs_of_request(tx, run.root_id)
    plans = [plan for each in agents for plan in calls.list_open_plans(tx, each.id)]
    for plan in plans:
        outbox.mark_cards_for_redraw(tx, plan.id)
    outbox.queue_line_in_all_threads(
        tx, run, [each.id for each in plans], f"reworded:{delivery.seq}", text
    )
