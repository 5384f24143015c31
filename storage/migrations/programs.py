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
        sa.Column("webhook_secret", sa.String(), nullable=False),
        sa.Column("made_at", sa.BigInteger(), nullable=False),
        sa.Column("revoked_at", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("ix_client_key_name", "client_key", ["team", "name"], unique=False)
