"""Sends one message, or draws it again: once, whatever is lost on the way.

    pending ─► sending (own commit) ─► sent(ts)

What is found sending later is looked up by its key, and sent again where it is not there. What
stands in Slack and could not be stored is remembered, and only stored then.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from http.client import HTTPException
from typing import Any, TypeVar

from slack_sdk.errors import SlackApiError

from bot.approvals.undeliverable import close_unrooted, close_unseen, elsewhere, tell_of_rows
from bot.clock import Clock
from bot.messages import answers
from bot.signals import Signals
from bot.slack.errors import is_limited, is_passing, seconds_asked
from bot.slack.outbox.channels import Channels, ElsewhereError
from bot.slack.outbox.memory import Memory, Posted
from bot.slack.outbox.posting import Posting
from bot.slack.outbox.search import PostSearch
from bot.slack.render import Renderer, blocks_of
from bot.watch.passages import Work
from storage import moves, outbox, runs
from storage.models import Message
from storage.patience import passes, reason
from storage.states import DRAWN, MessageKind, MessageStatus
from storage.store import Store

log = logging.getLogger("countersign.outbox")
M = MessageStatus
T = TypeVar("T")
ONCE = (MessageKind.PRIVATE, MessageKind.FILE)  # hard or impossible to look up
EVENT_TYPE = "countersign"
TRIES = 4  # before a message that is itself the problem is set aside
GONE = {"message_not_found", "edit_window_closed", "cant_update_message"}


class Sender:
    """One per outbox; any of its lanes."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        signals: Signals,
        memory: Memory,
        *,
        renderer: Renderer,
        posting: Posting,
        search: PostSearch,
        channels: Channels,
    ) -> None:
        """`memory` holds what could not be stored; `channels` says to which this process sends."""
        self._store, self._clock, self._signals = store, clock, signals
        self._memory = memory
        self._renderer, self._posting, self._search = renderer, posting, search
        self._client, self._channels = posting.client, channels
        with store.read() as tx:  # messages up to this one were there before
            self._inherited = 0 if store.shared else outbox.newest(tx)

    def send(self, row: Message) -> bool:
        """Send or draw one message; False when it has to be tried again later.

        Raises what the database could not.
        """
        try:
            with self._signals.watch.over(Work.POST, row.kind, run_id=row.run_id):
                self._dispatch(row)
            return True
        except SlackApiError as error:
            return self._failed(row, error)
        except ElsewhereError:
            return False
        except Exception as error:
            if passes(error):
                raise
            why = f"{type(error).__name__}: {reason(error)}"
            log.warning("message %s (%s): %s", row.seq, row.kind, why)
            if row.attempts >= TRIES and not isinstance(error, OSError | HTTPException):
                self._set_aside(row, error)
                return True
            return self._later(row, why)

    def _set_aside(self, row: Message, error: Exception) -> None:
        """Give up a message that cannot be drawn, so that the later ones in its channel go on."""
        try:
            self._give_up(row, type(error).__name__)
        except Exception:
            log.exception("message %s (%s) is set aside", row.seq, row.kind)
            with self._store.write() as tx:
                moves.message(tx, row, M.FAILED, error=reason(error)[:300], due_at=None)

    def _dispatch(self, row: Message) -> None:
        if stands := self._memory.posted(row.seq):
            self._sent(row, stands)
            return
        if row.kind in ONCE or row.status is M.CLOSING:
            self._store.harden()  # what Slack is told of is on the disk
        if row.kind is MessageKind.PRIVATE:
            self._posting.private(row, blocks_of(outbox.body(row)))
            self._sent(row, Posted("", row.wanted))
        elif row.kind is MessageKind.FILE:
            self._upload(row)
        elif row.kind is MessageKind.MARK:
            self._mark(row)
        elif row.status is M.CLOSING:
            self._close_stream(row)
        elif row.ts:
            self._update(row)
        else:
            self._post(row)

    def _post(self, row: Message) -> None:
        if row.channel.startswith(("U", "W")):
            self._open_dm(row)
            return  # from now on it belongs to the DM's lane: two lanes would post it twice
        if self._may_stand(row) and (found := self._search.posted(row)):
            version = 0 if row.kind in DRAWN else row.wanted
            self._sent(row, Posted(str(found["ts"]), version))
            return
        self._posting.link_back(row)
        drawn, version, revisions = self._renderer.draw(row)
        self._store.harden()
        response = self._once(
            row,
            lambda: self._client.chat_postMessage(
                channel=row.channel,
                thread_ts=row.thread_ts or None,
                text=drawn.text,
                blocks=drawn.blocks or None,
                metadata={"event_type": EVENT_TYPE, "event_payload": {"key": row.key}},
                unfurl_links=False,
                unfurl_media=False,
            ),
        )
        self._sent(row, Posted(str(response["ts"]), version, revisions))

    def _upload(self, row: Message) -> None:
        """Put a file into its thread or direct message, unless it stands there."""
        if row.channel.startswith(("U", "W")):
            self._open_dm(row)
            return
        if self._may_stand(row) and (found := self._search.uploaded(row)):
            self._sent(row, Posted(str(found["ts"]), row.wanted))
            return
        self._once(row, lambda: self._posting.upload(row))
        self._sent(row, Posted("", row.wanted))

    def _once(self, row: Message, post: Callable[[], T]) -> T:
        """Write SENDING, then post.

        Only where Slack answers to the post itself that it took nothing, it is PENDING again;
        whatever else goes wrong leaves SENDING, for it may stand there.
        """
        if row.status is not M.SENDING:
            with self._store.write(durable=row.kind in ONCE, told=row.kind in ONCE) as tx:
                if not moves.message(tx, row, M.SENDING):
                    raise ElsewhereError
            row.status = M.SENDING
        if not self._channels.holds(row.channel):  # it may have taken long to come so far
            raise ElsewhereError
        try:
            return post()
        except SlackApiError as error:
            if is_limited(error):
                with self._store.write() as tx:
                    moves.message(tx, row, M.PENDING)
                row.status = M.PENDING
            raise

    def _may_stand(self, row: Message) -> bool:
        """Return whether this row may have been posted.

        Only what is SENDING may have been, or was there before this process began: a power failure
        may have taken SENDING along, where commits do not wait for the disk.
        """
        return row.status is M.SENDING or (row.seq or 0) <= self._inherited

    def _open_dm(self, row: Message) -> None:
        """Open the DM of a message to a person; it is posted there next."""
        opened = self._client.conversations_open(users=row.channel)
        with self._store.write() as tx:
            outbox.change(tx, row, channel=str(opened["channel"]["id"]))

    def _update(self, row: Message) -> None:
        drawn, version, revisions = self._renderer.draw(row)
        self._store.harden()
        self._client.chat_update(
            channel=row.channel, ts=row.ts, text=drawn.text, blocks=drawn.blocks
        )
        self._sent(row, Posted(row.ts, version, revisions))

    def _mark(self, row: Message) -> None:
        """Have the request wear the one emoji that says how it stands.

        Which may stand there is stored before, so that none is left behind.
        """
        name, version = self._renderer.mark(row)
        worn, wanted = outbox.body(row)["names"], [name] if name else []
        if worn != wanted:
            with self._store.write(durable=False) as tx:
                names = [*worn, *(each for each in wanted if each not in worn)]
                outbox.change(tx, row, body=outbox.dump({"names": names}))
            self._store.harden()
            self._posting.mark(row, [each for each in worn if each != name], name)
        with self._store.write(durable=False, told=False) as tx:
            outbox.change(tx, row, body=outbox.dump({"names": wanted}))
            outbox.sent(tx, row, ts=row.ts, shown=version)

    def _close_stream(self, row: Message) -> None:
        """Stop a stream with its last blocks.

        Where it does not hold the whole text, write it over.
        """
        body = outbox.body(row)
        last: Mapping[str, Any] = (
            {"blocks": answers.ending(row.run_id, body.get("record", ""))}
            if body.get("last")
            else {}
        )
        if not row.ts and (lost := self._search.lost_stream(row)):
            row.ts = str(lost["ts"])
        if row.ts:
            body["streamed"] = self._posting.stop_stream(row, body, last)
        if not row.ts:
            with self._store.write() as tx:  # one that has begun meanwhile is closed next
                moves.never_began(tx, row, M.PENDING if body["text"] else M.FAILED)
        elif body["streamed"]:
            self._sent(row, Posted(row.ts, row.wanted))
        else:
            self._update(row)

    def _sent(self, row: Message, stands: Posted) -> None:
        """Store that it stands in Slack; until that is done, it is remembered."""
        self._memory.keep(row.seq, stands)
        once = row.kind in ONCE
        with self._store.write(durable=once, told=once) as tx:
            outbox.sent(tx, row, ts=stands.ts, shown=stands.shown)
            begun = row.kind is MessageKind.ROOT and runs.rooted(
                tx, row.run_id, row.channel, stands.ts
            )
            if stands.revisions is not None:
                at = self._clock.now()
                outbox.showed(tx, row, ts=stands.ts, revisions=stands.revisions, at=at)
        self._memory.forget(row.seq)
        row.status, row.ts = M.SENT, stands.ts
        if begun or (row.kind is MessageKind.CARD and outbox.QUESTION in outbox.body(row)):
            self._signals.work.give()  # a reply to it may have come before Slack said where it is

    def _failed(self, row: Message, error: SlackApiError) -> bool:
        """Deal with an error Slack answered with: wait, draw anew, or give up and tell the request.

        True: go on.
        """
        code = str(error.response.get("error", ""))
        if is_passing(error):
            return self._later(row, code, seconds_asked(error))
        if row.ts and code in GONE and row.kind in DRAWN:
            log.warning("card %s is gone (%s), posting it anew", row.seq, code)
            with self._store.write() as tx:
                moves.message(tx, row, M.PENDING, ts="", shown=0, showing="")
            return True
        log.error("run %s: message %s (%s) cannot be sent: %s", row.run_id, row.seq, row.kind, code)
        self._give_up(row, code)
        return True

    def _later(self, row: Message, error: str, seconds: float = 0.0) -> bool:
        """Put it off; whether the later ones in its channel go on meanwhile, as for a mark."""
        wait = seconds or min(60.0, 0.5 * 2 ** min(row.attempts, 7))
        due: datetime = self._clock.now() + timedelta(seconds=wait)
        attempts = row.attempts + (not seconds)  # where Slack says when, it is no failure
        with self._store.write() as tx:
            outbox.change(tx, row, attempts=attempts, due_at=due, error=error[:300])
        return row.kind is MessageKind.MARK

    def _give_up(self, row: Message, code: str) -> None:
        """Mark a message that will never be sent as failed.

        A card that nobody can see fails closed: what it asks for is not done.
        """
        with self._store.write() as tx:
            if row.kind is MessageKind.ROOT and elsewhere(tx, row):
                return
            moves.message(tx, row, M.FAILED, error=code, due_at=None)
            if row.kind is MessageKind.ROOT:
                close_unrooted(tx, row, at=self._clock.now())
            if row.kind in (MessageKind.FILE, MessageKind.TABLE):
                tell_of_rows(tx, row)
            at, is_card = self._clock.now(), row.kind is MessageKind.CARD
            lost = is_card and close_unseen(tx, row, code, at=at)
        if lost:
            self._signals.work.give()
