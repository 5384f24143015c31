"""Who asks for what, as recorded: what the checks of the people compare the policy with."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta

from sqlalchemy.exc import SQLAlchemyError

from bot.config.settings import Settings
from bot.policy.gates import load_gate
from storage import history
from storage.reading import ReadOnly

DAYS = 30  # how far back the record is read
Usual = dict[str, Counter[str]]  # rule -> who asked how often


def usual_requesters(settings: Settings, now: datetime) -> Usual:
    """Who asked how often under which rule, in the last days.

    Nothing where the record cannot be read.
    """
    store, found = ReadOnly(settings.database_path), Usual()
    if store.trouble():
        return found
    try:
        with store.read() as tx:
            for gate, requester, count in history.asked(tx, now - timedelta(days=DAYS)):
                found.setdefault(load_gate(gate).rule, Counter())[requester] += count
    except (SQLAlchemyError, ValueError):
        return {}
    return found
