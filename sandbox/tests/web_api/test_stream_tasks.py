"""The tasks of a stream: where they are shown, and how later updates change them."""

from __future__ import annotations

import pytest
from slack_sdk import WebClient

from sandbox.tests.builders import Json
from sandbox.tests.web_api.streaming import seen, start, task, words
from slack_sandbox.server import Sandbox


def look(message: Json) -> list[str]:
    """The message's blocks in short: words, and tasks with their states."""
    shown: list[str] = []
    for block in message["blocks"]:
        tasks = block.get("tasks", [block] if block["type"] == "task_card" else [])
        if block["type"] == "plan":
            shown.append(f"plan {block['title']}")
        shown += [f"{each['title']} {each['status']}" for each in tasks]
        shown += [block["text"]] if block["type"] == "markdown" else []
    return shown


MIXED = [words("First. "), task(1), words("Then. "), task(2, "pending"), words("Last.")]


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("timeline", ["First. ", "Task 1 complete", "Then. ", "Task 2 pending", "Last. And more."]),
        (
            "plan",
            [
                "First. ",
                "plan My plan",
                "Task 1 complete",
                "Task 2 pending",
                "Then. Last. And more.",
            ],
        ),
    ],
)
def test_tasks_are_shown_in_a_timeline_or_a_plan(
    sandbox: Sandbox, client: WebClient, thread: str, mode: str, expected: list[str]
) -> None:
    """In a timeline each task stands where it was first named, in a plan all stand together.

    Updates change them.
    """
    ts = start(client, thread, chunks=MIXED, task_display_mode=mode)
    more = [task(1, "complete"), {"type": "plan_update", "title": "My plan"}, words(" And more.")]
    before = [block["block_id"] for block in seen(sandbox, thread)["blocks"]]
    client.chat_appendStream(channel="C0SUPPORT", ts=ts, chunks=more)
    assert look(seen(sandbox, thread)) == expected
    assert [block["block_id"] for block in seen(sandbox, thread)["blocks"]] == before
    assert seen(sandbox, thread)["text"] == "First. Then. Last. And more."


def test_a_later_update_extends_a_task(sandbox: Sandbox, client: WebClient, thread: str) -> None:
    """It replaces title and status, and adds to all other fields."""
    source = {"type": "url", "url": "https://shop.example/7", "text": "Order 7"}
    ts = start(client, thread, chunks=[task(1, details="look", sources=[source])])
    client.chat_appendStream(
        channel="C0SUPPORT",
        ts=ts,
        chunks=[task(1, "complete", details="ed it up", output="done", sources=[source])],
    )
    (card,) = seen(sandbox, thread)["blocks"]
    texts = [card[key]["elements"][0]["elements"][0]["text"] for key in ("details", "output")]
    assert (card["status"], texts, len(card["sources"])) == (
        "complete",
        ["looked it up", "done"],
        2,
    )
