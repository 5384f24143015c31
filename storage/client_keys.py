"""The keys by which programs ask: whose each is and what it may ask for. No secret of one is kept.

A row is never taken away: it is revoked. What a key's hash is made of is settled elsewhere.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from fnmatch import fnmatchcase

from sqlalchemy import Index, bindparam, select, update
from sqlmodel import Field, col

from storage import columns, trail
from storage.columns import Row, values
from storage.transaction import Transaction, first, insert_into, rows


class ClientKey(Row, table=True):
    """By what a program shows which one it is, and the person who answers for it."""

    __tablename__ = "client_key"
    __table_args__ = (Index("ix_client_key_name", "team", "name"),)
    id: str = Field(primary_key=True)  # the part of the key that is no secret
    team: str
    name: str  # of the program
    person: str  # Slack user id of who answers for it
    is_service: bool = False  # it may ask in the name of any colleague
    tools: str = columns.text("[]")  # JSON: patterns of the tools and actions it may ask for
    per_hour: int  # requests at most
    hash: str  # SHA-256 of its secret, in hex
    webhook: str = columns.text("")  # the address that is told how its requests stand; "" for none
    made_at: datetime = columns.time()
    revoked_at: datetime | None = columns.time(nullable=True)

    @property
    def is_account(self) -> bool:
        """Whether it stands for the bot's own account, which asks at the bot's socket by no key."""
        return not self.name

    def may_ask_for(self, tool: str) -> bool:
        """Whether one of its patterns covers the name of this tool or action."""
        return any(fnmatchcase(tool, each) for each in self.patterns)

    @property
    def patterns(self) -> tuple[str, ...]:
        """What it may ask for; `*` stands for any letters."""
        return tuple(json.loads(self.tools))

    def goes_on_for(self, other: ClientKey) -> bool:
        """Whether it may see and do what that other key of its name was for: the same person
        answers for both, and they may ask for the same.
        """
        if self.id == other.id:
            return True
        mine, theirs = (
            (each.team, each.name, each.person, each.is_service, frozenset(each.patterns))
            for each in (self, other)
        )
        return mine == theirs


def account_key(team: str) -> ClientKey:
    """What stands for the bot's own account: it may ask for anything, in any colleague's name.

    It is never stored, is good for nothing but the socket beside the record, and has no secret.
    """
    return ClientKey(
        id="",
        team=team,
        name="",
        person="",
        is_service=True,
        tools='["*"]',
        per_hour=0,
        hash="",
        made_at=datetime.min.replace(tzinfo=UTC),
    )


_GET = select(ClientKey).where(col(ClientKey.id) == bindparam("id_"))
_EVERY = select(ClientKey).order_by(col(ClientKey.made_at), col(ClientKey.id))
_OF_THAT_TIME = (
    select(ClientKey)
    .where(
        col(ClientKey.team) == bindparam("team_"),
        col(ClientKey.name) == bindparam("name_"),
        col(ClientKey.made_at) <= bindparam("at_"),
    )
    .order_by(col(ClientKey.made_at).desc())
    .limit(1)
)
_NAMED = (
    select(ClientKey)
    .where(
        col(ClientKey.team) == bindparam("team_"),
        col(ClientKey.name) == bindparam("name_"),
        col(ClientKey.revoked_at).is_(None),
    )
    .order_by(col(ClientKey.made_at).desc())
)


def make(tx: Transaction, row: ClientKey, by: str, *, beside: bool = False) -> bool:
    """Let a program ask from now on; False where one of that name may already, unless the new key
    is to hold `beside` it, for the same.

    `by`: who made it, for the audit. A name whose key was revoked may be used again. A new key for
    the same person and the same tools goes on with what the old one had asked, any other does not.
    """
    there = named(tx, row.team, row.name)
    if there is not None and not (beside and row.goes_on_for(there)):
        return False
    tx.execute(insert_into(ClientKey), values(row))
    data = {
        "key": row.id,
        "name": row.name,
        "person": row.person,
        "service": row.is_service,
        "tools": list(row.patterns),
        "per_hour": row.per_hour,
        "webhook": row.webhook,
    }
    trail.record(tx, "key.made", at=row.made_at, actor=by, data=data)
    return True


def get(tx: Transaction, key_id: str) -> ClientKey | None:
    """The key of that id, revoked or not; None where there is none."""
    return first(tx, ClientKey, _GET, id_=key_id)


def named(tx: Transaction, team: str, name: str) -> ClientKey | None:
    """The key of that name that holds, the newest of several; None where there is none."""
    return first(tx, ClientKey, _NAMED, team_=team, name_=name)


def of_that_time(tx: Transaction, team: str, name: str, at: datetime) -> ClientKey | None:
    """The key that had that name then; None where there was none yet."""
    return first(tx, ClientKey, _OF_THAT_TIME, team_=team, name_=name, at_=at)


def every(tx: Transaction) -> list[ClientKey]:
    """All keys, revoked ones among them, the oldest first."""
    return rows(tx, ClientKey, _EVERY)


def revoke(tx: Transaction, team: str, name: str, by: str, *, at: datetime) -> bool:
    """Let the program of that name ask no more, or nobody by the one key that is named by its id;
    False where there is none that holds.
    """
    one = get(tx, name.removeprefix("csk_").removesuffix("_…"))
    found = [one] if one is not None and one.team == team and one.revoked_at is None else []
    found = found or rows(tx, ClientKey, _NAMED, team_=team, name_=name)
    for each in found:
        mine = (col(ClientKey.id) == each.id, col(ClientKey.revoked_at).is_(None))
        tx.execute(update(ClientKey).where(*mine).values(revoked_at=at))
        trail.record(tx, "key.revoked", at=at, actor=by, data={"key": each.id, "name": each.name})
    return bool(found)
