"""What becomes of a request whose message is edited or deleted: it says so, or is withdrawn."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from bot.agent import outputs
from bot.messages import answers
from bot.messages.incoming import message_text
from storage import attached_files, calls, endings, inbox, outbox, runs, sub_agents, trail
from storage.models import Delivery, Run
from storage.states import DeliveryStatus
from storage.transaction import Transaction

CHANGES = ("message_changed", "message_deleted")
UNASKED = "no request's message changed"


@dataclass(frozen=True, slots=True)
class Heeded:
    """What came of a change to a message."""

    note: str  # for the operator
    ended: Run | None = None  # the run that is over by it


def changed(
    tx: Transaction, delivery: Delivery, event: Mapping[str, Any], *, at: datetime, bot_user: str
) -> Heeded:
    """Heed what became of a message.

    Nothing that has ended changes, nor what Slack alone altered, as when it adds a link's preview.
    """
    after = event.get("message") or {}
    before = event.get("previous_message") or {}
    ts = event.get("deleted_ts") or after.get("ts") or before.get("ts") or ""
    key = attached_files.message_key(delivery.team, delivery.channel, ts)
    # a deleted message that has replies stays as an empty one
    gone = event["subtype"] == "message_deleted" or after.get("subtype") == "tombstone"
    _let_go_of_files(tx, key, before, {} if gone else after, at)
    asked = inbox.find(tx, key)
    if asked is None:
        is_for_us = gone and _may_be_for_us(tx, delivery, event, before, bot_user)
        return Heeded(_never_to_be_read(tx, delivery, key, before) if is_for_us else UNASKED)
    if asked.status is DeliveryStatus.NEW:
        return Heeded(_before_it_was_read(tx, asked, None if gone else after))
    run = runs.get(tx, asked.run_id) if asked.run_id else None
    if run is None or not runs.is_open(run):
        return Heeded("no open request's message changed")
    if gone:
        if inbox.begins(tx, asked):
            return _withdraw(tx, run, ts, at)
        return _take_back(tx, run, asked, ts, at)
    if asked.status is DeliveryStatus.HELD:
        return Heeded(_before_it_was_read(tx, asked, after))
    if (words := json.loads(asked.body).get("event")) is None:
        return Heeded("the message was deleted before it was read")  # Slack told of that first
    read = message_text(words, bot_user)
    old = message_text(before, bot_user) if before else read
    text = message_text(after, bot_user)
    if text == old:
        return Heeded("the words are the same")
    trail.record(tx, "request.edited", at=at, actor=asked.user, run_id=run.id, data={"message": ts})
    runs.reword(tx, run, ts, None if text == read else text)
    _tell(tx, run, delivery, answers.request_edited(asked.user, text))
    return Heeded("request edited")


def _may_be_for_us(
    tx: Transaction,
    delivery: Delivery,
    event: Mapping[str, Any],
    before: Mapping[str, Any],
    bot_user: str,
) -> bool:
    """Return whether a message that never came may have been for the bot."""
    if event.get("channel_type") == "im" or f"<@{bot_user}" in (before.get("text") or ""):
        return True
    thread = before.get("thread_ts") or ""
    return bool(thread and runs.in_thread(tx, delivery.team, delivery.channel, thread))


def _never_to_be_read(
    tx: Transaction, delivery: Delivery, key: str, before: Mapping[str, Any]
) -> str:
    """Have a message that is deleted before Slack delivers it count as delivered, and done with."""
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
    if inbox.store_delivery(tx, never) and (stored := inbox.find(tx, key)):
        inbox.forget(tx, stored, note)
    return note


def _let_go_of_files(
    tx: Transaction, key: str, before: Mapping[str, Any], after: Mapping[str, Any], at: datetime
) -> None:
    """Give those files to the model no more that a message had and has not any longer."""
    there, had = _files_of(after), _files_of(before)
    for file in attached_files.of_message(tx, key):
        if file.slack_id not in there and (file.slack_id in had or not after):
            attached_files.withhold(
                tx, file, attached_files.Withheld.DELETED, at=at, actor="system"
            )


def _files_of(message: Mapping[str, Any]) -> set[str]:
    """The Slack ids of a message's files, but for those that are deleted."""
    files = message.get("files") or ()
    return {str(each.get("id")) for each in files if each.get("mode") != "tombstone"}


def _before_it_was_read(tx: Transaction, asked: Delivery, after: Mapping[str, Any] | None) -> str:
    """Take a message that nobody has read yet as it reads now, or not at all."""
    if after is None:
        inbox.forget(tx, asked, "deleted before it was read")
        return "deleted before it was read"
    body = json.loads(asked.body)
    body["event"] |= {"text": after.get("text") or "", "files": after.get("files") or []}
    inbox.reword(tx, asked, json.dumps(body))
    return "edited before it was read"


def _withdraw(tx: Transaction, run: Run, ts: str, at: datetime) -> Heeded:
    data = {"message": ts, "why": "its message was deleted"}
    trail.record(tx, "request.withdrawn", at=at, actor="system", run_id=run.id, data=data)
    endings.cancel(tx, run, at=at, actor="system", words=outputs)
    outbox.notice(tx, run, f"cancelled:{run.id}", {"text": answers.request_deleted()})
    return Heeded("request withdrawn", run)


def _take_back(tx: Transaction, run: Run, asked: Delivery, ts: str, at: datetime) -> Heeded:
    """A message is gone that was said in the request's thread later: the request itself stands.

    Where the model has not read it yet, it never will.
    """
    if asked.status is DeliveryStatus.HELD:
        inbox.forget(tx, asked, "deleted before it was read")
    data = {"message": ts, "read": asked.status is DeliveryStatus.DONE}
    trail.record(tx, "request.unsaid", at=at, actor=asked.user, run_id=run.id, data=data)
    return Heeded("a later message of the request was deleted")


def _tell(tx: Transaction, run: Run, delivery: Delivery, text: str) -> None:
    """Say it on the cards, in the request's thread, and under each card that stands elsewhere."""
    agents = sub_agents.open_in(tx, run.root_id)
    plans = [plan for each in agents for plan in calls.open_plans(tx, each.id)]
    for plan in plans:
        outbox.redraw(tx, plan.id)
    outbox.everywhere(tx, run, [each.id for each in plans], f"reworded:{delivery.seq}", text)
