"""The tables of the programs that ask."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op


def client_key() -> None:
    """By what programs show which they are."""
    op.create_table(
        "client_key",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("team", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("person", sa.String(), nullable=False),
        sa.Column("is_service", sa.Boolean(), nullable=False),
        sa.Column("tools", sa.Text(), nullable=False),
        sa.Column("per_hour", sa.Integer(), nullable=False),
        sa.Column("hash", sa.String(), nullable=False),
        sa.Column("webhook", sa.Text(), nullable=False),
        sa.Column("made_at", sa.BigInteger(), nullable=False),
        sa.Column("revoked_at", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("ix_client_key_name", "client_key", ["team", "name"], unique=False)


def webhook() -> None:
    """What is told to programs' addresses."""
    op.create_table(
        "webhook",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("run_id", sa.String(), nullable=False),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("about", sa.String(), nullable=False),
        sa.Column("key_id", sa.String(), nullable=False),
        sa.Column("made_at", sa.BigInteger(), nullable=False),
        sa.Column("waits", sa.Boolean(), nullable=False),
        sa.Column("due_at", sa.BigInteger(), nullable=True),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("told_at", sa.BigInteger(), nullable=True),
        sa.Column("error", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("run_id", "kind", "about"),
    )
    op.create_index("ix_webhook_due_at", "webhook", ["due_at"], unique=False)
    op.create_index("ix_webhook_waits", "webhook", ["waits"], unique=False)
