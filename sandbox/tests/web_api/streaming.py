"""Starting a stream and reading the message that it becomes."""

from __future__ import annotations

from typing import Any

from slack_sdk import WebClient

from sandbox.tests.builders import Json
from slack_sandbox.server import Sandbox

FOR_BEN = {"recipient_user_id": "UBEN00001", "recipient_team_id": "T0SANDBOX"}


def start(client: WebClient, thread: str, **more: Any) -> str:
    """Start a stream for ben; its ts."""
    return str(
        client.chat_startStream(channel="C0SUPPORT", thread_ts=thread, **{**FOR_BEN, **more})["ts"]
    )


def seen(sandbox: Sandbox, thread: str) -> Json:
    """The last message of the thread."""
    return sandbox.person("ben").messages("support", thread)[-1]


def task(number: int, status: str = "in_progress", **more: Any) -> Json:
    """A task_update chunk."""
    return {
        "type": "task_update",
        "id": str(number),
        "title": f"Task {number}",
        "status": status,
        **more,
    }


def words(text: str) -> Json:
    """A markdown_text chunk."""
    return {"type": "markdown_text", "text": text}
