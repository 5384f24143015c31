"""Creates the first revision's tables that do not belong to one request.

They hold grants, delegations, people, programs and replicas.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op


def remembered() -> None:
    """Create the table of grants (saved approvals)."""
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
    """Create the table of delegations: who decides for whom."""
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
    """Create the table of the note that a record is a copy or was left for one."""
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


# The tables of what people say, as the first schema makes them: votes, answers, modes.


def vote() -> None:
    """Create the table of votes on revisions of calls."""
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
    """Create the table of people's answers to questions."""
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
    """Create the table of channel modes and who switched them."""
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


# The tables of the programs that ask.


def client_key() -> None:
    """Create the table of programs' API keys."""
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
    """Create the table of webhooks to programs' addresses."""
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


# The tables of what replicas share beside the record.


def replica() -> None:
    """Create the table of replicas and until when each counts as alive."""
    op.create_table(
        "replica",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("until", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )


def channel_sender() -> None:
    """Create the table of which replica sends to which channel."""
    op.create_table(
        "lane",
        sa.Column("channel", sa.String(), nullable=False),
        sa.Column("replica", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("channel"),
    )
    op.create_index("ix_lane_replica", "lane", ["replica"], unique=False)


def pause() -> None:
    """Create the table of pauses that Slack asked for."""
    op.create_table(
        "pause",
        sa.Column("method", sa.String(), nullable=False),
        sa.Column("channel", sa.String(), nullable=False),
        sa.Column("until", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("method", "channel"),
    )
