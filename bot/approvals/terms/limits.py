"""How much one request and one person may use: turns, tokens, cards, calls put before people. Each
says so in words.

Reads the database; changes nothing and asks nobody.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from bot.core import Core
from storage import calls, runs
from storage.models import Run

MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(hours=24)


@dataclass(frozen=True, slots=True)
class Reached:
    """Nobody is asked any more for now: the sentence for the model, and the words for the
    requester.
    """

    output: str
    note: str


def on_asking(core: Core, run: Run, beside: int) -> Reached | None:
    """The limit that keeps one more call of this run from people.

    `beside`: calls asked in the same plan already.
    """
    settings, now = core.settings, core.clock.now()
    if run.cards >= settings.max_cards:
        return Reached(
            f"REFUSED: this request has asked people {settings.max_cards} times already; that is its limit.",
            "the request reached its limit of cards",
        )
    with core.store.read() as tx:
        waiting = calls.pending_of(tx, run.team, run.requester) + beside
    if waiting >= settings.max_pending:
        return Reached(
            f"REFUSED: {waiting} calls of this requester wait for a decision already; some must be decided first.",
            f"{waiting} of your requests wait for a decision already; this one has to wait until some are decided",
        )
    if wait := _until_room(core, run, settings.max_asked_per_hour - beside, now):
        many = f"people were asked about {settings.max_asked_per_hour} calls"
        return Reached(
            f"REFUSED: {many} of this requester within the last hour, which is the limit. Propose no more of them "
            f"now; there is room again in {wait} minutes.",
            f"{many} of yours within the last hour, which is the limit; ask me again in {wait} minutes",
        )
    return None


def _until_room(core: Core, run: Run, most: int, now: datetime) -> int:
    """Whole minutes until people may be asked about a call again, when `most` may be within the
    hour; 0 for now.
    """
    if most <= 0:
        return HOUR // MINUTE
    with core.store.read() as tx:
        first = calls.last_asked(tx, run.team, run.requester, most - 1, now - HOUR)
    return max(1, -((now - HOUR - first) // MINUTE)) if first else 0


def on_going_on(core: Core, run: Run) -> str:
    """Why the model is not asked again in this run, in words for its thread; "" when it may be."""
    settings = core.settings
    if run.turns >= settings.max_turns:
        return f"I stopped: this request has taken {run.turns} turns, which is its limit."
    if run.tokens >= settings.max_tokens:
        return (
            f"I stopped: this request has used {run.tokens} tokens, which is more than its limit."
        )
    with core.store.read() as tx:
        tokens = runs.tokens_since(tx, run, core.clock.now() - DAY)
    if tokens >= settings.max_tokens_per_day:
        return (
            f"I stopped: your requests of the last 24 hours have used {tokens:,} tokens, and one person's limit is "
            f"{settings.max_tokens_per_day:,}. Ask me again later."
        )
    return ""
