"""The tables of what stands beyond one request."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op


def remembered() -> None:
    """Remembered approvals."""
    op.create_table(
        "remembered",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("team", sa.String(), nullable=False),
        sa.Column("requester", sa.String(), nullable=False),
        sa.Column("tool", sa.String(), nullable=False),
        sa.Column("schema_digest", sa.String(), nullable=False),
        sa.Column("pinned", sa.Text(), nullable=False),
        sa.Column("rule", sa.String(), nullable=False),
        sa.Column("channel", sa.String(), nullable=False),
        sa.Column("thread_ts", sa.String(), nullable=False),
        sa.Column("until", sa.BigInteger(), nullable=False),
        sa.Column("uses", sa.Integer(), nullable=False),
        sa.Column("call_id", sa.String(), nullable=False),
        sa.Column("given_by", sa.String(), nullable=False),
        sa.Column("given_at", sa.BigInteger(), nullable=False),
        sa.Column("revoked_at", sa.BigInteger(), nullable=True),
        sa.Column("revoked_by", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("ix_remembered_for", "remembered", ["team", "requester", "tool"], unique=False)


def delegation() -> None:
    """Who decides for whom."""
    op.create_table(
        "delegation",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("team", sa.String(), nullable=False),
        sa.Column("giver", sa.String(), nullable=False),
        sa.Column("delegate", sa.String(), nullable=False),
        sa.Column("words", sa.Text(), nullable=False),
        sa.Column("given_at", sa.BigInteger(), nullable=False),
        sa.Column("until", sa.BigInteger(), nullable=False),
        sa.Column("revoked_at", sa.BigInteger(), nullable=True),
        sa.Column("revoked_by", sa.String(), nullable=False),
        sa.Column("shown_at", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index(
        "ix_delegation_delegate", "delegation", ["team", "delegate", "until"], unique=False
    )
    op.create_index("ix_delegation_giver", "delegation", ["team", "giver", "until"], unique=False)


def copied() -> None:
    """What a record says of itself where it is a copy, or was left for one."""
    op.create_table(
        "copied",
        sa.Column("seq", sa.Integer(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("why", sa.String(), nullable=False),
        sa.Column("version", sa.String(), nullable=False),
        sa.Column("key_id", sa.String(), nullable=False),
        sa.Column("head_seq", sa.Integer(), nullable=False),
        sa.Column("head_hash", sa.String(), nullable=False),
        sa.Column("counts", sa.Text(), nullable=False),
        sa.Column("problems", sa.Text(), nullable=False),
        sa.Column("seal", sa.String(), nullable=False),
        sa.Column("signing_key", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("seq"),
    )
