"""Grants (saved approvals): given with a vote, used up one call at a time, and revoked.

Permission to give or revoke one is checked elsewhere.
"""

from __future__ import annotations

import json
from datetime import datetime
from functools import cache
from typing import Any

from pydantic import BaseModel, ConfigDict, create_model
from sqlalchemy import BindParameter, ColumnElement, Index, bindparam, or_, select, update
from sqlmodel import Field, col

from storage import columns, trail
from storage.models import Call, Run, new_id
from storage.transaction import Transaction, fetch_rows, insert_row


class Grant(columns.Row, table=True):
    """A remembered approval: which calls of a requester may run on it, until when, how often."""

    __tablename__ = "remembered"  # GRANT is an SQL keyword
    __table_args__ = (Index("ix_remembered_for", "team", "requester", "tool"),)
    id: str = Field(default_factory=new_id, primary_key=True)
    team: str
    requester: str
    tool: str
    schema_digest: str
    pinned: str = columns.text_column("{}")  # canonical JSON of the arguments that must be the same
    rule: str = ""  # digest of the rule that asked: the grant holds while the rule does
    channel: str = ""  # the only channel where it holds; "": all
    thread_ts: str = ""  # the only thread where it holds; "": all in the channel
    until: datetime = columns.time_column()
    uses: int  # how often it may still be used
    call_id: str  # the call whose approval was saved
    given_by: str  # Slack user id
    given_at: datetime = columns.time_column()
    revoked_at: datetime | None = columns.time_column(nullable=True)
    revoked_by: str = ""


def _build_usable_conditions(at: Any) -> tuple[ColumnElement[bool], ...]:
    """Return the conditions that a grant is neither used up, nor over at `at`, nor revoked."""
    return col(Grant.uses) > 0, col(Grant.until) > at, col(Grant.revoked_at).is_(None)


_SELECT_USABLE_GRANTS = (
    select(Grant)
    .where(
        col(Grant.team) == bindparam("team_"),
        col(Grant.requester) == bindparam("requester_"),
        col(Grant.tool) == bindparam("tool_"),
        col(Grant.schema_digest) == bindparam("schema_"),
        *_build_usable_conditions(bindparam("at_")),
        col(Grant.channel).in_(("", bindparam("channel_"))),
        col(Grant.thread_ts).in_(("", bindparam("thread_ts_"))),
    )
    .order_by(col(Grant.until))
)
_PERSON_PARAMETER: BindParameter[str] = bindparam("person_")
_SELECT_USABLE_OF_PERSON = (
    select(Grant)
    .where(
        col(Grant.team) == bindparam("team_"),
        or_(col(Grant.requester) == _PERSON_PARAMETER, col(Grant.given_by) == _PERSON_PARAMETER),
        *_build_usable_conditions(bindparam("at_")),
    )
    .order_by(col(Grant.until))
)
_UPDATE_USES_LEFT = (
    update(Grant)
    .where(col(Grant.id) == bindparam("id_"), *_build_usable_conditions(bindparam("at_")))
    .values(uses=col(Grant.uses) - 1)
)


def give_grant(tx: Transaction, grant: Grant, *, run_id: str) -> None:
    """Store a grant, with its audit row."""
    insert_row(tx, grant)
    data = {
        "grant": grant.id,
        "tool": grant.tool,
        "until": grant.until.isoformat(),
        "uses": grant.uses,
    }
    trail.record_event(
        tx,
        "grant.given",
        at=grant.given_at,
        actor=grant.given_by,
        run_id=run_id,
        call_id=grant.call_id,
        data=data,
    )


def list_usable_grants(
    tx: Transaction, run: Run, tool: str, schema_digest: str, arguments: str, at: datetime
) -> list[Grant]:
    """Return the grants that allow this call of the run's requester at `at`, soonest end first.

    `arguments`: canonical JSON. Each pinned argument must be there with the same value.
    """
    names = ("team", "requester", "channel", "thread_ts")
    given = {f"{name}_": getattr(run, name) for name in names}
    found = fetch_rows(
        tx, Grant, _SELECT_USABLE_GRANTS, **given, tool_=tool, schema_=schema_digest, at_=at
    )
    wanted = json.loads(arguments)
    return [grant for grant in found if _has_pinned_arguments(json.loads(grant.pinned), wanted)]


def _has_pinned_arguments(pinned: dict[str, object], args: dict[str, object]) -> bool:
    return all(name in args and _is_same_json(args[name], value) for name, value in pinned.items())


def _is_same_json(one: object, other: object) -> bool:
    """Return whether two values are equal as JSON: 1 is not true, and 1 is not "1"."""
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def find_grant(tx: Transaction, grant_id: str) -> Grant | None:
    """Return the grant with that id, or None."""
    return tx.find_row(Grant, id=grant_id)


def use_grant(tx: Transaction, grant_id: str, at: datetime, call: Call) -> bool:
    """Use a grant once, for this call; False if it is used up, expired or revoked."""
    if tx.execute(_UPDATE_USES_LEFT, {"id_": grant_id, "at_": at}).rowcount != 1:
        return False
    data = {"grant": grant_id, "tool": call.tool, "revision": call.revision, "digest": call.digest}
    trail.record_event(tx, "grant.used", at=at, actor="worker", call=call, data=data)
    return True


def revoke_grant(tx: Transaction, grant_id: str, person: str, at: datetime) -> bool:
    """Revoke a grant; False if it does not exist or was revoked before."""
    held = {"id": grant_id, "revoked_at": None}
    if tx.update_rows(Grant, held, revoked_at=at, revoked_by=person) != 1:
        return False
    trail.record_event(tx, "grant.revoked", at=at, actor=person, data={"grant": grant_id})
    return True


def revoke_all_grants(tx: Transaction, at: datetime) -> None:
    """Revoke every usable grant after a restore: the backup lacks uses made after it."""
    for grant_id in tx.scalars(select(col(Grant.id)).where(*_build_usable_conditions(at))):
        revoke_grant(tx, grant_id, "system", at)


def list_usable_grants_involving_person(
    tx: Transaction, team: str, person: str, at: datetime
) -> list[Grant]:
    """Return the usable grants that this person requested or gave, soonest end first."""
    return fetch_rows(tx, Grant, _SELECT_USABLE_OF_PERSON, team_=team, person_=person, at_=at)


def dump_grant(grant: Grant) -> str:
    """Return a grant as JSON, for other programs."""
    return grant.model_dump_json()


def load_grant(text: str) -> Grant:
    """Return a grant read from JSON; it is valid only once `give_grant` has stored it.

    Raises pydantic.ValidationError for text that is not a grant.
    """
    return Grant(**_build_grant_model().model_validate_json(text).model_dump())


@cache
def _build_grant_model() -> type[BaseModel]:
    """Return a Pydantic model with a grant's fields, because a table row validates nothing."""
    fields: dict[str, Any] = {
        name: (field.annotation, ...) for name, field in Grant.model_fields.items()
    }
    return create_model("GrantShape", __config__=ConfigDict(extra="forbid"), **fields)
