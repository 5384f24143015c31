"""Drawing of outbox rows as Slack messages, and sending of everything that is not a plain post.

That is private messages, files, the end of a stream and the link from a card to its request.
Nothing here stores how far a message has come; the sender does that.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from datetime import timedelta
from itertools import islice
from typing import Any

from slack_sdk import WebClient
from slack_sdk.errors import SlackApiError

from bot.approvals.card_routing import choose_emoji_for_calls
from bot.approvals.card_views import build_card_view, build_question_view
from bot.approvals.dialog_access import CardViewers
from bot.approvals.signatures import SigningLinks
from bot.cards import answers, sentences, slack_text
from bot.cards.block_kit import quote_on_one_line, show_link_hosts
from bot.cards.card import RenderedMessage, render_card, render_card_without_buttons
from bot.cards.passkey_views import LinkButton, render_link_buttons
from bot.cards.question_message import render_question_message
from bot.clock import Clock, get_lead_over_machine_time
from bot.policy.authority import Directory
from bot.slack.client import SlackClient, is_permanent_refusal
from bot.slack.directory import replace_other_mentions, replace_other_mentions_in_text
from bot.slack_codes import extract_error_code
from bot.tools import Registry
from countersign.durations import format_count
from storage import calls, outbox, runs
from storage.record import Message, Store
from storage.states import DRAWN_MESSAGE_KINDS, CallStatus, MessageKind

# Drawing of an outbox row as the Slack message it should be now. Reads rows; sends nothing.

ASKED_ELSEWHERE_MESSAGE = RenderedMessage(
    "This has changed since; another message asks for it again.", []
)


@dataclass(frozen=True, slots=True)
class MessageRenderer:
    """Draws the Slack messages of outbox rows from the present state of the database."""

    store: Store
    clock: Clock
    tools: Registry
    directory: Directory
    viewers: CardViewers = field(default_factory=CardViewers)
    links: SigningLinks | None = None  # knows the addresses of private links

    def render_message(self, row: Message) -> tuple[RenderedMessage, int, Mapping[str, int] | None]:
        """Return a row's message as it should be now, and the version of the row that it shows.

        The third value is the revision of each call on a card, by call id; None for other messages.
        """
        is_card, now = row.kind in DRAWN_MESSAGE_KINDS, self.clock.now()
        with self.store.read() as tx:
            current = outbox.find_message_by_key(tx, row.key) or row
            body = outbox.parse_message_body(current)
            asks = row.kind is MessageKind.CARD and outbox.QUESTION_KEY in body
            question = build_question_view(self.tools, tx, current, now) if asks else None
            view = build_card_view(self.tools, tx, current, now) if is_card and not asks else None
        if question:
            notified = frozenset(filter(None, (*question.users, question.group)))
            drawn = RenderedMessage(*render_question_message(question, now), notified)
            return drawn, current.wanted, {question.id: question.revision}
        if view and row.kind is MessageKind.COPY:
            return (
                render_card_without_buttons(view, str(body["asked_in"]), now),
                current.wanted,
                None,
            )
        if view:
            revisions = {call.id: call.revision for call in view.calls}
            card = row.channel, row.key
            if not any(call.status is CallStatus.PENDING for call in view.calls):
                self.viewers.forget_card(card)
            view = replace(view, viewers=self.viewers.list_viewers(card, now))
            return render_card(view, now), current.wanted, revisions
        if is_card:
            return ASKED_ELSEWHERE_MESSAGE, current.wanted, {}
        return self._render_text_message(row, body), current.wanted, None

    def render_new_message(
        self, row: Message
    ) -> tuple[RenderedMessage, int, Mapping[str, int] | None]:
        """Return a message as it is first posted, and the rest of what `render_message` returns.

        In a channel, people and groups whom it is not to notify are shown by name. Slack notifies
        nobody of a change to a message, so there they stay mentions.
        """
        drawn, version, revisions = self.render_message(row)
        if row.channel.startswith("D"):
            return drawn, version, revisions
        notified = drawn.notified
        text = replace_other_mentions_in_text(self.directory, drawn.text, notified)
        blocks = replace_other_mentions(self.directory, drawn.blocks, notified)
        return RenderedMessage(text, blocks), version, revisions

    def render_answer_footer(self, row: Message, body: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Return the blocks that end a streamed answer; they mention only whom it notifies."""
        below = build_answer_footer(body)
        blocks = below.render_blocks(row.run_id, last=bool(body.get("last")))
        named: list[dict[str, Any]] = replace_other_mentions(
            self.directory, blocks, {below.requester}
        )
        return named

    def get_status_emoji_and_version(self, row: Message) -> tuple[str, int]:
        """Return the emoji for the request's message, and the version of the row that it shows."""
        with self.store.read() as tx:
            current = outbox.find_message_by_key(tx, row.key) or row
            return choose_emoji_for_calls(
                calls.list_calls_of_request(tx, row.run_id)
            ), current.wanted

    def _render_text_message(self, row: Message, body: Mapping[str, Any]) -> RenderedMessage:
        """Draw a message that is not a card."""
        match row.kind:
            case MessageKind.ANSWER if not body["text"]:
                return RenderedMessage("_(interrupted)_", [])
            case MessageKind.ANSWER:
                footer, last = build_answer_footer(body), body["last"]
                notified = frozenset(filter(None, [footer.requester]))
                if footer.ours:
                    blocks = answers.render_model_answer_part(
                        body["text"], row.run_id, last, below=footer
                    )
                    return RenderedMessage(body["text"], blocks, notified)
                words = replace_other_mentions_in_text(self.directory, body["text"])
                plain_text = slack_text.strip_markdown(
                    show_link_hosts(slack_text.replace_notifying_mentions(words))
                )
                warning = f"⚠️ {footer.record} " if footer.record else ""
                text = slack_text.escape_mrkdwn(
                    slack_text.shorten_text(warning + quote_on_one_line(plain_text), 300)
                )
                blocks = answers.render_model_answer_part(words, row.run_id, last, below=footer)
                return RenderedMessage(text, blocks, notified)
            case MessageKind.TABLE:
                title = f"{body['title']}: {format_count(body['total'], 'row')}"
                text = slack_text.escape_mrkdwn(slack_text.shorten_text(title, 300))
                return RenderedMessage(text, answers.render_result_table(body))
            case _ if "links" in body and self.links is not None:
                link_buttons = [LinkButton(**each) for each in body["links"]]
                links = [
                    (each, self.links.build_url(each.kind, each.nonce)) for each in link_buttons
                ]
                return RenderedMessage(body["text"], render_link_buttons(body["text"], links))
            case _:
                notified = frozenset(body.get(outbox.NOTIFIED_KEY, ()))
                return RenderedMessage(body["text"], render_notice_blocks(body), notified)


def build_answer_footer(body: Mapping[str, Any]) -> answers.ModelAnswerFooter:
    """Return the footer of an answer from its stored body."""
    names = {each.name for each in fields(answers.ModelAnswerFooter)}
    if not body.get("loud", True):  # earlier builds stored the record with every answer
        names.discard("record")
    return answers.ModelAnswerFooter(**{name: body[name] for name in names & body.keys()})


def render_notice_blocks(body: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the blocks of a notice: the stored ones, else blocks made of its text."""
    if "blocks" in body:
        blocks: list[dict[str, Any]] = body["blocks"]
        return blocks
    render = answers.render_prose_sections if body.get("mrkdwn") else answers.render_notice_sentence
    return render(body["text"])


# The search in Slack for a message whose post got no answer, over all pages it may be on.

PAGE_SIZE = 200  # messages per page; Slack recommends no more
MAX_CLOCK_SKEW = timedelta(minutes=10)  # between our clock and Slack's
MAX_PAGES = 250
# a stream in these states still shows the words it was sent
UNFINISHED_STREAM_STATES = {
    "in_progress",
    "stopped_by_user",
}
SlackMessage = dict[str, Any]


@dataclass(frozen=True, slots=True)
class UnconfirmedPostSearch:
    """A search in Slack for messages whose post got no answer; any thread.

    Raises Slack's errors; it is then not known whether the message is there. The next search for it
    continues after the last page read, because Slack lets some apps read only one page a minute.
    """

    store: Store
    clock: Clock
    bot_user: str
    client: WebClient
    # by key: timestamp of the last message that was read before Slack refused a page
    _reached: dict[str, str] = field(default_factory=dict)

    def find_post(self, row: Message) -> SlackMessage | None:
        """Return the Slack message with this row's key, but none that was given up; or None."""
        until = outbox.get_given_up_timestamp(row)
        found = (each for each in self._read_messages(row) if extract_outbox_key(each) == row.key)
        return next((each for each in found if str(each["ts"]) > until), None)

    def find_duplicate_timestamps(self, row: Message) -> Iterator[str]:
        """Yield the timestamps of this row's duplicates in Slack, each before more is read."""
        return (
            str(each["ts"])
            for each in self._read_messages(row)
            if extract_outbox_key(each) == row.key and each["ts"] != row.ts
        )

    def find_upload(self, row: Message) -> SlackMessage | None:
        """Return the message that holds this row's file, found by its unique name; or None."""
        name = outbox.parse_message_body(row)["name"]
        for message in self._read_messages(row):
            if any(str(file.get("name")) == name for file in message.get("files") or []):
                return message
        return None

    def find_lost_stream(self, row: Message) -> SlackMessage | None:
        """Return an unfinished stream of the bot that no row knows; None if there is none."""
        return next(filter(self._is_lost_stream, self._read_messages(row)), None)

    def _read_messages(self, row: Message) -> Iterator[SlackMessage]:
        """Yield the messages in Slack among which this row's may be."""
        if row.channel.startswith(("U", "W")):
            return  # the direct message was not opened yet, so nothing was posted
        arguments: dict[str, Any] = {
            "channel": row.channel,
            "include_all_metadata": True,
            "limit": PAGE_SIZE,
            "oldest": self._get_earliest_timestamp(row),
        }
        bound = "oldest" if row.thread_ts else "latest"  # only replies come oldest first
        if reached := self._reached.pop(row.key, ""):
            arguments[bound] = reached
        try:
            if row.thread_ts:
                pages = self.client.conversations_replies(ts=row.thread_ts, **arguments)
            else:
                pages = self.client.conversations_history(**arguments)
            for page in islice(pages, MAX_PAGES):
                yield from page["messages"]
                reached = next((str(each["ts"]) for each in reversed(page["messages"])), reached)
        except SlackApiError:
            self._reached[row.key] = reached
            raise

    def _get_earliest_timestamp(self, row: Message) -> str:
        """Return the earliest Slack time at which this row may have been posted; "0" if unknown."""
        with self.store.read() as tx:
            run = runs.find_run(tx, row.run_id)
        unsure = MAX_CLOCK_SKEW + get_lead_over_machine_time(self.clock)
        return f"{(run.created_at - unsure).timestamp():.6f}" if run else "0"

    def _is_lost_stream(self, message: SlackMessage) -> bool:
        state = message.get("streaming_state")
        if message.get("user") != self.bot_user or state not in UNFINISHED_STREAM_STATES:
            return False
        with self.store.read() as tx:
            return not outbox.was_posted_by_bot(tx, message["ts"])


def extract_outbox_key(message: SlackMessage) -> str:
    """Return the key of the outbox row in a Slack message's metadata; "" if it has none."""
    return str(((message.get("metadata") or {}).get("event_payload") or {}).get("key", ""))


STREAM_ENDED_CODES = {"message_not_in_streaming_state", "stopped_by_user", "message_not_found"}


@dataclass(frozen=True, slots=True)
class OutboxSlackCalls:
    """Slack calls of the outbox that are not plain posts; any thread."""

    store: Store
    client: SlackClient  # must have no retry handlers
    team: str

    def store_request_link(self, row: Message) -> None:
        """Store the link from a card in another channel to its request's thread.

        There is no link to a request in a direct message.
        """
        body = outbox.parse_message_body(row)
        if body.get("elsewhere") and not body.get("origin"):
            with self.store.read() as tx:
                run = runs.find_run(tx, row.run_id)
            if run is not None and not run.channel.startswith("D"):
                link = self._get_permalink(run.channel, run.thread_ts)
                with self.store.write() as tx:  # its calls may have been withdrawn meanwhile
                    now = outbox.parse_message_body(outbox.find_message_by_key(tx, row.key) or row)
                    with_link = outbox.dump_message_body({**now, "origin": link})
                    outbox.update_message(tx, row, body=with_link)

    def _get_permalink(self, channel: str, ts: str) -> str:
        try:
            return str(self.client.chat_getPermalink(channel=channel, message_ts=ts)["permalink"])
        except SlackApiError:
            return ""  # the link is optional: the card names the requester anyway

    def post_ephemeral_message(self, row: Message, text: str, blocks: list[dict[str, Any]]) -> None:
        """Post a message in a channel that only one person sees.

        Slack shows such a message in a thread only if the thread has replies, as it has where the
        bot has posted; otherwise the message goes to the channel itself.
        """
        self.client.chat_postEphemeral(
            channel=row.channel,
            user=row.recipient,
            thread_ts=row.thread_ts if row.thread_ts and self._has_bot_posted(row) else None,
            text=text,
            blocks=blocks,
        )

    def _has_bot_posted(self, row: Message) -> bool:
        if self.client.get_last_post_sequence_number(row.channel, row.thread_ts):
            return True
        with self.store.read() as tx:  # before this process started
            return outbox.has_request_message_in_thread(tx, self.team, row.channel, row.thread_ts)

    def build_perhaps_lost_notice(self, row: Message) -> str:
        """Return the text to post when a private message may or may not have arrived."""
        with self.store.read() as tx:
            card = outbox.find_newest_card_of_thread(tx, self.team, row.channel, row.thread_ts)
        ts = card.ts if card else row.thread_ts
        link = self._get_permalink(row.channel, ts) if ts else ""
        return sentences.perhaps_lost_message_notice(link, is_card=card is not None)

    def stop_stream(self, row: Message, body: Mapping[str, Any], last: Mapping[str, Any]) -> bool:
        """Stop a stream, adding the rest of its text; return whether it holds the whole text.

        `last`: the blocks below the text, sent only with the whole text.
        """
        is_complete, rest = bool(body["streamed"]), body.get("rest") or {}
        below = last if is_complete else {}
        try:
            self.client.chat_stopStream(channel=row.channel, ts=row.ts, **rest, **below)
        except SlackApiError as error:
            has_ended = extract_error_code(error) in STREAM_ENDED_CODES
            if not has_ended and (not is_permanent_refusal(error) or not rest):
                raise
            if not has_ended:  # Slack does not take the words to be added
                self.client.chat_stopStream(channel=row.channel, ts=row.ts)
            return False
        return is_complete

    def replace_reactions(self, row: Message, old: Iterable[str], new: str) -> None:
        """Remove the old emojis from the request's message, and add the new one, if any."""
        at = {"channel": row.channel, "timestamp": row.ts}
        for name in old:
            with _ignore_slack_error("no_reaction"):
                self.client.reactions_remove(name=name, **at)
        if new:
            with _ignore_slack_error("already_reacted"):
                self.client.reactions_add(name=new, **at)

    def upload_file(self, row: Message) -> None:
        """Upload a file to its thread; Slack does not return the message's timestamp."""
        body = outbox.parse_message_body(row)
        self.client.files_upload_v2(
            channel=row.channel,
            thread_ts=row.thread_ts or None,
            filename=body["name"],
            title=body["title"],
            content=body["content"],
        )


@contextmanager
def _ignore_slack_error(code: str) -> Iterator[None]:
    """Treat a SlackApiError with this code as success."""
    try:
        yield
    except SlackApiError as error:
        if extract_error_code(error) != code:
            raise
