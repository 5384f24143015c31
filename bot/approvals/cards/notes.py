"""What a card says in its small print beside who asked and who decides. Only reads."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from bot.approvals.cards.absence import still_away
from bot.approvals.modes.narrowing import strictest
from bot.messages.sentences.absence import away_note
from bot.messages.sentences.modes import mode_note
from bot.messages.sentences.questions import WAITS_FOR_ANSWER
from bot.tools.people.question import ASK_PERSON
from storage import calls, channel_modes
from storage.models import Run
from storage.states import CallStatus, Mode
from storage.transaction import Transaction


def notes_of(
    tx: Transaction, run: Run, plan_id: str, away: Mapping[str, str], now: datetime
) -> tuple[str, ...]:
    """Return the mode of the channel, where that matters, who of the approvers is away, and whether
    a question waits beside. `away`: as it was noted with the card.
    """
    mode = strictest(channel_modes.of_run(tx, run))
    notes = [mode_note(mode)] if mode is not Mode.ASK else []
    if gone := still_away(away, now):
        notes.append(away_note(gone))
    return (*notes, WAITS_FOR_ANSWER) if questions_waiting(tx, plan_id) else tuple(notes)


def questions_waiting(tx: Transaction, plan_id: str) -> int:
    """Return how many questions of a plan wait for their answers."""
    asking = (each for each in calls.of_plan(tx, plan_id) if each.tool == ASK_PERSON.name)
    return sum(each.status is CallStatus.PENDING for each in asking)
