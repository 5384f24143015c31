"""How much one request and one person may use: turns, tokens, cards, calls put before people.

Reads the database; changes nothing and asks nobody.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from bot.agent import outputs
from bot.clock import Clock
from bot.config.settings import Settings
from storage import calls, runs, sub_agents
from storage.models import Call, Run
from storage.states import CallStatus, RunSource
from storage.transaction import Transaction

MOST_REFUSED = 3  # turns in a row of which nothing was let through, before a request ends
MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(hours=24)


def _refused_lately(proposed: Sequence[Call]) -> bool:
    """Whether of the last plans every call was refused; `proposed` in the order of proposal."""
    plans = list(dict.fromkeys(each.plan_id for each in proposed))[-MOST_REFUSED:]
    lately = [each for each in proposed if each.plan_id in plans]
    return len(plans) == MOST_REFUSED and all(each.status is CallStatus.REFUSED for each in lately)


@dataclass(frozen=True, slots=True)
class Reached:
    """Nobody is asked any more for now: the output for the model, a note for the requester."""

    output: str
    note: str


@dataclass(frozen=True, slots=True)
class Allowance:
    """The limits of the settings, held against the rows."""

    settings: Settings
    clock: Clock

    def on_asking(self, tx: Transaction, run: Run, beside: int) -> Reached | None:
        """Return the limit that keeps one more call of this run from people.

        `beside`: calls asked in the same plan already.
        """
        settings = self.settings
        if sub_agents.root(tx, run).cards >= settings.max_cards:
            return Reached(
                outputs.cards_used_up(settings.max_cards),
                "this request has asked people as often as one may",
            )
        if run.source is RunSource.PROGRAM and run.client:
            return None  # its key has a limit of its own, which was held when it asked
        waiting = runs.pending_of(tx, run.team, run.requester) + beside
        if waiting >= settings.max_pending:
            return Reached(
                outputs.too_many_wait(waiting),
                f"{waiting} of your requests wait for a decision already; "
                "this one has to wait until some are decided",
            )
        if wait := self._until_room(tx, run, settings.max_asked_per_hour - beside):
            many = f"people were asked about {settings.max_asked_per_hour} calls"
            return Reached(
                outputs.asked_too_often(many, wait),
                f"{many} of yours within the last hour, which is the limit; "
                f"ask me again in {wait} minutes",
            )
        return None

    def _until_room(self, tx: Transaction, run: Run, most: int) -> int:
        """Return in how many whole minutes people may be asked again; 0 for now.

        `most`: calls that they may be asked about within the hour.
        """
        now = self.clock.now()
        if most <= 0:
            return HOUR // MINUTE
        first = runs.last_asked(tx, run.team, run.requester, most - 1, now - HOUR)
        return max(1, -((now - HOUR - first) // MINUTE)) if first else 0

    def on_going_on(self, tx: Transaction, run: Run) -> str:
        """Return why the model is not asked again in this run, for its thread; "" if it may be."""
        settings, request = self.settings, sub_agents.root(tx, run)  # with all its sub-agents
        taken = request.turns
        # each of the others that run may be amid a turn, which counts once it is over; there are
        # no more of them than calls, so far from the limit nobody has to look
        if taken + request.calls >= settings.max_turns:
            taken += sub_agents.running_beside(tx, run)
        if taken >= settings.max_turns:
            return f"I stopped: this request has taken {taken} turns, which is its limit."
        if run.turns >= MOST_REFUSED and _refused_lately(calls.of_run(tx, run.id)):
            return f"I stopped: what I proposed was refused {MOST_REFUSED} turns in a row."
        if request.tokens >= settings.max_tokens:
            used = f"this request has used {request.tokens} tokens"
            return f"I stopped: {used}, which is more than its limit."
        tokens = runs.tokens_since(tx, run, self.clock.now() - DAY)
        if tokens >= settings.max_tokens_per_day:
            return (
                f"I stopped: your requests of the last 24 hours have used {tokens:,} tokens, and "
                f"one person's limit is {settings.max_tokens_per_day:,}. Ask me again later."
            )
        return ""
