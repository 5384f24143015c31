"""An outbox row as the Slack message it should be now. Reads the rows; sends nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from bot.approvals.card_routing import mark_of
from bot.approvals.card_views import card_view, question_view
from bot.cards import answers
from bot.cards.block_kit import quoted_line, show_link_targets
from bot.cards.card import DrawnMessage, draw_card, draw_card_copy
from bot.cards.question_message import question_message
from bot.cards.slack_text import escape, neutral_markdown, plain, without_markdown
from bot.clock import Clock
from bot.policy.directory import Directory
from bot.slack.directory import with_names
from bot.tools import Registry
from storage import calls, outbox
from storage.models import Message
from storage.states import DRAWN, MessageKind
from storage.store import Store

GONE = DrawnMessage("This has changed since, and is asked again in another message.", [])


@dataclass(frozen=True, slots=True)
class Renderer:
    """Draws messages from the rows as they are."""

    store: Store
    clock: Clock
    tools: Registry
    directory: Directory

    def draw(self, row: Message) -> tuple[DrawnMessage, int, Mapping[str, int] | None]:
        """Draw the message as it should be now; also return the version that shows.

        Of a card, return the revision of each call on it too, by call id.
        """
        is_card, now = row.kind in DRAWN, self.clock.now()
        with self.store.read() as tx:
            current = outbox.by_key(tx, row.key) or row
            asks = row.kind is MessageKind.CARD and outbox.QUESTION in outbox.body(current)
            question = question_view(self.tools, tx, current, now) if asks else None
            view = card_view(self.tools, tx, current, now) if is_card and not asks else None
        if question:
            drawn = DrawnMessage(*question_message(question, now))
            return drawn, current.wanted, {question.id: question.revision}
        if view and row.kind is MessageKind.COPY:
            place = str(outbox.body(current)["asked_in"])
            return draw_card_copy(view, place, now), current.wanted, None
        if view:
            revisions = {call.id: call.revision for call in view.calls}
            return draw_card(view, now), current.wanted, revisions
        if is_card:
            return GONE, current.wanted, {}
        return self._words(row, outbox.body(current)), current.wanted, None

    def mark(self, row: Message) -> tuple[str, int]:
        """Return the emoji that the request is to wear now, and the version that shows."""
        with self.store.read() as tx:
            current = outbox.by_key(tx, row.key) or row
            return mark_of(calls.of_request(tx, row.run_id)), current.wanted

    def _words(self, row: Message, body: Mapping[str, Any]) -> DrawnMessage:
        """Draw what is not a card."""
        match row.kind:
            case MessageKind.ANSWER if not body["text"]:
                return DrawnMessage("_(interrupted)_", [])
            case MessageKind.ANSWER:
                under, last = below_of(body), body["last"]
                if under.ours:
                    blocks = answers.answer_blocks(body["text"], row.run_id, last, below=under)
                    return DrawnMessage(body["text"], blocks)
                words = with_names(self.directory, body["text"])
                said = without_markdown(show_link_targets(neutral_markdown(words)))
                loud = f"⚠️ {under.record} " if under.loud else ""
                text = escape(plain(loud + quoted_line(said), 300))
                return DrawnMessage(
                    text, answers.answer_blocks(words, row.run_id, last, below=under)
                )
            case MessageKind.TABLE:
                text = escape(plain(f"{body['title']}: {body['total']} rows", 300))
                return DrawnMessage(text, answers.table_blocks(body))
            case _:
                return DrawnMessage(body["text"], blocks_of(body))


def below_of(body: Mapping[str, Any]) -> answers.AnswerFooter:
    """Return what stands below an answer, by its body."""
    kept = fields(answers.AnswerFooter)
    return answers.AnswerFooter(
        **{each.name: body[each.name] for each in kept if each.name in body}
    )


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
