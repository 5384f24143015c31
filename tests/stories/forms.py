"""Helpers for stories about requests that are made with a form."""

from __future__ import annotations

from typing import Any

from slack_sandbox.workspace.records import Delivery
from tests.stories.harness import SUPPORT, Harness
from tests.stories.messages import words
from tests.stories.steps import typed


def command(harness: Harness, line: str, who: str = "ben", channel: str = SUPPORT) -> None:
    """Type a slash command and wait until it is acknowledged."""
    sent = harness.person(who).command(channel, line)
    assert isinstance(sent, Delivery)
    assert sent.wait() == "acked"


def form(harness: Harness, what: str, who: str = "ben", channel: str = SUPPORT) -> dict[str, Any]:
    """Open the form of a tool by its name, and return it."""
    command(harness, f"/approvals request {what}", who, channel)
    view: dict[str, Any] = harness.slack.wait(harness.person(who).view)
    return view


def option(harness: Harness, value: str) -> dict[str, Any]:
    """Return the option with this value in Ben's dialog."""
    options = [
        each
        for block in harness.person("ben").view()["blocks"]
        for each in block.get("element", {}).get("options", [])
    ]
    return next(each for each in options if each["value"] == value)


def root(harness: Harness, text: str, channel: str = SUPPORT, who: str = "ben") -> str:
    """Wait for the first message of the request with this text, and return its ts."""

    def look() -> str | None:
        seen = harness.person(who).messages(channel)
        return next((m["ts"] for m in seen if "asks: " in words(m) and text in words(m)), None)

    return str(harness.slack.wait(look))


def request(harness: Harness, text: str, tool: str = "note", why: str = "") -> str:
    """Have Ben ask for this text with a form; return the thread."""
    form(harness, tool)
    entered = typed(text=text) | {"why": {"text": {"value": why}}}
    assert harness.person("ben").submit(entered)["outcome"] == "closed"
    return root(harness, text)
