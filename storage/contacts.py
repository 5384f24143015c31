"""Whom the bot has greeted."""

from __future__ import annotations

from datetime import datetime

from sqlmodel import Field

from storage import columns
from storage.columns import Row, values
from storage.transaction import Transaction, insert_once


class Contact(Row, table=True):
    """A person the bot has greeted."""

    __tablename__ = "contact"
    team: str = Field(primary_key=True)
    person: str = Field(primary_key=True)
    greeted_at: datetime = columns.time()


def met(tx: Transaction, team: str, person: str, *, at: datetime) -> bool:
    """Remember that this person was greeted; True when it is the first time."""
    row = Contact(team=team, person=person, greeted_at=at)
    once = insert_once(Contact, tx.dialect.name, ("team", "person"))
    return tx.execute(once, values(row)).rowcount == 1
