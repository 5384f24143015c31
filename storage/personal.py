"""All that the record holds of one person, for them to have. Reads only."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, or_, select
from sqlmodel import SQLModel, col

from storage import forgetting
from storage.attached import AttachedFile
from storage.contacts import Contact
from storage.delegations import Delegation
from storage.grants import Grant
from storage.keys import ClientKey
from storage.models import (
    Attempt,
    Audit,
    Call,
    Delivery,
    Item,
    Message,
    ModeSwitch,
    PersonAnswer,
    Plan,
    Revision,
    Run,
    Vote,
)
from storage.transaction import Transaction

_SECRET = {"client_key": {"hash"}}  # columns that are nobody's to have
_OF_RUN: tuple[Any, ...] = (Plan, Call, Item, Message, Delivery, AttachedFile, Audit)
_OF_CALL: tuple[Any, ...] = (Revision, Vote, PersonAnswer, Attempt)


def held(tx: Transaction, person: str) -> dict[str, Any]:
    """What is held of this person (a Slack user id), as JSON's own types.

    `asked`: every row of the requests that they asked, by table. `elsewhere`: rows of their own in
    the requests of others, and in none. `emptied_with`: the requests of others that
    `storage.forgetting` would empty, as what they wrote has gone into them.
    """
    mine = select(col(Run.id)).where(col(Run.requester) == person)
    calls = select(col(Call.id)).where(col(Call.run_id).in_(mine))
    asked: dict[str, list[dict[str, Any]]] = {"run": _rows(tx, Run, col(Run.requester) == person)}
    for model in _OF_RUN:
        asked[_name(model)] = _rows(tx, model, col(model.run_id).in_(mine))
    for model in _OF_CALL:
        asked[_name(model)] = _rows(tx, model, col(model.call_id).in_(calls))
    elsewhere = {
        _name(model): _rows(tx, model, *where) for model, where in _own(person, mine, calls)
    }
    threads = forgetting.held(tx, person)
    own = {row["id"] for row in asked["run"]}
    emptied = [each for thread in (*threads.closed, *threads.open) for each in thread]
    return {
        "asked": asked,
        "elsewhere": elsewhere,
        "emptied_with": sorted({*emptied} - own),
    }


def _own(person: str, mine: Any, calls: Any) -> Iterator[tuple[type[SQLModel], tuple[Any, ...]]]:
    """The rows that are theirs outside the requests that they asked."""
    yield Vote, (col(Vote.person) == person, col(Vote.call_id).not_in(calls))
    yield (
        PersonAnswer,
        (col(PersonAnswer.person) == person, col(PersonAnswer.call_id).not_in(calls)),
    )
    yield Revision, (col(Revision.author) == person, col(Revision.call_id).not_in(calls))
    yield Delivery, (col(Delivery.user) == person, _not_in(col(Delivery.run_id), mine))
    quoted = col(Item.body).contains(f"(<@{person}>)")
    yield Item, (quoted, col(Item.run_id).not_in(mine))
    told = or_(col(Message.recipient) == person, col(Message.channel) == person)
    yield Message, (told, col(Message.run_id).not_in(mine))
    yield AttachedFile, (col(AttachedFile.person) == person, col(AttachedFile.run_id).not_in(mine))
    yield Audit, (col(Audit.actor) == person, col(Audit.run_id).not_in(mine))
    yield ModeSwitch, (col(ModeSwitch.person) == person,)
    yield Delegation, (or_(col(Delegation.giver) == person, col(Delegation.delegate) == person),)
    yield Grant, (or_(col(Grant.requester) == person, col(Grant.given_by) == person),)
    yield ClientKey, (col(ClientKey.person) == person,)
    yield Contact, (col(Contact.person) == person,)


def _not_in(column: Any, found: Any) -> ColumnElement[bool]:
    return or_(column.is_(None), column.not_in(found))


def _rows(tx: Transaction, model: type[SQLModel], *where: Any) -> list[dict[str, Any]]:
    """Rows by column, times as in 2026-11-24T22:00:00+00:00, in the order of the key."""
    table: Any = model.__dict__["__table__"]
    hidden = _SECRET.get(table.name, set())
    statement = select(model).where(*where).order_by(*table.primary_key.columns)
    found = tx.execute(statement)
    return [_plain(dict(zip(found.columns, row, strict=True)), hidden) for row in found]


def _plain(row: Mapping[str, Any], hidden: set[str]) -> dict[str, Any]:
    return {
        name: value.isoformat() if isinstance(value, datetime) else value
        for name, value in row.items()
        if name not in hidden
    }


def _name(model: type[SQLModel]) -> str:
    return str(model.__dict__["__table__"].name)
