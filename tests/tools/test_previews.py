"""Previews: what a tool shows before it runs, and what is checked at its registration."""

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
    """The place of a book."""

    room: str


class Move(BaseModel):
    """Arguments with a nested model."""

    book: str
    to: Shelf


class Other(BaseModel):
    """The arguments of another tool."""

    book: str


def make_move_tool(
    preview: Any = None, effect: str = "Move {book} to {to.room}", **options: Any
) -> Tool[Any]:
    """Make a tool with this preview, this effect and these options."""
    does = options.pop("does", Effect.WRITE)

    @tool(
        title="Move",
        effect=effect,
        does=does,
        preview=preview,
        secret={"book"},
        name="move",
        **options,
    )
    def move(args: Move, context: ToolContext) -> str:
        return "moved"

    return move


@pytest.fixture
def hold() -> Iterator[threading.Event]:
    """An event on which a preview hangs until the test is over."""
    event = threading.Event()
    yield event
    event.set()


def preview_call(preview: Any, seconds: float = 5.0) -> Preview:
    """Run this preview of a call; what people would be shown."""
    previews = PreviewRunner(seconds)
    try:
        args = Move(book="Emma", to=Shelf(room="hall"))
        return previews.run_preview(make_move_tool(preview), args, context())
    finally:
        previews.close()
        previews.portal.close()


async def preview_async(args: Move, context: ToolContext) -> str:
    """An async preview."""
    return f"soon for {context.requester}"


async def preview_and_hang(args: Move, context: ToolContext) -> str:
    """An async preview that hangs."""
    await asyncio.Event().wait()
    return ""


def test_a_preview_may_be_text_a_preview_or_async() -> None:
    """A tool without a preview shows nothing."""
    whole = Preview("all", expects="e")
    assert preview_call(lambda args, context: whole) == whole
    assert preview_call(preview_async) == Preview("soon for UBEN00001")
    assert preview_call(None) == Preview("")


def test_a_preview_that_hangs_is_not_waited_for(hold: threading.Event) -> None:
    """The card says that there is no preview, and why."""
    late = Preview("(no preview: it took longer than 0.05 seconds)")
    assert preview_call(lambda args, context: str(hold.wait(60)), 0.05) == late
    assert preview_call(preview_and_hang, 0.05).text.startswith("(no preview: ")


def test_a_broken_preview_does_not_keep_people_from_being_asked() -> None:
    """The card says what went wrong, with secrets masked.

    A refusal by the tool is raised in the tool's words.
    """

    def broken(args: Move, context: ToolContext) -> str:
        raise SystemExit(f"no {args.book}")

    def refused(args: Move, context: ToolContext) -> str:
        raise ToolError(f"{args.book} is lent")

    assert preview_call(broken).text == "(no preview: SystemExit: no ••••••••)"
    assert "it returned int" in preview_call(lambda args, context: 3).text
    with pytest.raises(ToolError, match=r"^•+ is lent$"):
        preview_call(refused)


def preview_another_tool(args: Other, context: ToolContext) -> str:
    """A preview of another tool."""
    return ""


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"preview": lambda args: ""}, r"the preview takes \(args, context\)"),
        ({"preview": preview_another_tool}, "the preview takes Other, the tool Move"),
        ({"effect": "Move {author}"}, "effect names unknown fields: author"),
        ({"effect": "Move {}"}, "effect names unknown fields: {}"),
        ({"effect": "Move {book:{width}}"}, "effect names unknown fields: width"),
        ({"effect": "Move to {to.floor}"}, "effect names unknown fields: to.floor"),
        ({"effect": "Move {book"}, "effect is no template"),
        ({"does": "wriet"}, "does is one of read, write, destructive, not 'wriet'"),
        ({"risk": "huge"}, "risk is one of low, medium, high, not 'huge'"),
        ({"timeout": 0}, "timeout is more than 0, not 0"),
        ({"timeout": float("nan")}, "timeout is more than 0, not nan"),
        ({"max_output": -1}, "max_output is more than 0, not -1"),
    ],
)
def test_an_option_that_cannot_work_is_refused(given: dict[str, Any], words: str) -> None:
    """It is refused when the tool is registered."""
    with pytest.raises((TypeError, ValueError), match=words):
        make_move_tool(**given)


def test_an_effect_class_may_be_written_as_text() -> None:
    """It means the same as the member, also where code compares by identity."""
    named: Any = "read"
    made = make_move_tool(does=named)
    assert made.does is Effect.READ
    assert (made.idempotent, made.risk, made.needs_reason) == (True, "low", False)


class Inner(BaseModel):
    """A field that Pydantic leaves out wherever the model is written."""

    unseen: int = Field(default=5, exclude=True)


class Outer(BaseModel):
    """A model with such a field one level down."""

    parts: list[Inner] = []


def act(args: Outer, context: ToolContext) -> None:
    """Act."""


def test_a_field_that_is_never_stored_is_refused() -> None:
    """Its value would not be shown, and the function would get the default instead."""
    with pytest.raises(ValueError, match="a field with exclude= or exclude_if= is not stored"):
        tool(title="Act", effect="Act", does=Effect.WRITE)(act)
