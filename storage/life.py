"""Everything that a call has been, and what its request's thread was told. Reads only."""

from __future__ import annotations

from typing import Any

from sqlalchemy import bindparam, select
from sqlmodel import col

from storage.models import Call, Message, PersonAnswer, Revision, Run, Vote
from storage.states import CallStatus, MessageKind, MessageStatus
from storage.transaction import Transaction, rows

_CALL: Any = bindparam("call_")
_REVISIONS = select(Revision).where(col(Revision.call_id) == _CALL).order_by(col(Revision.number))
_VOTES = select(Vote).where(col(Vote.call_id) == _CALL).order_by(col(Vote.seq))
_DECLINED = select(col(PersonAnswer.declined)).where(col(PersonAnswer.call_id) == _CALL)
_SAID = (
    select(Message)
    .where(
        col(Message.run_id).in_(select(col(Run.id)).where(col(Run.root_id) == bindparam("root_"))),
        col(Message.kind).in_((MessageKind.ANSWER, MessageKind.NOTICE)),
        col(Message.status) != MessageStatus.STREAMING,
    )
    .order_by(col(Message.seq))
)


def revisions(tx: Transaction, call_id: str) -> list[Revision]:
    """Every revision of a call, oldest first."""
    return rows(tx, Revision, _REVISIONS, call_=call_id)


def votes(tx: Transaction, call_id: str) -> list[Vote]:
    """Every vote on any revision of a call, oldest first."""
    return rows(tx, Vote, _VOTES, call_=call_id)


def said(tx: Transaction, root_id: str) -> list[Message]:
    """What a request's thread was told in words, whole: answers and lines, in order."""
    return rows(tx, Message, _SAID, root_=root_id)


def is_declined(tx: Transaction, call: Call) -> bool:
    """Whether it is a question that who was asked could not answer."""
    return call.status is CallStatus.ANSWERED and bool(tx.scalar(_DECLINED, {"call_": call.id}))
