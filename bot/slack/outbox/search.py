"""The search for a message that a lost answer left behind, over all pages it may be on."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from itertools import islice
from typing import Any

from slack_sdk import WebClient

from bot.clock import Clock, ahead_of_the_world
from storage import outbox, runs
from storage.models import Message
from storage.store import Store

PAGE = 200  # messages; Slack recommends no more
SKEW = timedelta(minutes=10)  # that our clock and Slack's may be apart
MOST_PAGES = 250
UNFINISHED = {"in_progress", "stopped_by_user"}  # streams that still have the words they had
Found = dict[str, Any]


class PostSearch:
    """Serves the outbox's lanes; any thread. Raises what Slack answers: then nothing is known."""

    def __init__(self, store: Store, clock: Clock, bot_user: str, client: WebClient) -> None:
        """`bot_user` is the bot's own id."""
        self._store = store
        self._clock = clock
        self._bot_user = bot_user
        self._client = client

    def posted(self, row: Message) -> Found | None:
        """Return the message that this row was posted as, by the key that it carries."""
        return self._find(row, lambda message: key_of(message) == row.key)

    def strays(self, row: Message) -> list[str]:
        """Return where else this row's message stands, beside the place that it knows of."""
        found: list[str] = []

        def is_stray(message: Found) -> bool:
            if key_of(message) == row.key and message["ts"] != row.ts:
                found.append(str(message["ts"]))
            return False

        self._find(row, is_stray)
        return found

    def uploaded(self, row: Message) -> Found | None:
        """Return the message that this row's file stands in; its name is nobody else's."""
        name = outbox.body(row)["name"]
        return self._find(row, lambda message: name in _files(message))

    def lost_stream(self, row: Message) -> Found | None:
        """Return a stream of ours that no row knows of."""
        return self._find(row, self._is_lost_stream)

    def _find(self, row: Message, fits: Callable[[Found], bool]) -> Found | None:
        if row.channel.startswith(("U", "W")):
            return None  # the DM had not been opened, so nothing was posted
        arguments: dict[str, Any] = {
            "channel": row.channel,
            "include_all_metadata": True,
            "limit": PAGE,
            "oldest": self._oldest(row),
        }
        if row.thread_ts:
            pages = self._client.conversations_replies(ts=row.thread_ts, **arguments)
        else:
            pages = self._client.conversations_history(**arguments)
        for page in islice(pages, MOST_PAGES):
            found: list[Found] = [message for message in page["messages"] if fits(message)]
            if found:
                return found[0]
        return None

    def _oldest(self, row: Message) -> str:
        """Return the time before which it cannot have been posted: its request was not there."""
        with self._store.read() as tx:
            run = runs.get(tx, row.run_id)
        unsure = SKEW + ahead_of_the_world(self._clock)
        return f"{(run.created_at - unsure).timestamp():.6f}" if run else "0"

    def _is_lost_stream(self, message: Found) -> bool:
        state = message.get("streaming_state")
        if message.get("user") != self._bot_user or state not in UNFINISHED:
            return False
        with self._store.read() as tx:
            return not outbox.knows(tx, message["ts"])


def key_of(message: Found) -> str:
    """Return the outbox's key in a message's metadata."""
    return str(((message.get("metadata") or {}).get("event_payload") or {}).get("key", ""))


def _files(message: Found) -> list[str]:
    return [str(file.get("name")) for file in message.get("files") or []]
