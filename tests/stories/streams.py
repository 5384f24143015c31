"""Answers that were streamed: how often Slack was called for them, and what stands there."""

from __future__ import annotations

from typing import Any

from tests.stories.harness import SUPPORT, Harness
from tests.stories.steps import all_sent

LONG = " ".join(f"word{number}" for number in range(120))


def called(harness: Harness, thread: str, method: str) -> int:
    """Return how often the bot called a method of the thread with success.

    It is known by its argument thread_ts, or by its message.
    """
    mine = {m["ts"] for m in harness.thread(SUPPORT, thread)} | {thread}
    found = [
        r for r in harness.slack.requests if r.method == method and (r.response or {}).get("ok")
    ]
    return sum(bool({r.args.get("thread_ts"), r.args.get("ts")} & mine) for r in found)


def answer_of(message: dict[str, Any]) -> str:
    """The Markdown that a message shows, taken out of its frame."""
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


def stands_once(harness: Harness, thread: str, text: str) -> dict[str, Any]:
    """The one message that shows this answer, whole.

    No other message of the thread shows any part of it.
    """
    all_sent(harness)
    [found] = [m for m in bot_messages(harness, thread) if answer_of(m)]
    assert answer_of(found) == text
    assert not [
        m for m in bot_messages(harness, thread) if m.get("streaming_state") == "in_progress"
    ]
    return found
