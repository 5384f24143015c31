"""The tables of what replicas share beside the record."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op


def replica() -> None:
    """Who is alive."""
    op.create_table(
        "replica",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("until", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )


def lane() -> None:
    """Who sends to which channel."""
    op.create_table(
        "lane",
        sa.Column("channel", sa.String(), nullable=False),
        sa.Column("replica", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("channel"),
    )
    op.create_index("ix_lane_replica", "lane", ["replica"], unique=False)


def pause() -> None:
    """What Slack wants to be asked no more."""
    op.create_table(
        "pause",
        sa.Column("method", sa.String(), nullable=False),
        sa.Column("channel", sa.String(), nullable=False),
        sa.Column("until", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("method", "channel"),
    )
