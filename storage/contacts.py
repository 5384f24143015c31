"""Whom the bot has greeted."""

from __future__ import annotations

from datetime import datetime

from storage.columns import values
from storage.models import Contact
from storage.transaction import Transaction, insert_once


def met(tx: Transaction, team: str, person: str, *, at: datetime) -> bool:
    """Remember that this person was greeted; True when it is the first time."""
    row = Contact(team=team, person=person, greeted_at=at)
    once = insert_once(Contact, tx.dialect.name, ("team", "person"))
    return tx.execute(once, values(row)).rowcount == 1
