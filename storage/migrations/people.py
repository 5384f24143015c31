"""The tables of what people say, as the first schema makes them: votes, answers, modes."""

import sqlalchemy as sa
from alembic import op


def vote() -> None:
    """One person's word on one revision of one call."""
    op.create_table(
        "vote",
        sa.Column("seq", sa.Integer(), nullable=False),
        sa.Column("call_id", sa.String(), nullable=False),
        sa.Column("revision", sa.Integer(), nullable=False),
        sa.Column("person", sa.String(), nullable=False),
        sa.Column("verb", sa.String(), nullable=False),
        sa.Column("stage", sa.Integer(), nullable=False),
        sa.Column("also", sa.String(), nullable=False),
        sa.Column("digest", sa.String(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("for_person", sa.String(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["call_id"], ["call.id"]),
        sa.PrimaryKeyConstraint("seq"),
        sa.UniqueConstraint("call_id", "revision", "person", "verb"),
    )
    op.create_index("ix_vote_lately", "vote", ["person", "created_at"], unique=False)


def answer() -> None:
    """What one person said to a question."""
    op.create_table(
        "answer",
        sa.Column("seq", sa.Integer(), nullable=False),
        sa.Column("call_id", sa.String(), nullable=False),
        sa.Column("revision", sa.Integer(), nullable=False),
        sa.Column("person", sa.String(), nullable=False),
        sa.Column("given", sa.Text(), nullable=False),
        sa.Column("declined", sa.Boolean(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["call_id"], ["call.id"]),
        sa.PrimaryKeyConstraint("seq"),
        sa.UniqueConstraint("call_id"),
    )


def mode() -> None:
    """A channel's mode, and who switched it."""
    op.create_table(
        "mode",
        sa.Column("seq", sa.Integer(), nullable=False),
        sa.Column("team", sa.String(), nullable=False),
        sa.Column("channel", sa.String(), nullable=False),
        sa.Column("mode", sa.String(), nullable=False),
        sa.Column("person", sa.String(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("seq"),
    )
    op.create_index("ix_mode_channel", "mode", ["channel"], unique=False)
