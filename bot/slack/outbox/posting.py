"""All but plain posts: words for one person, files, the end of a stream, the link back.

It writes nothing about how far a message has come; the sender does.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from slack_sdk.errors import SlackApiError

from bot.messages.sentences import refusals
from bot.slack.client import SlackClient
from bot.slack.errors import is_final
from bot.slack_codes import code_of
from storage import outbox, runs
from storage.models import Message
from storage.store import Store

STREAM_OVER = {"message_not_in_streaming_state", "stopped_by_user", "message_not_found"}


class Posting:
    """Serves the outbox's lanes; any thread."""

    def __init__(self, store: Store, client: SlackClient) -> None:
        """`client` must have no retry handlers."""
        self._store = store
        self.client = client

    def link_back(self, row: Message) -> None:
        """A card elsewhere learns where its request stands, unless that is between two."""
        body = outbox.body(row)
        if body.get("elsewhere") and not body.get("origin"):
            with self._store.read() as tx:
                run = runs.get(tx, row.run_id)
            if run is not None and not run.channel.startswith("D"):
                link = self._permalink(run.channel, run.thread_ts)
                with self._store.write() as tx:  # its calls may have been withdrawn meanwhile
                    now = outbox.body(outbox.by_key(tx, row.key) or row)
                    outbox.change(tx, row, body=outbox.dump({**now, "origin": link}))

    def _permalink(self, channel: str, ts: str) -> str:
        try:
            return str(self.client.chat_getPermalink(channel=channel, message_ts=ts)["permalink"])
        except SlackApiError:
            return ""  # a link is a comfort; the card says who asked anyway

    def private(self, row: Message, text: str, blocks: list[dict[str, Any]]) -> None:
        """Say something in a channel that one person alone sees.

        Slack shows it in a thread only where the thread has replies: there are some where the bot
        has posted; anywhere else it stands in the channel.
        """
        self.client.chat_postEphemeral(
            channel=row.channel,
            user=row.recipient,
            thread_ts=row.thread_ts if self._has_posted(row) else None,
            text=text,
            blocks=blocks,
        )

    def _has_posted(self, row: Message) -> bool:
        if self.client.last_post(row.channel, row.thread_ts):
            return True
        with self._store.read() as tx:  # before this process began
            return outbox.has_posted(tx, row.channel, row.thread_ts)

    def pointer(self, row: Message) -> str:
        """Return what is said where nobody knows whether private words have arrived."""
        with self._store.read() as tx:
            card = outbox.card_in(tx, row.channel, row.thread_ts)
        ts = card.ts if card else row.thread_ts
        link = self._permalink(row.channel, ts) if ts else ""
        return refusals.perhaps_said(link, is_card=card is not None)

    def stop_stream(self, row: Message, body: Mapping[str, Any], last: Mapping[str, Any]) -> bool:
        """Stop a stream, with what it lacks; return whether it now holds the whole text.

        `last`: what stands below it then.
        """
        whole, rest = bool(body["streamed"]), body.get("rest") or {}
        below = last if whole else {}
        try:
            self.client.chat_stopStream(channel=row.channel, ts=row.ts, **rest, **below)
        except SlackApiError as error:
            over = code_of(error) in STREAM_OVER
            if not over and (not is_final(error) or not rest):
                raise
            if not over:  # what is to be added does not fit
                self.client.chat_stopStream(channel=row.channel, ts=row.ts)
            return False
        return whole

    def mark(self, row: Message, old: Iterable[str], new: str) -> None:
        """Take the old emojis off the request's message, and put on the new one, if any."""
        at = {"channel": row.channel, "timestamp": row.ts}
        for name in old:
            with _already("no_reaction"):
                self.client.reactions_remove(name=name, **at)
        if new:
            with _already("already_reacted"):
                self.client.reactions_add(name=new, **at)

    def upload(self, row: Message) -> None:
        """Put a file into its thread; Slack does not say where it then stands."""
        body = outbox.body(row)
        self.client.files_upload_v2(
            channel=row.channel,
            thread_ts=row.thread_ts or None,
            filename=body["name"],
            title=body["title"],
            content=body["content"],
        )


@contextmanager
def _already(code: str) -> Iterator[None]:
    """Take this error of Slack's for success."""
    try:
        yield
    except SlackApiError as error:
        if code_of(error) != code:
            raise
