"""Delegations: who decides for whom, and until when. Permission to give one is checked elsewhere.

A row is never deleted: it ends at its time, or is revoked.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

from sqlalchemy import Index, bindparam, or_, select, update
from sqlmodel import Field, col

from storage import columns, trail
from storage.models import new_id
from storage.transaction import Transaction, fetch_rows, insert_row


class Delegation(columns.Row, table=True):
    """A person's permission for another to vote in their place, valid until a time."""

    __tablename__ = "delegation"
    __table_args__ = (
        Index("ix_delegation_giver", "team", "giver", "until"),
        Index("ix_delegation_delegate", "team", "delegate", "until"),
    )
    id: str = Field(default_factory=new_id, primary_key=True)
    team: str
    giver: str  # the delegator's Slack user id
    delegate: str  # Slack user id
    words: str = columns.text_column("")  # the delegator's note
    given_at: datetime = columns.time_column()
    until: datetime = columns.time_column()
    revoked_at: datetime | None = columns.time_column(nullable=True)
    revoked_by: str = ""
    shown_at: datetime | None = columns.time_column(nullable=True)  # when open calls were shown


_ACTIVE_CONDITIONS = (
    col(Delegation.team) == bindparam("team_"),
    col(Delegation.given_at) <= bindparam("at_"),
    col(Delegation.until) > bindparam("at_"),
    or_(col(Delegation.revoked_at).is_(None), col(Delegation.revoked_at) > bindparam("at_")),
)
_SELECT_GIVERS = (
    select(col(Delegation.giver))
    .where(*_ACTIVE_CONDITIONS, col(Delegation.delegate) == bindparam("person_"))
    .order_by(col(Delegation.given_at))
)
_SELECT_ACTIVE = select(Delegation).where(*_ACTIVE_CONDITIONS).order_by(col(Delegation.until))
_SELECT_ACTIVE_OF_PERSON = _SELECT_ACTIVE.where(
    or_(
        col(Delegation.giver) == bindparam("person_"),
        col(Delegation.delegate) == bindparam("person_"),
    )
)
_SELECT_ACTIVE_UNSHOWN = _SELECT_ACTIVE.where(col(Delegation.shown_at).is_(None))


def give_delegation(tx: Transaction, row: Delegation) -> list[Delegation]:
    """Store a delegation from its giver to another person; return the earlier ones it revokes."""
    earlier = list_delegations_given_by(tx, row.team, [row.giver], row.given_at)
    for old in earlier:
        revoke_delegation(tx, old.id, row.giver, row.given_at)
    insert_row(tx, row)
    data = {"delegation": row.id, "delegate": row.delegate, "until": row.until.isoformat()}
    trail.record_event(tx, "delegation.given", at=row.given_at, actor=row.giver, data=data)
    return earlier


def list_delegators(tx: Transaction, team: str, delegate: str, at: datetime) -> list[str]:
    """Return the people for whom this person may decide at that moment, oldest delegation first."""
    return list(tx.scalars(_SELECT_GIVERS, {"team_": team, "person_": delegate, "at_": at}))


def list_delegations_given_by(
    tx: Transaction, team: str, people: Collection[str], at: datetime
) -> list[Delegation]:
    """Return the delegations given by these people that are valid at that moment."""
    found = fetch_rows(tx, Delegation, _SELECT_ACTIVE, team_=team, at_=at) if people else []
    return [each for each in found if each.giver in people]


def list_delegations_involving_person(
    tx: Transaction, team: str, person: str, at: datetime
) -> list[Delegation]:
    """Return the valid delegations that this person gave or received, soonest end first."""
    return fetch_rows(tx, Delegation, _SELECT_ACTIVE_OF_PERSON, team_=team, person_=person, at_=at)


def list_delegations_awaiting_call_list(
    tx: Transaction, team: str, at: datetime
) -> list[Delegation]:
    """Return the valid delegations whose delegates have not yet been shown the waiting calls."""
    return fetch_rows(tx, Delegation, _SELECT_ACTIVE_UNSHOWN, team_=team, at_=at)


def mark_delegate_shown_waiting_calls(tx: Transaction, delegation_id: str, at: datetime) -> bool:
    """Record that a delegate is shown the waiting calls; False if done before or not valid."""
    where = (
        col(Delegation.id) == delegation_id,
        col(Delegation.shown_at).is_(None),
        col(Delegation.revoked_at).is_(None),
        col(Delegation.until) > at,
    )
    return tx.execute(update(Delegation).where(*where).values(shown_at=at)).rowcount == 1


def find_delegation(tx: Transaction, delegation_id: str) -> Delegation | None:
    """Return the delegation with that id, or None."""
    return tx.find_row(Delegation, id=delegation_id)


def revoke_delegation(tx: Transaction, delegation_id: str, person: str, at: datetime) -> bool:
    """Revoke a delegation; False if it had ended before."""
    where = (
        col(Delegation.id) == delegation_id,
        col(Delegation.revoked_at).is_(None),
        col(Delegation.until) > at,
    )
    ended = update(Delegation).where(*where).values(revoked_at=at, revoked_by=person)
    if tx.execute(ended).rowcount != 1:
        return False
    data = {"delegation": delegation_id}
    trail.record_event(tx, "delegation.revoked", at=at, actor=person, data=data)
    return True
