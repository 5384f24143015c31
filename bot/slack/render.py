"""An outbox row as the Slack message it should be now. Reads the rows; sends nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bot.approvals.cards.card_view import card_view
from bot.core import Core
from bot.messages import answers
from bot.messages.cards.card import Drawn, card
from bot.messages.text import escape, neutral_markdown, plain
from bot.slack.directory import with_names
from storage import outbox
from storage.models import Message
from storage.states import MessageKind


def draw(core: Core, row: Message) -> tuple[Drawn, int]:
    """Draw the message as it should be now; also return the version that shows."""
    with core.store.read() as tx:
        current = outbox.by_key(tx, row.key) or row
        view = card_view(core, tx, current) if row.kind is MessageKind.CARD else None
    body = outbox.body(current)
    if row.kind is MessageKind.CARD:
        if view is None:
            return Drawn(
                "This has changed since, and is asked again in another message.", []
            ), current.wanted
        return card(view, core.clock.now()), current.wanted
    if row.kind is MessageKind.ANSWER:
        if not body["text"]:
            return Drawn("_(interrupted)_", []), current.wanted
        words = with_names(core.directory, body["text"])
        text = escape(plain(" ".join(neutral_markdown(words).split()), 300))
        return Drawn(text, answers.answer_blocks(words, row.run_id, body["last"])), current.wanted
    if row.kind is MessageKind.TABLE:
        text = escape(plain(f"{body['title']}: {body['total']} rows", 300))
        return Drawn(text, answers.table_blocks(body)), current.wanted
    return Drawn(body["text"], blocks_of(body)), current.wanted


def blocks_of(body: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the blocks of a notice: its own, or those of its sentence."""
    if "blocks" in body:
        blocks: list[dict[str, Any]] = body["blocks"]
        return blocks
    return (
        answers.prose_blocks(body["text"])
        if body.get("mrkdwn")
        else answers.notice_blocks(body["text"])
    )
