"""Sending of one outbox message, so that Slack has it once, whatever fails.

    pending ─► sending (own commit) ─► sent(ts)

A message found in state sending is searched for in Slack by its key, and posted again only if it is
not there. If Slack has a message and the database failed, that is kept in memory, and only stored
at the next try.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from http.client import HTTPException
from typing import Any, TypeVar

from slack_sdk.errors import SlackApiError, SlackRequestError
from slack_sdk.web import SlackResponse

from bot.approvals.deadlines import close_unrooted, close_unseen, elsewhere, tell_of_rows
from bot.cards import answers
from bot.clock import Clock
from bot.monitoring.spans import Work
from bot.signals import Signals
from bot.slack.client import is_final, is_limited, meaning, seconds_asked, status_of
from bot.slack.pace import Access, Channels, ElsewhereError, Pace, is_counted
from bot.slack.posting import (
    Found,
    OutboxMemory,
    Posting,
    PostSearch,
    Renderer,
    SlackPost,
    below_of,
    blocks_of,
)
from bot.slack_codes import CERTAIN, CODE, Meaning, code_of
from storage import moves, outbox, runs
from storage.availability import error_text, may_pass
from storage.models import Message
from storage.states import DRAWN, MessageKind, MessageStatus
from storage.store import Store

log = logging.getLogger("countersign.outbox")
M = MessageStatus
T = TypeVar("T")
ONCE = (MessageKind.PRIVATE, MessageKind.FILE)  # hard or impossible to look up
DIRECT = "direct"  # in the body of a message whose person was looked up for it
EVENT_TYPE = "countersign"
NO_ANSWER = OSError, HTTPException, SlackRequestError  # nothing said how the call went
PATIENT = 5  # tries after which a message that Slack does not explain holds up nobody
AT_WORK = timedelta(seconds=15)  # that Slack may take for a post: as long as its client waits
LATER = timedelta(seconds=30)  # before a message that may stand twice is looked for once more
TRIES = 4  # before a message that is itself the problem is set aside
GONE = {"message_not_found", "edit_window_closed", "cant_update_message"}


class _TooSoonError(Exception):
    """Raised when a message may still arrive in Slack, so it is not posted again yet."""

    def __init__(self, seconds: float) -> None:
        """`seconds`: how long to wait until it may be posted."""
        super().__init__(seconds)
        self.seconds = seconds


class Sender:
    """The sender of single messages; one per outbox, used by any of its threads."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        signals: Signals,
        memory: OutboxMemory,
        access: Access,
        pace: Pace,
        *,
        renderer: Renderer,
        posting: Posting,
        search: PostSearch,
        channels: Channels,
    ) -> None:
        """`memory` keeps what could not be stored; `access` records refusals of the token.

        `channels` says to which channels this process sends.
        """
        self._store, self._clock, self._signals = store, clock, signals
        self._memory, self._access, self._pace = memory, access, pace
        self._begun: set[int | None] = set()  # that this process has posted, or tried to
        self._renderer, self._posting, self._search = renderer, posting, search
        self._client, self._channels = posting.client, channels
        with store.read() as tx:  # messages up to this one were there before
            self._inherited = 0 if store.shared else outbox.newest(tx)

    def send(self, row: Message) -> bool:
        """Post or update one message; return False if it has to be tried again later.

        A message that cannot be sent is given up and returns True. Raises temporary errors of the
        database.
        """
        try:
            with self._signals.tracer.start_span(Work.POST, row.kind, run_id=row.run_id):
                self._dispatch(row)
            self._access.went_well()
            return True
        except SlackApiError as error:
            return self._failed(row, error)
        except ElsewhereError:
            return False
        except _TooSoonError as error:
            return self._later(row, "it may be on its way", error.seconds)
        except Exception as error:
            if may_pass(error):
                raise
            why = f"{type(error).__name__}: {error_text(error)}"
            log.warning("message %s (%s): %s", row.seq, row.kind, why)
            if row.attempts >= TRIES and not isinstance(error, NO_ANSWER):
                self._set_aside(row, error)
                return True
            return self._later(row, why)

    def _set_aside(self, row: Message, error: Exception) -> None:
        """Give up a message that cannot be drawn, so that later ones in its channel are sent."""
        try:
            self._give_up(row, type(error).__name__)
        except Exception:
            log.exception("message %s (%s) is set aside", row.seq, row.kind)
            with self._store.write() as tx:
                moves.message(tx, row, M.FAILED, error=error_text(error)[:300], due_at=None)

    def _dispatch(self, row: Message) -> None:
        if stands := self._memory.posted(row.seq):
            self._sent(row, stands)
            return
        if row.kind in ONCE or row.status is M.CLOSING:
            self._store.harden()  # what Slack is told of is on the disk
        if row.kind is MessageKind.PRIVATE and not _is_direct(row):
            self._whisper(row)
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
        if found := self._found(row, self._search.posted):
            version = 0 if row.kind in DRAWN else row.wanted
            self._sent(row, SlackPost(str(found["ts"]), version))
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
        self._sent(row, SlackPost(_ts_of(response), version, revisions))

    def _whisper(self, row: Message) -> None:
        """Post a message that only one person sees; in their direct messages if Slack refuses.

        Slack has no search for such messages. So if it may have been posted already, a pointer to
        the card is posted in its place, and that only once as well.
        """
        body = outbox.body(row)
        text, blocks = str(body["text"]), blocks_of(body)
        if row.status is M.SENDING:
            if not body.get("doubted"):
                text = self._posting.pointer(row)
                blocks = answers.prose_blocks(text)
                with self._store.write(durable=True) as tx:
                    outbox.update_message(tx, row, body=outbox.dump_body({**body, "doubted": True}))
            else:
                log.warning("message %s: it is not known whether it was said", row.seq)
                self._sent(row, SlackPost("", row.wanted))
                return
        try:
            self._once(row, lambda: self._posting.private(row, text, blocks))
        except SlackApiError as error:
            if not is_final(error):
                raise
            with self._store.write() as tx:
                moves.message(tx, row, M.PENDING, channel=row.recipient, thread_ts="")
            return
        self._sent(row, SlackPost("", row.wanted))

    def remove_strays(self, key: str) -> None:
        """Search for duplicates of a message that was posted twice, and delete all but one."""
        with self._store.read() as tx:
            row = outbox.by_key(tx, key)
        if row is None or not row.ts or not self._channels.holds(row.channel):
            return
        try:
            for ts in self._search.strays(row):
                log.warning("message %s stood twice, one is removed", row.seq)
                self._client.chat_delete(channel=row.channel, ts=ts)
        except (SlackApiError, *NO_ANSWER) as error:
            log.warning("message %s was not looked for once more: %s", row.seq, error)
            if not isinstance(error, SlackApiError) or not is_final(error):
                self._memory.look_again(key, self._clock.now() + LATER)

    def _upload(self, row: Message) -> None:
        """Upload a file to its thread or direct message, unless it is there already."""
        if row.channel.startswith(("U", "W")):
            self._open_dm(row)
            return
        if found := self._found(row, self._search.uploaded):
            self._sent(row, SlackPost(str(found["ts"]), row.wanted))
            return
        self._once(row, lambda: self._posting.upload(row))
        self._sent(row, SlackPost("", row.wanted))

    def _once(self, row: Message, post: Callable[[], T]) -> T:
        """Store SENDING, then call `post` and return what it returns.

        Only if Slack's answer shows that it took nothing, PENDING is stored again; any other
        failure leaves SENDING, as the message may be in Slack. Raises ElsewhereError if another
        process sends it.
        """
        if row.status is not M.SENDING:
            with self._store.write(durable=row.kind in ONCE, told=row.kind in ONCE) as tx:
                if not moves.message(tx, row, M.SENDING):
                    raise ElsewhereError
            row.status = M.SENDING
        self._begun.add(row.seq)
        if not self._channels.holds(row.channel):  # it may have taken long to come so far
            raise ElsewhereError
        if is_counted(row):
            self._pace.posted(row.channel)
        try:
            return post()
        except SlackApiError as error:
            if meaning(error) in (Meaning.PASSING, Meaning.TOKEN):
                with self._store.write() as tx:
                    moves.message(tx, row, M.PENDING)
                row.status = M.PENDING
            raise

    def _found(self, row: Message, search: Callable[[Message], Found | None]) -> Found | None:
        """Return the message in Slack that this row was posted as; None if it is not there.

        Also None if the row was never posted, or if Slack does not allow the search.
        """
        if not self._may_stand(row):
            return None
        try:
            if (found := search(row)) or row.status is not M.SENDING:
                return found
            self._leave_alone(row)
        except SlackApiError as error:
            if not is_final(error):
                raise
            log.warning("message %s cannot be looked for: %s", row.seq, code_of(error))
        self._memory.look_again(row.key, self._clock.now() + LATER)
        return None

    def _leave_alone(self, row: Message) -> None:
        """Raise _TooSoonError while Slack may still be handling another process's post."""
        if row.seq not in self._begun:
            since = self._clock.now() - self._memory.found_sending(row.seq)
            if since < AT_WORK:
                raise _TooSoonError((AT_WORK - since).total_seconds())

    def _may_stand(self, row: Message) -> bool:
        """Return whether this row may have been posted.

        That is so in state SENDING. With a database file it is also so for every row from before
        this process began: a power failure may have undone SENDING, as commits do not wait for the
        disk.
        """
        return row.status is M.SENDING or (row.seq or 0) <= self._inherited

    def _open_dm(self, row: Message) -> None:
        """Open the direct message to a person, and store its channel for the next try."""
        opened = self._client.conversations_open(users=row.channel)
        with self._store.write() as tx:
            body = {**outbox.body(row), DIRECT: True}
            outbox.update_message(
                tx, row, channel=str(opened["channel"]["id"]), body=outbox.dump_body(body)
            )

    def _update(self, row: Message) -> None:
        drawn, version, revisions = self._renderer.draw(row)
        self._store.harden()
        self._client.chat_update(
            channel=row.channel, ts=row.ts, text=drawn.text, blocks=drawn.blocks
        )
        self._sent(row, SlackPost(row.ts, version, revisions))

    def _mark(self, row: Message) -> None:
        """Put the one emoji on the request's message that shows its state, and remove others.

        The names that may be on the message are stored first, so that none is left behind after a
        failure.
        """
        name, version = self._renderer.mark(row)
        body, wanted = outbox.body(row), [name] if name else []
        worn = body["names"]
        if worn != wanted or body.get("unsure"):
            names = [*worn, *(each for each in wanted if each not in worn)]
            unsure = {"unsure": True} if names == wanted else {}  # else they differ till it is done
            with self._store.write(durable=False) as tx:
                outbox.update_message(tx, row, body=outbox.dump_body({"names": names, **unsure}))
            self._store.harden()
            self._posting.mark(row, [each for each in worn if each != name], name)
        with self._store.write(durable=False, told=False) as tx:
            outbox.update_message(tx, row, body=outbox.dump_body({"names": wanted}))
            outbox.mark_sent(tx, row, ts=row.ts, shown=version)

    def _close_stream(self, row: Message) -> None:
        """Stop a stream with its last blocks; overwrite it if it does not hold the whole text."""
        body = outbox.body(row)
        under = below_of(body).blocks(row.run_id, last=bool(body.get("last")))
        last: Mapping[str, Any] = {"blocks": under} if under else {}
        if not row.ts and (lost := self._search.lost_stream(row)):
            row.ts = str(lost["ts"])
        if row.ts:
            body["streamed"] = self._posting.stop_stream(row, body, last)
        if not row.ts:
            with self._store.write() as tx:  # one that has begun meanwhile is closed next
                moves.give_up_stream(tx, row, M.PENDING if body["text"] else M.FAILED)
        elif body["streamed"]:
            self._sent(row, SlackPost(row.ts, row.wanted))
        else:
            self._update(row)

    def _sent(self, row: Message, stands: SlackPost) -> None:
        """Store that Slack has this message; keep that in memory until it is stored."""
        self._memory.keep(row.seq, stands)
        once = row.kind in ONCE
        with self._store.write(durable=once, told=once) as tx:
            outbox.mark_sent(tx, row, ts=stands.ts, shown=stands.shown)
            begun = row.kind is MessageKind.ROOT and runs.set_root(
                tx, row.run_id, row.channel, stands.ts
            )
            if stands.revisions is not None:
                at = self._clock.now()
                outbox.record_shown_revisions(
                    tx, row, ts=stands.ts, revisions=stands.revisions, at=at
                )
        self._memory.forget(row.seq)
        self._begun.discard(row.seq)
        row.status, row.ts = M.SENT, stands.ts
        if begun or (row.kind is MessageKind.CARD and outbox.QUESTION in outbox.body(row)):
            self._signals.work.give()  # a reply to it may have come before Slack said where it is

    def _failed(self, row: Message, error: SlackApiError) -> bool:
        """Handle an error from Slack: postpone the message, post a lost card again, or give up.

        Returns True if later messages of the channel may go on.
        """
        code, found = code_of(error), meaning(error)
        if found is Meaning.TOKEN:
            self._access.refused(code)
            self._later(row, code)
            return False
        if is_limited(error) and is_counted(row):
            self._pace.limited(row.channel)
        if found is not Meaning.FINAL:
            is_code = CODE.fullmatch(code) and status_of(error) < CERTAIN
            why = code if is_code else f"HTTP {status_of(error)}, and no answer"
            if found is Meaning.UNKNOWN and is_code and row.attempts >= PATIENT:
                self._memory.put_aside(row.seq)
            return self._later(row, why, seconds_asked(error))
        if row.ts and code in GONE and row.kind in DRAWN:
            log.warning("card %s is gone (%s), posting it anew", row.seq, code)
            with self._store.write() as tx:
                moves.message(tx, row, M.PENDING, ts="", shown=0, showing="")
            return True
        log.error("run %s: message %s (%s) cannot be sent: %s", row.run_id, row.seq, row.kind, code)
        self._give_up(row, code)
        return True

    def _later(self, row: Message, error: str, seconds: float = 0.0) -> bool:
        """Postpone a message; return whether later messages of its channel may overtake it."""
        wait = seconds or min(60.0, 0.5 * 2 ** min(row.attempts, 7))
        due: datetime = self._clock.now() + timedelta(seconds=wait)
        attempts = row.attempts + (not seconds)  # where Slack says when, it is no failure
        with self._store.write() as tx:
            outbox.update_message(tx, row, attempts=attempts, due_at=due, error=error[:300])
        return row.kind is MessageKind.MARK

    def _give_up(self, row: Message, code: str) -> None:
        """Store that a message will never be sent, and handle the consequences.

        If nobody can see a card, the calls that only it shows are cancelled.
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


def _is_direct(row: Message) -> bool:
    """Return whether this is a message to one person in their direct messages with the bot."""
    return row.channel.startswith(("U", "W")) or bool(outbox.body(row).get(DIRECT))


def _ts_of(response: SlackResponse) -> str:
    """Return a posted message's timestamp; raise ConnectionError if the answer has none."""
    ts = response.get("ts")
    if not isinstance(ts, str) or not ts:
        raise ConnectionError("Slack's answer does not say where the message stands")
    return ts
