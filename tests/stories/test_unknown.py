"""Calls of which nobody knows how they ended, once somebody has settled it."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable
from typing import Any

from bot.approvals.receipts import ReceiptWriter
from bot.demo.model_server import Turn
from bot.tools import Effect, ToolContext, tool
from storage.models import Call
from tests.stories.fakes import Note
from tests.stories.harness import SUPPORT, Harness
from tests.stories.messages import words
from tests.stories.steps import all_sent, ask_for, noted, now_at, press, vote

LAX = '[defaults]\napprovers = ["@shop-leads"]\n'
HEARD = "So that is how it is."


@tool(
    title="Ship",
    effect="Ship {text}",
    does=Effect.WRITE,
    outcome=lambda args, _: f"Shipped {args.text}",
)
def ship(args: Note, context: ToolContext) -> str:
    """Ships something, and loses the answer."""
    raise ConnectionResetError("the line went dead")


def lost(harness: Harness, tool: str = "lose") -> tuple[str, dict[str, Any]]:
    """A call that was approved and started, and of which nobody knows; the thread and its card."""
    thread, card = ask_for(harness, "parcel", tool)
    harness.planner.script(Turn(text=HEARD))
    vote(harness, "ana", card)
    return thread, harness.card(SUPPORT, thread, having="run_again")


def only(harness: Harness, thread: str) -> Call:
    """The thread's only call."""
    [call] = harness.calls_in(thread)
    return call


def test_what_happened_is_not_told_as_an_error(own_harness: Callable[..., Harness]) -> None:
    """Somebody says that it happened: no card, message or receipt calls the error its outcome."""
    harness = own_harness([ship], LAX)
    thread, card = lost(harness, "ship")
    press(harness, "ana", SUPPORT, card, "resolve_done")
    harness.said(SUPPORT, thread, "✅ Done: Ship parcel.")
    all_sent(harness)
    shown = words(now_at(harness, SUPPORT, card["ts"]))
    assert ("Ship parcel" in shown, "Done" in shown, "went dead" in shown) == (True, True, False)
    core, call = harness.app.core, only(harness, thread)
    with core.store.read() as tx:
        end = ReceiptWriter(core.key, core.tools).write_receipts(tx, call)["end"]
    assert b"went dead" not in b64decode(end["payload"])
    [data] = noted(harness, call.run_id, "call.unknown")
    assert "went dead" in data["why"]  # of which the record keeps why nobody knew
