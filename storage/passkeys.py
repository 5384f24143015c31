"""Passkeys, the private links by which people enrol and use them, and signatures of votes.

A passkey is never deleted: it is revoked, and receipts of what it signed stay checkable. Whether a
person may sign is settled before (bot.approvals.signatures); a signature is written once.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from hashlib import sha256
from typing import Any

from sqlalchemy import BigInteger, Column, Index, UniqueConstraint, or_, update
from sqlmodel import Field, col

from storage import columns, states, trail
from storage.models import Delivery, Run, new_id
from storage.transaction import Transaction, insert_row, insert_row_if_absent


class Passkey(columns.Row, table=True):
    """The public part of one authenticator's key, and whose it is."""

    __tablename__ = "passkey"
    __table_args__ = (Index("ix_passkey_person", "team", "person"),)
    id: str = Field(default_factory=new_id, primary_key=True)
    team: str
    person: str  # Slack user id
    credential_id: str = Field(unique=True)  # base64url, chosen by the authenticator
    public_key: str = columns.text_column()  # COSE, base64url
    sign_count: int = Field(default=0, sa_column=Column(BigInteger, nullable=False))
    aaguid: str = ""  # the authenticator's model, by its own account
    attested: bool = False  # the manufacturer has signed that it is of that model
    rp_id: str  # the host name that it signs for
    name: str = ""  # chosen by the person, else the model's
    transports: str = ""  # ways to reach it, such as "internal,hybrid"
    backed_up: bool = False  # when it was added, a cloud account synced it to several devices
    created_at: datetime = columns.time_column()
    # when it begins to count; None until others have approved it
    counts_from: datetime | None = columns.time_column(nullable=True)
    call_id: str = ""  # the call by which others approve it; "" if nobody has to
    last_used_at: datetime | None = columns.time_column(nullable=True)
    revoked_at: datetime | None = columns.time_column(nullable=True)
    revoked_by: str = ""  # Slack user id, or system if the passkey may have been cloned

    @property
    def fingerprint(self) -> str:
        """The SHA-256 of its public key in groups of four letters, for people to compare."""
        text = sha256(self.public_key.encode()).hexdigest()
        return " ".join(text[at : at + 4] for at in range(0, len(text), 4))


class SigningLink(columns.Row, table=True):
    """A private link to the page where one person signs or enrols; its token is not stored."""

    __tablename__ = "signing_link"
    __table_args__ = (Index("ix_signing_link_person", "team", "person"),)
    hash: str = Field(primary_key=True)  # SHA-256 of the token, in hex
    kind: states.SigningLinkKind = columns.enum_column(states.SigningLinkKind, index=False)
    team: str
    person: str  # Slack user id
    call_id: str = ""
    revision: int = 0  # the revision that the person was shown
    verb: str = ""  # a storage.states.CallVerb, or UnknownCallResolution.AGAIN
    reason: str = columns.text_column("")  # the person's own words
    # canonical JSON of what is signed; its SHA-256 is the challenge
    statement: str = columns.text_column()
    issued_at: datetime = columns.time_column()
    expires_at: datetime = columns.time_column()
    used_at: datetime | None = columns.time_column(nullable=True)  # when it was used up


class VoteSignature(columns.Row, table=True):
    """An authenticator's signature of one vote, with all it takes to check it; append-only."""

    __tablename__ = "signature"
    __table_args__ = (UniqueConstraint("call_id", "revision", "person", "verb"),)
    seq: int | None = Field(default=None, primary_key=True)
    call_id: str = Field(foreign_key="call.id")  # the unique index begins with it
    revision: int
    person: str
    verb: states.CallVerb = columns.enum_column(states.CallVerb, index=False)
    passkey_id: str = Field(foreign_key="passkey.id")
    statement: str = columns.text_column()  # canonical JSON
    # base64url, as the authenticator returned them
    authenticator_data: str = columns.text_column()
    client_data: str = columns.text_column()
    signature: str = columns.text_column()
    # of the passkey at that time
    public_key: str = columns.text_column()
    aaguid: str
    rp_id: str
    created_at: datetime = columns.time_column()


def add_passkey(tx: Transaction, row: Passkey) -> bool:
    """Store a new passkey; False, and no change, if its credential is known already."""
    if not insert_row_if_absent(tx, row, ("credential_id",)):
        return False
    counts = row.counts_from is not None
    data = {"passkey": row.id, "person": row.person, "model": row.aaguid, "counts": counts}
    trail.record_event(tx, "passkey.added", at=row.created_at, actor=row.person, data=data)
    return True


def build_request_key(row: Passkey) -> str:
    """Return the key of the delivery by which others are asked to approve this passkey."""
    return f"passkey:{row.id}"


def find_request(tx: Transaction, row: Passkey) -> Run | None:
    """Return the request in which others approve this passkey; None if nobody is asked."""
    asked = tx.find_row(Delivery, key=build_request_key(row))
    return tx.find_row(Run, id=asked.run_id) if asked and asked.run_id else None


def is_waiting(tx: Transaction, row: Passkey) -> bool:
    """Return whether others are asked to approve this passkey and have yet to do so."""
    request = None if row.counts_from or row.revoked_at else find_request(tx, row)
    return request is not None and request.status in states.RUN_OPEN_STATUSES


def find_passkey_by_credential(tx: Transaction, credential_id: str) -> Passkey | None:
    """Return the passkey with the id that its authenticator gave it (base64url), or None."""
    return tx.find_row(Passkey, credential_id=credential_id)


def list_passkeys(tx: Transaction, team: str, **held: str) -> list[Passkey]:
    """Return a workspace's unrevoked passkeys with these columns, such as `person`, oldest first.

    Whether they count or not: one does not before others have approved it, for example.
    """
    found = tx.list_rows(Passkey, team=team, revoked_at=None, **held)
    return sorted(found, key=lambda each: (each.created_at, each.id))


def update_passkey(
    tx: Transaction, row: Passkey, event: str, at: datetime, by: str, why: str = "", **changed: Any
) -> bool:
    """Change columns of a passkey, with its audit row; False if it is revoked.

    `event`: "passkey.renamed" for a new name; "passkey.counts" for when it begins to count and the
    call that approved it. `why`: for the audit.
    """
    if tx.update_rows(Passkey, {"id": row.id, "revoked_at": None}, **changed) != 1:
        return False
    data = {"passkey": row.id, "person": row.person} | ({"why": why} if why else {})
    trail.record_event(tx, event, at=at, actor=by, data=data)
    return True


def revoke_passkey(tx: Transaction, row: Passkey, by: str, at: datetime, why: str = "") -> bool:
    """Revoke a passkey from `at` on; False if it was revoked before. `why`: for the audit."""
    return update_passkey(tx, row, "passkey.revoked", at, by, why, revoked_at=at, revoked_by=by)


def record_passkey_use(tx: Transaction, row: Passkey, sign_count: int, at: datetime) -> bool:
    """Record that a passkey has signed; False if it is revoked or its counter has not grown."""
    count = col(Passkey.sign_count)
    has_grown = or_(count < sign_count, (count == sign_count) & (count == 0))  # 0: no counter
    where = (col(Passkey.id) == row.id, col(Passkey.revoked_at).is_(None), has_grown)
    used = {"sign_count": sign_count, "last_used_at": at}
    return tx.execute(update(Passkey).where(*where).values(used)).rowcount == 1


def store_signing_link(tx: Transaction, row: SigningLink) -> None:
    """Store a new private link for signing or enrolling."""
    insert_row(tx, row)


def find_signing_link(tx: Transaction, token_hash: str) -> SigningLink | None:
    """Return the link whose token has that SHA-256 (hex), or None."""
    return tx.find_row(SigningLink, hash=token_hash)


def use_signing_link(tx: Transaction, row: SigningLink, at: datetime) -> bool:
    """Record that a link has served its purpose; False if it had before."""
    return tx.update_rows(SigningLink, {"hash": row.hash, "used_at": None}, used_at=at) == 1


def store_signature(tx: Transaction, row: VoteSignature, run_id: str) -> None:
    """Store the signature of a vote, with its audit row; the vote itself is stored separately."""
    insert_row(tx, row)
    data = {"passkey": row.passkey_id, "statement": sha256(row.statement.encode()).hexdigest()}
    at, actor, call_id = row.created_at, row.person, row.call_id
    trail.record_event(
        tx, "call.signed", at=at, actor=actor, run_id=run_id, call_id=call_id, data=data
    )


def count_signatures(tx: Transaction, passkey_id: str) -> int:
    """Return how many votes were signed with this passkey."""
    return len(tx.list_rows(VoteSignature, passkey_id=passkey_id))


def map_signatures_by_vote(
    tx: Transaction, call_id: str, revision: int
) -> Mapping[tuple[str, states.CallVerb], VoteSignature]:
    """Return the signatures of votes on this revision, by person and verb."""
    found = tx.list_rows(VoteSignature, call_id=call_id, revision=revision)
    return {(each.person, each.verb): each for each in found}
