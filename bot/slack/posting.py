"""All but plain posts: words for one person, files, the link back, and the search for lost posts.

It writes nothing about how far a message has come; the outbox does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from slack_sdk import WebClient
from slack_sdk.errors import SlackApiError

from bot.slack.render import blocks_of
from storage import moves, outbox, runs
from storage.models import Message
from storage.states import MessageStatus
from storage.store import Store

PASSING = {
    "ratelimited",
    "rate_limited",
    "internal_error",
    "fatal_error",
    "service_unavailable",
    "request_timeout",
    "team_added_to_org",
    "org_login_required",
    "accesslimited",
    "streaming_state_conflict",
}


class Posting:
    """Serves the outbox's lanes; any thread."""

    def __init__(self, store: Store, bot_user: str, client: WebClient) -> None:
        """`client` must have no retry handlers; `bot_user` is the bot's own id."""
        self._store = store
        self._bot_user = bot_user
        self.client = client

    def link_back(self, row: Message) -> None:
        """A card elsewhere learns where its request stands."""
        body = outbox.body(row)
        if body.get("elsewhere") and not body.get("origin"):
            with self._store.read() as tx:
                run = runs.get(tx, row.run_id)
            if run is not None:
                link = self._permalink(run.channel, run.thread_ts)
                with self._store.write() as tx:  # its calls may have been withdrawn meanwhile
                    now = outbox.body(outbox.by_key(tx, row.key) or row)
                    outbox.change(tx, row, body=outbox.dump({**now, "origin": link}))

    def _permalink(self, channel: str, ts: str) -> str:
        try:
            return str(self.client.chat_getPermalink(channel=channel, message_ts=ts)["permalink"])
        except SlackApiError:
            return ""  # a link is a comfort; the card says who asked anyway

    def find(self, row: Message, fits: Callable[[dict[str, Any]], bool]) -> dict[str, Any] | None:
        """Find the message that a lost answer left behind: by its key, or as an open stream."""
        arguments: dict[str, Any] = {
            "channel": row.channel,
            "include_all_metadata": True,
            "limit": 100,
        }
        if row.channel.startswith(("U", "W")):
            return None  # the DM had not been opened, so nothing was posted
        if row.thread_ts:
            pages = self.client.conversations_replies(ts=row.thread_ts, **arguments)
        else:
            pages = self.client.conversations_history(**arguments)
        for page in pages:
            found: list[dict[str, Any]] = [message for message in page["messages"] if fits(message)]
            if found:
                return found[0]
            if not row.thread_ts:
                break  # a channel's newest hundred: it was posted a moment ago
        return None

    def is_lost_stream(self, message: dict[str, Any]) -> bool:
        if message.get("user") != self._bot_user or message.get("streaming_state") != "in_progress":
            return False
        with self._store.read() as tx:
            return not outbox.knows(tx, message["ts"])

    def private(self, row: Message) -> None:
        body, channel = outbox.body(row), row.channel
        blocks = blocks_of(body)
        try:
            if channel.startswith(("U", "W")):
                raise LookupError(channel)
            self.client.chat_postEphemeral(
                channel=channel,
                user=row.recipient,
                thread_ts=row.thread_ts or None,
                text=body["text"],
                blocks=blocks,
            )
        except (SlackApiError, LookupError) as error:
            code = error.response.get("error") if isinstance(error, SlackApiError) else "no_channel"
            if code in PASSING:
                raise
            opened = self.client.conversations_open(users=row.recipient)
            self.client.chat_postMessage(
                channel=str(opened["channel"]["id"]), text=body["text"], blocks=blocks
            )

    def upload(self, row: Message) -> str:
        """Put a file into its thread, once.

        The ts of its message, or "" where Slack does not say.
        """
        body = outbox.body(row)
        name = body["name"]
        if row.status is MessageStatus.SENDING and (
            found := self.find(row, lambda message: name in _files(message))
        ):
            return str(found["ts"])
        with self._store.write() as tx:
            moves.message(tx, row, MessageStatus.SENDING)
        row.status = MessageStatus.SENDING
        self.client.files_upload_v2(
            channel=row.channel,
            thread_ts=row.thread_ts,
            filename=name,
            title=body["title"],
            content=body["content"],
        )
        return ""


def key_of(message: dict[str, Any]) -> str:
    """Return the outbox's key in a message's metadata."""
    return str(((message.get("metadata") or {}).get("event_payload") or {}).get("key", ""))


def _files(message: dict[str, Any]) -> list[str]:
    return [str(file.get("name")) for file in message.get("files") or []]
