"""How a tool is asked beforehand, and what must be true of it before it is a tool."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import BaseModel, Field

from bot.tools import Effect, Preview, Tool, ToolContext, ToolError, tool
from bot.tools.preview import PreviewRunner
from tests.tools import context


class Shelf(BaseModel):
    """Where it goes."""

    room: str


class Move(BaseModel):
    """Arguments with a part of their own."""

    book: str
    to: Shelf


class Other(BaseModel):
    """Somebody else's arguments."""

    book: str


def moving(preview: Any = None, effect: str = "Move {book} to {to.room}") -> Tool[Any]:
    """A tool with this preview and this sentence."""

    @tool(
        title="Move",
        effect=effect,
        does=Effect.WRITE,
        preview=preview,
        secret={"book"},
        name="move",
    )
    def move(args: Move, context: ToolContext) -> str:
        return "moved"

    return move


@pytest.fixture
def hold() -> Iterator[threading.Event]:
    """What a preview hangs on until the test is over."""
    event = threading.Event()
    yield event
    event.set()


def foreseen(preview: Any, seconds: float = 5.0) -> Preview:
    """What people would be shown."""
    previews = PreviewRunner(seconds)
    try:
        args = Move(book="Emma", to=Shelf(room="hall"))
        return previews.run_preview(moving(preview), args, context())
    finally:
        previews.close()
        previews.portal.close()


async def soon(args: Move, context: ToolContext) -> str:
    """An async preview."""
    return f"soon for {context.requester}"


async def never(args: Move, context: ToolContext) -> str:
    """An async preview that hangs."""
    await asyncio.Event().wait()
    return ""


def test_text_previews_and_async_ones() -> None:
    """A preview gives text or a Preview, at once or awaited; without one nothing is said."""
    whole = Preview("all", expects="e")
    assert foreseen(lambda args, context: whole) == whole
    assert foreseen(soon) == Preview("soon for UBEN00001")
    assert foreseen(None) == Preview("")


def test_a_preview_is_bounded_in_time(hold: threading.Event) -> None:
    """Whoever hangs is not waited for; the card says that there is no preview."""
    late = Preview("(no preview: it took longer than 0.05 seconds)")
    assert foreseen(lambda args, context: str(hold.wait(60)), 0.05) == late
    assert foreseen(never, 0.05).text.startswith("(no preview: ")


def test_a_broken_preview_is_none() -> None:
    """An error of the tool's author is told as such, secrets masked, and keeps nobody from asking.

    A refusal is raised in the tool's words.
    """

    def broken(args: Move, context: ToolContext) -> str:
        raise SystemExit(f"no {args.book}")

    def refused(args: Move, context: ToolContext) -> str:
        raise ToolError(f"{args.book} is lent")

    assert foreseen(broken).text == "(no preview: SystemExit: no ••••••••)"
    assert "it returned int" in foreseen(lambda args, context: 3).text
    with pytest.raises(ToolError, match=r"^•+ is lent$"):
        foreseen(refused)


def of_another(args: Other, context: ToolContext) -> str:
    """A preview of another tool."""
    return ""


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"preview": lambda args: ""}, r"the preview takes \(args, context\)"),
        ({"preview": of_another}, "the preview takes Other, the tool Move"),
        ({"effect": "Move {author}"}, "effect names unknown fields: author"),
        ({"effect": "Move {}"}, "effect names unknown fields: {}"),
        ({"effect": "Move {book:{width}}"}, "effect names unknown fields: width"),
        ({"effect": "Move to {to.floor}"}, "effect names unknown fields: to.floor"),
        ({"effect": "Move {book"}, "effect is no template"),
    ],
)
def test_what_cannot_work_is_refused_at_registration(given: dict[str, Any], words: str) -> None:
    """A preview or a sentence that could never be shown keeps the tool from being one."""
    with pytest.raises((TypeError, ValueError), match=words):
        moving(**given)


class Inner(BaseModel):
    """A field that Pydantic leaves out wherever the model is written."""

    unseen: int = Field(default=5, exclude=True)


class Outer(BaseModel):
    """Such a field one level down."""

    parts: list[Inner] = []


def act(args: Outer, context: ToolContext) -> None:
    """Act."""


def test_a_field_that_is_never_stored_is_refused_at_registration() -> None:
    """Its value would not be shown, and the function would get another one."""
    with pytest.raises(ValueError, match="a field with exclude= or exclude_if= is not stored"):
        tool(title="Act", effect="Act", does=Effect.WRITE)(act)
