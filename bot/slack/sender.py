"""Sending of one outbox message, so that Slack has it once, whatever fails.

    pending ─► sending (own commit) ─► sent(ts)

A message found in state sending is searched for in Slack by its key, and posted again only if it is
not there. If Slack has a message but the database failed to record it, that is kept in memory, and
only recorded at the next try.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from http.client import HTTPException
from typing import Any, TypeVar

from slack_sdk.errors import SlackApiError, SlackRequestError
from slack_sdk.web import SlackResponse

from bot.approvals import deadlines
from bot.cards import answers
from bot.clock import Clock
from bot.monitoring.spans import WorkKind
from bot.signals import Signals
from bot.slack import client
from bot.slack.outbox_memory import OutboxMemory, SlackPost
from bot.slack.pace import BotTokenStatus, ChannelOwnership, ChannelPacer, ChannelTakenError
from bot.slack.posting import MessageRenderer, OutboxSlackCalls, SlackMessage, UnconfirmedPostSearch
from bot.slack_codes import HTTP_SERVER_ERROR, ErrorMeaning, extract_error_code
from storage import inbox, moves, outbox, runs
from storage.database_errors import error_text, is_temporary_database_error
from storage.record import Message, Store
from storage.states import DRAWN_MESSAGE_KINDS, MessageKind, MessageStatus

log = logging.getLogger("countersign.outbox")
M = MessageStatus
T = TypeVar("T")
UNSEARCHABLE_KINDS = (MessageKind.PRIVATE, MessageKind.FILE)  # hard or impossible to find in Slack
DIRECT_MESSAGE_KEY = "direct"  # in a message's body: it is in a direct message opened for it
METADATA_EVENT_TYPE = "countersign"
NO_ANSWER_ERRORS = OSError, HTTPException, SlackRequestError  # it is not known how the call went
MAX_BLOCKING_ATTEMPTS = 5  # then a message refused for an unknown reason holds up no others
MAX_POST_DURATION = timedelta(seconds=15)  # Slack's client waits as long
# before another search for a message that may have been posted twice
DUPLICATE_SEARCH_DELAY = timedelta(seconds=30)
MAX_ATTEMPTS = 4  # then a message that is itself the problem is given up
MIN_REPOSTED_AGE = timedelta(hours=1)  # of a card that is deleted again, to be posted once more
MESSAGE_DELETED_CODE = "message_not_found"
# a card is posted again; with the other two, the old one stays in Slack and cannot be changed
MESSAGE_GONE_CODES = {MESSAGE_DELETED_CODE, "edit_window_closed", "cant_update_message"}


class _MayStillArriveError(Exception):
    """Raised when a message may still arrive in Slack, so it is not posted again yet."""

    def __init__(self, seconds: float) -> None:
        """`seconds`: how long to wait until it may be posted."""
        super().__init__(seconds)
        self.seconds = seconds


class MessageSender:
    """The sender of single messages; one per outbox, used by any of its threads."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        signals: Signals,
        memory: OutboxMemory,
        access: BotTokenStatus,
        pace: ChannelPacer,
        *,
        renderer: MessageRenderer,
        posting: OutboxSlackCalls,
        search: UnconfirmedPostSearch,
        channels: ChannelOwnership,
    ) -> None:
        """`memory` keeps what could not be stored; `access` records refusals of the token.

        `channels`: says which channels this process sends to.
        """
        self._store, self._clock, self._signals = store, clock, signals
        self._memory, self._access, self._pace = memory, access, pace
        self._begun: set[int | None] = set()  # messages that this process has posted, or tried to
        self._renderer, self._posting, self._search = renderer, posting, search
        self._client, self._channels = posting.client, channels
        with store.read() as tx:  # messages up to this one are from earlier processes
            self._inherited = 0 if store.is_multi_process else outbox.get_newest_message_seq(tx)

    def send(self, row: Message) -> bool:
        """Post or update one message; return False if it has to be tried again later.

        A message that cannot be sent is given up and returns True. Raises temporary errors of the
        database.
        """
        try:
            with self._signals.tracer.start_span(WorkKind.POST, row.kind, run_id=row.run_id):
                self._send_by_kind(row)
            self._access.reset_check_delay()
            return True
        except SlackApiError as error:
            return self._handle_slack_error(row, error)
        except ChannelTakenError:
            return False
        except _MayStillArriveError as error:
            return self._postpone(row, "it may be on its way", error.seconds)
        except Exception as error:
            if is_temporary_database_error(error):
                raise
            why = f"{type(error).__name__}: {error_text(error)}"
            log.warning("message %s (%s): %s", row.seq, row.kind, why)
            if row.attempts >= MAX_ATTEMPTS and not isinstance(error, NO_ANSWER_ERRORS):
                self._give_up_unsendable(row, error)
                return True
            return self._postpone(row, why)

    def _give_up_unsendable(self, row: Message, error: Exception) -> None:
        """Give up a message that cannot be drawn, so that later ones in its channel are sent."""
        try:
            self._give_up_message(row, type(error).__name__)
        except Exception:
            log.exception("message %s (%s) is set aside", row.seq, row.kind)
            with self._store.write() as tx:
                why = error_text(error)[:300]
                moves.change_message_status(tx, row, M.FAILED, error=why, due_at=None)

    def _send_by_kind(self, row: Message) -> None:
        if earlier_post := self._memory.find_post(row.seq):
            self._store_sent(row, earlier_post)
            return
        if row.kind in UNSEARCHABLE_KINDS or row.status is M.CLOSING:
            self._store.sync_commits()  # what Slack is told must be on the disk
        if row.kind is MessageKind.PRIVATE and not _is_direct_message(row):
            self._post_private_message(row)
        elif row.kind is MessageKind.FILE:
            self._upload_file(row)
        elif row.kind is MessageKind.MARK:
            self._update_reaction(row)
        elif row.status is M.CLOSING:
            self._close_stream(row)
        elif row.ts:
            self._update_message(row)
        else:
            self._post_message(row)

    def _post_message(self, row: Message) -> None:
        if row.channel.startswith(("U", "W")):
            self._open_direct_message(row)
            return  # from now on it is in the DM's queue: two queues would post it twice
        if earlier_post := self._find_earlier_post(row, self._search.find_post):
            version = 0 if row.kind in DRAWN_MESSAGE_KINDS else row.wanted
            self._store_sent(row, SlackPost(str(earlier_post["ts"]), version))
            return
        self._posting.store_request_link(row)
        drawn, version, revisions = self._renderer.render_new_message(row)
        self._store.sync_commits()
        response = self._post_once(
            row,
            lambda: self._client.chat_postMessage(
                channel=row.channel,
                thread_ts=row.thread_ts or None,
                text=drawn.text,
                blocks=drawn.blocks or None,
                metadata={"event_type": METADATA_EVENT_TYPE, "event_payload": {"key": row.key}},
                unfurl_links=False,
                unfurl_media=False,
            ),
        )
        self._store_sent(row, SlackPost(_get_timestamp(response), version, revisions))

    def _post_private_message(self, row: Message) -> None:
        """Post a message that only one person sees; in their direct messages if Slack refuses.

        Slack has no search for such messages. So if it may have been posted already, a pointer to
        the card is posted in its place, and that only once as well.
        """
        body, (drawn, _, _) = outbox.parse_message_body(row), self._renderer.render_message(row)
        text, blocks = drawn.text, drawn.blocks
        if row.status is M.SENDING:
            if not body.get("doubted"):
                text = self._posting.build_perhaps_lost_notice(row)
                blocks = answers.render_prose_sections(text)
                doubted = outbox.dump_message_body({**body, "doubted": True})
                with self._store.write() as tx:
                    outbox.update_message(tx, row, body=doubted)
            else:
                log.warning("message %s: it is not known whether it was posted", row.seq)
                self._store_sent(row, SlackPost("", row.wanted))
                return
        try:
            self._post_once(row, lambda: self._posting.post_ephemeral_message(row, text, blocks))
        except SlackApiError as error:
            if not client.is_permanent_refusal(error) or row.channel == row.recipient:
                raise
            with self._store.write() as tx:
                moves.change_message_status(tx, row, M.PENDING, channel=row.recipient, thread_ts="")
            return
        self._store_sent(row, SlackPost("", row.wanted))

    def delete_duplicate_messages(self, key: str) -> None:
        """Search for duplicates of a message that was posted twice, and delete all but one."""
        with self._store.read() as tx:
            row = outbox.find_message_by_key(tx, key)
        if row is None or not row.ts or not self._channels.is_channel_owned(row.channel):
            return
        try:
            for ts in self._search.find_duplicate_timestamps(row):
                log.warning("message %s was posted twice; one is removed", row.seq)
                self._client.chat_delete(channel=row.channel, ts=ts)
        except (SlackApiError, *NO_ANSWER_ERRORS) as error:
            log.warning("message %s could not be looked for again: %s", row.seq, error)
            if not isinstance(error, SlackApiError) or not client.is_permanent_refusal(error):
                self._memory.schedule_duplicate_search(
                    key, self._clock.now() + DUPLICATE_SEARCH_DELAY
                )

    def _upload_file(self, row: Message) -> None:
        """Upload a file to its thread or direct message, unless it is there already."""
        if row.channel.startswith(("U", "W")):
            self._open_direct_message(row)
            return
        if found := self._find_earlier_post(row, self._search.find_upload):
            self._store_sent(row, SlackPost(str(found["ts"]), row.wanted))
            return
        self._post_once(row, lambda: self._posting.upload_file(row))
        self._store_sent(row, SlackPost("", row.wanted))

    def _post_once(self, row: Message, post: Callable[[], T]) -> T:
        """Store the status SENDING, then call `post` and return what it returns.

        If Slack's error shows that nothing was posted, PENDING is stored again; any other failure
        leaves SENDING, because the message may be in Slack. Raises ChannelTakenError if another
        process sends it.
        """
        if row.status is not M.SENDING:
            with self._store.write(
                durable=row.kind in UNSEARCHABLE_KINDS, needs_sync=row.kind in UNSEARCHABLE_KINDS
            ) as tx:
                if not moves.change_message_status(tx, row, M.SENDING):
                    raise ChannelTakenError
            row.status = M.SENDING
        self._begun.add(row.seq)
        if not self._channels.is_channel_owned(row.channel):  # it may have taken long to get here
            raise ChannelTakenError
        if outbox.counts_against_channel_rate_limit(row):
            self._pace.count_channel_post(row.channel)
        try:
            return post()
        except SlackApiError as error:
            if client.classify_error(error) in (ErrorMeaning.PASSING, ErrorMeaning.TOKEN):
                with self._store.write() as tx:
                    moves.change_message_status(tx, row, M.PENDING)
                row.status = M.PENDING
            raise

    def _find_earlier_post(
        self, row: Message, search: Callable[[Message], SlackMessage | None]
    ) -> SlackMessage | None:
        """Return the message in Slack that this row was posted as; None if it is not there.

        Also None if the row was never posted, or if Slack does not allow the search.
        """
        if not self._may_be_posted(row):
            return None
        try:
            if (message := search(row)) or row.status is not M.SENDING:
                return message
            self._require_not_in_flight(row)
        except SlackApiError as error:
            if not client.is_permanent_refusal(error):
                raise
            log.warning("message %s cannot be looked for: %s", row.seq, extract_error_code(error))
        self._memory.schedule_duplicate_search(row.key, self._clock.now() + DUPLICATE_SEARCH_DELAY)
        return None

    def _require_not_in_flight(self, row: Message) -> None:
        """Raise _MayStillArriveError while Slack may still be handling another process's post."""
        if row.seq not in self._begun:
            since = self._clock.now() - self._memory.get_or_set_first_seen_time(row.seq)
            if since < MAX_POST_DURATION:
                raise _MayStillArriveError((MAX_POST_DURATION - since).total_seconds())

    def _may_be_posted(self, row: Message) -> bool:
        """Return whether this row may have been posted already.

        That is so in status SENDING. With a database file it is also so for every row from before
        this process began: the commit of SENDING does not wait for the disk, so a power failure may
        have undone it.
        """
        return row.status is M.SENDING or (row.seq or 0) <= self._inherited

    def _open_direct_message(self, row: Message) -> None:
        """Open the direct message to a person, and store its channel for the next try.

        The person counts as greeted, so that no greeting follows if they open the app later.
        """
        person = row.channel
        opened = self._client.conversations_open(users=row.channel)
        channel = str(opened["channel"]["id"])
        body = outbox.dump_message_body(
            {**outbox.parse_message_body(row), DIRECT_MESSAGE_KEY: True}
        )
        with self._store.write() as tx:
            outbox.update_message(tx, row, channel=channel, body=body)
            if run := runs.find_run(tx, row.run_id):
                inbox.mark_person_greeted(tx, run.team, person, at=self._clock.now())

    def _update_message(self, row: Message) -> None:
        drawn, version, revisions = self._renderer.render_message(row)
        self._store.sync_commits()
        text, blocks = drawn.text, drawn.blocks
        self._client.chat_update(channel=row.channel, ts=row.ts, text=text, blocks=blocks)
        self._store_sent(row, SlackPost(row.ts, version, revisions))

    def show_viewers_on_card(self, key: str) -> None:
        """Redraw a card to name who looks at it, unless a redraw is due anyway; do not retry."""
        with self._store.read() as tx:
            row = outbox.find_message_by_key(tx, key)
        if row is None or row.status is not M.SENT or not row.ts:
            return
        drawn, version, _ = self._renderer.render_message(row)
        if version == row.shown and self._channels.is_channel_owned(row.channel):
            at, ts, text = row.channel, row.ts, drawn.text
            with suppress(SlackApiError, *NO_ANSWER_ERRORS):
                self._client.chat_update(channel=at, ts=ts, text=text, blocks=drawn.blocks)

    def _update_reaction(self, row: Message) -> None:
        """Put the one emoji on the request's message that shows its state, and remove others.

        The names that may be on the message are stored first, so that none is left behind after a
        failure.
        """
        name, version = self._renderer.get_status_emoji_and_version(row)
        body, wanted = outbox.parse_message_body(row), [name] if name else []
        worn = body["names"]
        if worn != wanted or body.get("unsure"):
            names = [*worn, *(each for each in wanted if each not in worn)]
            unsure = {"unsure": True} if names == wanted else {}  # else the difference shows it
            unsure_body = outbox.dump_message_body({"names": names, **unsure})
            with self._store.write(durable=False) as tx:
                outbox.update_message(tx, row, body=unsure_body)
            self._store.sync_commits()
            self._posting.replace_reactions(row, [each for each in worn if each != name], name)
        with self._store.write(durable=False, needs_sync=False) as tx:
            outbox.update_message(tx, row, body=outbox.dump_message_body({"names": wanted}))
            moves.record_message_version_in_slack(tx, row, ts=row.ts, version=version)

    def _close_stream(self, row: Message) -> None:
        """Stop a streamed answer with its footer; overwrite it if its text is not whole."""
        body = outbox.parse_message_body(row)
        under = self._renderer.render_answer_footer(row, body)
        last: Mapping[str, Any] = {"blocks": under} if under else {}
        if not row.ts and (lost := self._search.find_lost_stream(row)):
            row.ts = str(lost["ts"])
        if row.ts:
            body["streamed"] = self._posting.stop_stream(row, body, last)
        if not row.ts:
            with self._store.write() as tx:  # a stream that starts meanwhile is closed next
                moves.give_up_stream(tx, row, M.PENDING if body["text"] else M.FAILED)
        elif body["streamed"]:
            self._store_sent(row, SlackPost(row.ts, row.wanted))
        else:
            self._update_message(row)

    def _store_sent(self, row: Message, slack_post: SlackPost) -> None:
        """Store that Slack has this message; keep that in memory until it is stored."""
        self._memory.remember_post(row.seq, slack_post)
        once = row.kind in UNSEARCHABLE_KINDS
        with self._store.write(durable=once, needs_sync=once) as tx:
            moves.record_message_version_in_slack(
                tx, row, ts=slack_post.ts, version=slack_post.shown_version
            )
            begun = row.kind is MessageKind.ROOT and runs.set_request_thread(
                tx, row.run_id, row.channel, slack_post.ts
            )
            if slack_post.revisions is not None:
                shown_revisions, at = slack_post.revisions, self._clock.now()
                outbox.record_revisions_shown_on_card(
                    tx, row, ts=slack_post.ts, revisions=shown_revisions, at=at
                )
        self._memory.forget_post(row.seq)
        self._begun.discard(row.seq)
        row.status, row.ts = M.SENT, slack_post.ts
        is_card = row.kind is MessageKind.CARD
        if begun or (is_card and outbox.QUESTION_KEY in outbox.parse_message_body(row)):
            self._signals.work.notify()  # a reply may have come before Slack's answer

    def _handle_slack_error(self, row: Message, error: SlackApiError) -> bool:
        """Handle an error from Slack: postpone the message, post a lost card again, or give up.

        Returns True if later messages of the channel may go on.
        """
        code, meaning = extract_error_code(error), client.classify_error(error)
        if meaning is ErrorMeaning.TOKEN:
            self._access.note_refusal(code)
            self._postpone(row, code)
            return False
        if client.is_rate_limited(error) and outbox.counts_against_channel_rate_limit(row):
            self._pace.note_refusal(row.channel)
        if meaning is not ErrorMeaning.FINAL:
            is_code = code and client.get_http_status(error) < HTTP_SERVER_ERROR
            why = code if is_code else f"HTTP {client.get_http_status(error)}, and no answer"
            if (
                meaning is ErrorMeaning.UNKNOWN
                and is_code
                and row.attempts >= MAX_BLOCKING_ATTEMPTS
            ):
                self._memory.let_later_messages_overtake(row.seq)
            return self._postpone(row, why, client.get_retry_after_seconds(error))
        if row.ts and code in MESSAGE_GONE_CODES and row.kind in DRAWN_MESSAGE_KINDS:
            if self._repost_card(row, is_deleted=code == MESSAGE_DELETED_CODE):
                return True
            code = deadlines.DELETED_AGAIN_CODE
        log.error("run %s: message %s (%s) cannot be sent: %s", row.run_id, row.seq, row.kind, code)
        self._give_up_message(row, code)
        return True

    def _repost_card(self, row: Message, *, is_deleted: bool) -> bool:
        """Post a card anew that cannot be changed any more; False if it was deleted too often.

        Whoever deletes it twice within a short time does not want it there.
        """
        age = self._clock.now() - datetime.fromtimestamp(float(row.ts), UTC)
        with self._store.write() as tx:
            body = outbox.parse_message_body(outbox.find_message_by_key(tx, row.key) or row)
            if is_deleted and body.get(outbox.REPOSTED_KEY) and age < MIN_REPOSTED_AGE:
                return False
            log.warning("card %s cannot be changed any more, posting it again", row.seq)
            new = outbox.dump_message_body({**body, outbox.REPOSTED_KEY: row.ts})
            columns = {"ts": "", "shown": 0, "showing": "", "body": new}
            moves.change_message_status(tx, row, M.PENDING, **columns)
        return True

    def _postpone(self, row: Message, error: str, seconds: float = 0.0) -> bool:
        """Postpone a message; return whether later messages of its channel may overtake it."""
        wait = seconds or min(60.0, 0.5 * 2 ** min(row.attempts, 7))
        due: datetime = self._clock.now() + timedelta(seconds=wait)
        attempts = row.attempts + (not seconds)  # a wait that Slack asked for is no failure
        with self._store.write() as tx:
            outbox.update_message(tx, row, attempts=attempts, due_at=due, error=error[:300])
        return row.kind is MessageKind.MARK

    def _give_up_message(self, row: Message, code: str) -> None:
        """Store that a message will never be sent, and handle the consequences.

        If nobody can see a card, the calls that only it shows are cancelled.
        """
        with self._store.write() as tx:
            if row.kind is MessageKind.ROOT and deadlines.redirect_first_message_to_requester(
                tx, row
            ):
                return
            moves.change_message_status(tx, row, M.FAILED, error=code, due_at=None)
            if row.kind is MessageKind.ROOT:
                deadlines.cancel_unpostable_request(tx, row, at=self._clock.now())
            if row.kind in (MessageKind.FILE, MessageKind.TABLE):
                deadlines.report_unsent_table_or_file(tx, row)
            at, is_card = self._clock.now(), row.kind is MessageKind.CARD
            if row.kind in (MessageKind.ANSWER, MessageKind.NOTICE):
                deadlines.send_unposted_message_to_requester(tx, row, at=at)
            lost = is_card and deadlines.cancel_calls_of_failed_card(tx, row, code, at=at)
        if lost:
            self._signals.work.notify()


def _is_direct_message(row: Message) -> bool:
    """Return whether this is a message to one person in their direct messages with the bot."""
    return row.channel.startswith(("U", "W")) or bool(
        outbox.parse_message_body(row).get(DIRECT_MESSAGE_KEY)
    )


def _get_timestamp(response: SlackResponse) -> str:
    """Return a posted message's timestamp; raise ConnectionError if the answer has none."""
    ts = response.get("ts")
    if not isinstance(ts, str) or not ts:
        raise ConnectionError("Slack's answer does not say where the message is")
    return ts
