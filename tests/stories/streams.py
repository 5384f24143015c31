"""Helpers for stories about streamed answers."""

from __future__ import annotations

from typing import Any

from tests.stories.harness import SUPPORT, Harness
from tests.stories.steps import all_sent

LONG = " ".join(f"word{number}" for number in range(120))


def count_requests(harness: Harness, thread: str, method: str) -> int:
    """Count the bot's successful requests of this method about the thread or its messages."""
    mine = {m["ts"] for m in harness.thread(SUPPORT, thread)} | {thread}
    found = [
        r for r in harness.slack.requests if r.method == method and (r.response or {}).get("ok")
    ]
    return sum(bool({r.args.get("thread_ts"), r.args.get("ts")} & mine) for r in found)


def answer_of(message: dict[str, Any]) -> str:
    """Return the Markdown of a message without the quote marks around it."""
    framed = "".join(b["text"] for b in message["blocks"] if b["type"] == "markdown")
    assert all(line.startswith(">") for line in framed.splitlines())
    return "\n".join(line.removeprefix(">").removeprefix(" ") for line in framed.splitlines())


def bot_messages(
    harness: Harness, thread: str, who: str = "ben", channel: str = SUPPORT
) -> list[dict[str, Any]]:
    return [
        m
        for m in harness.thread(channel, thread, who)
        if m.get("bot_id") and not m.get("is_ephemeral")
    ]


def get_only_answer(harness: Harness, thread: str, text: str) -> dict[str, Any]:
    """Return the message with this whole answer, the only one of the thread with any answer."""
    all_sent(harness)
    [found] = [m for m in bot_messages(harness, thread) if answer_of(m)]
    assert answer_of(found) == text
    assert not [
        m for m in bot_messages(harness, thread) if m.get("streaming_state") == "in_progress"
    ]
    return found
