"""Helpers for the tests of cards: calls to draw, and checks for blocks and views."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from slack_sdk.models.blocks import Block
from slack_sdk.models.views import View

from bot.cards.views import ArgumentValue, CallView, CardView
from slack_sandbox.blockkit.blocks import check_blocks, check_message_size, check_view
from storage.states import CallStatus
from tests.json_schema import Schema

NOW = datetime(2026, 11, 21, 14, 0, tzinfo=UTC)
SCHEMA = Path(__file__).parents[3] / "shared" / "fixtures" / "block-kit.schema.json"

REFUND = CallView(
    id="call-1",
    revision=1,
    title="Refund an order",
    effect="Refund 40.00 EUR of order 1042",
    does="write",
    status=CallStatus.PENDING,
    values=(ArgumentValue("Order", "1042"), ArgumentValue("Amount", "40.00 EUR")),
    deadline=NOW + timedelta(hours=1),
    agent_reason="The parcel arrived broken.",
)
CANCEL = replace(
    REFUND,
    id="call-2",
    title="Cancel an order",
    effect="Cancel order 1043 for good",
    does="destructive",
    values=(ArgumentValue("Order", "1043"),),
)


def view(*calls: CallView, **changes: Any) -> CardView:
    """Build a card of a request by Ben, to be decided by Ana and the shop leads."""
    base = CardView(
        "plan-1", 3, "run-1", "UBEN00001", calls or (REFUND,), ("UANA00001",), ("S0LEADS",)
    )
    return replace(base, **changes)


def list_objects(thing: Any) -> Iterator[dict[str, Any]]:
    """List every object in a structure, at any depth."""
    if isinstance(thing, dict):
        yield thing
    for each in (
        thing.values() if isinstance(thing, dict) else thing if isinstance(thing, list) else ()
    ):
        yield from list_objects(each)


def map_buttons(blocks: list[dict[str, Any]]) -> dict[tuple[str, str], dict[str, Any]]:
    """Map all buttons by (action_id, value)."""
    return {
        (each["action_id"], each["value"]): each
        for each in list_objects(blocks)
        if each.get("type") == "button"
    }


def list_action_ids(blocks: list[dict[str, Any]]) -> list[str]:
    """List the action ids of all buttons, in order."""
    return [each["action_id"] for each in list_objects(blocks) if each.get("type") == "button"]


def read(blocks: list[dict[str, Any]]) -> str:
    """Read the blocks as a person would: a line for each text, people and times in braces."""
    lines = []
    for block in blocks:
        several = block["type"] in ("rich_text", "context")
        parts = block["elements"] if several else block.get("fields", [block])
        for part in parts:
            lines.append("".join(_read_leaf(each) for each in list_objects(part)))
    return "\n".join(line for line in lines if line)


def _read_leaf(each: dict[str, Any]) -> str:
    if each.get("type") == "user":
        return f"{{{each['user_id']}}}"
    if each.get("type") == "date":
        return f"{{{each['fallback']}}}"
    text = each.get("text")
    return text if isinstance(text, str) else ""


def list_mrkdwn_texts(thing: Any) -> list[str]:
    """List all texts that Slack would format."""
    return [
        each["text"] for each in list_objects(thing) if each.get("type") in ("mrkdwn", "markdown")
    ]


@cache
def _load_schema() -> Schema | None:
    return Schema(json.loads(SCHEMA.read_text())) if SCHEMA.exists() else None


def accept_message(blocks: list[dict[str, Any]]) -> None:
    """Fail unless our strict local Slack and the SDK accept these blocks.

    The published schema has to accept them as well, where it is present.
    """
    assert check_blocks(blocks, "message") == []
    assert check_message_size(blocks) is None
    _accept(blocks)


def accept_view(modal: dict[str, Any]) -> None:
    """Fail unless they accept this dialog, with its size."""
    assert check_view(modal) == []
    assert len(json.dumps(modal).encode()) <= 250_000
    View(**modal).validate_json()
    _accept(modal["blocks"])


def _accept(blocks: list[dict[str, Any]]) -> None:
    for block in blocks:
        parsed = Block.parse(block)
        assert parsed is not None, f"the SDK does not know {block['type']}"
        parsed.validate_json()
    schema = _load_schema()
    if schema is not None and blocks:
        problems = [f"{list(e.path)}: {e.message[:200]}" for e in schema.errors(blocks)]
        assert problems == []


needs_schema = pytest.mark.skipif(
    not SCHEMA.exists(), reason="the published Block Kit schema is not at hand"
)
