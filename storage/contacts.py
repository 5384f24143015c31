"""Whom the bot has greeted."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy.dialects import postgresql, sqlite

from storage.columns import values
from storage.models import Contact
from storage.transaction import Transaction


def met(tx: Transaction, team: str, person: str, *, at: datetime) -> bool:
    """Remember that this person was greeted; True when it is the first time."""
    dialect = postgresql if tx.dialect.name == "postgresql" else sqlite
    row = Contact(team=team, person=person, greeted_at=at)
    return (
        tx.execute(dialect.insert(Contact).values(values(row)).on_conflict_do_nothing()).rowcount
        == 1
    )
