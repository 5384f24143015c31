"""The first schema: inbox, runs, transcript, files, plans, calls, revisions, votes, answers,
attempts, grants, modes, audit, outbox, contacts, delegations, copies, keys of programs, and what
replicas share.
"""

import sqlalchemy as sa
from alembic import op

from storage.migrations import first_tables

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Create everything; that some tables only grow comes after every migration."""
    for create in (
        _run,
        _plan,
        _item,
        _attached,
        _call,
        _revision,
        first_tables.vote,
        first_tables.answer,
        first_tables.mode,
        _attempt,
        _delivery,
        _message,
        _audit,
        _contact,
        first_tables.remembered,
        first_tables.delegation,
        first_tables.copied,
        first_tables.client_key,
        first_tables.webhook,
        first_tables.replica,
        first_tables.channel_sender,
        first_tables.pause,
    ):
        create()


def _run() -> None:
    op.create_table(
        "run",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("team", sa.String(), nullable=False),
        sa.Column("channel", sa.String(), nullable=False),
        sa.Column("thread_ts", sa.String(), nullable=False),
        sa.Column("requester", sa.String(), nullable=False),
        sa.Column("source", sa.String(16), nullable=False),
        sa.Column("client", sa.String(), nullable=False),
        sa.Column("root_id", sa.String(), nullable=False),
        sa.Column("parent_call", sa.String(), nullable=False),
        sa.Column("status", sa.String(16), nullable=False),
        sa.Column("fence", sa.Integer(), nullable=False),
        sa.Column("lease_until", sa.BigInteger(), nullable=True),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.Column("turns", sa.Integer(), nullable=False),
        sa.Column("calls", sa.Integer(), nullable=False),
        sa.Column("cards", sa.Integer(), nullable=False),
        sa.Column("tokens", sa.Integer(), nullable=False),
        sa.Column("rounds", sa.Integer(), nullable=False),
        sa.Column("error", sa.String(), nullable=False),
        sa.Column("reworded", sa.Text(), nullable=False),
        sa.Column("purged_at", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("ix_run_requester", "run", ["team", "requester", "status"], unique=False)
    op.create_index("ix_run_client", "run", ["client", "created_at"], unique=False)
    op.create_index("ix_run_lately", "run", ["team", "requester", "updated_at"], unique=False)
    op.create_index("ix_run_root_id", "run", ["root_id"], unique=False)
    op.create_index("ix_run_status", "run", ["status"], unique=False)
    op.create_index("ix_run_thread", "run", ["team", "channel", "thread_ts"], unique=False)


def _plan() -> None:
    op.create_table(
        "plan",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("run_id", sa.String(), nullable=False),
        sa.Column("turn", sa.Integer(), nullable=False),
        sa.Column("revision", sa.Integer(), nullable=False),
        sa.Column("answered", sa.Boolean(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["run.id"]),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("ix_plan_run_id", "plan", ["run_id"], unique=False)


def _item() -> None:
    op.create_table(
        "item",
        sa.Column("seq", sa.Integer(), nullable=False),
        sa.Column("run_id", sa.String(), nullable=False),
        sa.Column("turn", sa.Integer(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["run.id"]),
        sa.PrimaryKeyConstraint("seq"),
    )
    op.create_index("ix_item_run_id", "item", ["run_id"], unique=False)


def _attached() -> None:
    op.create_table(
        "attached",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("run_id", sa.String(), nullable=False),
        sa.Column("message", sa.String(), nullable=False),
        sa.Column("slack_id", sa.String(), nullable=False),
        sa.Column("person", sa.String(), nullable=False),
        sa.Column("media", sa.String(), nullable=False),
        sa.Column("size", sa.Integer(), nullable=False),
        sa.Column("sha256", sa.String(), nullable=False),
        sa.Column("data", sa.Text(), nullable=False),
        sa.Column("withheld", sa.String(16), nullable=False),
        sa.Column("read_at", sa.BigInteger(), nullable=True),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["run.id"]),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("ix_attached_run_id", "attached", ["run_id"], unique=False)
    op.create_index("ix_attached_message", "attached", ["message"], unique=False)


def _call() -> None:
    op.create_table(
        "call",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("run_id", sa.String(), nullable=False),
        sa.Column("plan_id", sa.String(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("provider_id", sa.String(), nullable=False),
        sa.Column("tool", sa.String(), nullable=False),
        sa.Column("does", sa.String(), nullable=False),
        sa.Column("schema_digest", sa.String(), nullable=False),
        sa.Column("status", sa.String(16), nullable=False),
        sa.Column("revision", sa.Integer(), nullable=False),
        sa.Column("digest", sa.String(), nullable=False),
        sa.Column("key_id", sa.String(), nullable=False),
        sa.Column("gate", sa.Text(), nullable=False),
        sa.Column("deadline", sa.BigInteger(), nullable=True),
        sa.Column("asked_at", sa.BigInteger(), nullable=True),
        sa.Column("next_at", sa.BigInteger(), nullable=True),
        sa.Column("told_moments", sa.Integer(), nullable=False),
        sa.Column("told_stage", sa.Integer(), nullable=False),
        sa.Column("grant_id", sa.String(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("preview", sa.Text(), nullable=False),
        sa.Column("names", sa.Text(), nullable=False),
        sa.Column("action", sa.Text(), nullable=False),
        sa.Column("claimant", sa.String(), nullable=False),
        sa.Column("held_until", sa.BigInteger(), nullable=True),
        sa.Column("preview_in_thread", sa.Text(), nullable=True),
        sa.Column("preview_rows", sa.Text(), nullable=False),
        sa.Column("expects", sa.Text(), nullable=False),
        sa.Column("output", sa.Text(), nullable=False),
        sa.Column("note", sa.Text(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("decided_at", sa.BigInteger(), nullable=True),
        sa.Column("finished_at", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(["plan_id"], ["plan.id"]),
        sa.ForeignKeyConstraint(["run_id"], ["run.id"]),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("ix_call_asked", "call", ["run_id", "asked_at"], unique=False)
    op.create_index("ix_call_due", "call", ["status", "deadline", "asked_at"], unique=False)
    op.create_index("ix_call_next", "call", ["status", "next_at"], unique=False)
    op.create_index("ix_call_tool", "call", ["tool", "finished_at"], unique=False)
    op.create_index("ix_call_plan_id", "call", ["plan_id"], unique=False)
    op.create_index("ix_call_digest", "call", ["digest"], unique=False)


def _revision() -> None:
    op.create_table(
        "revision",
        sa.Column("seq", sa.Integer(), nullable=False),
        sa.Column("call_id", sa.String(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("arguments", sa.Text(), nullable=False),
        sa.Column("digest", sa.String(), nullable=False),
        sa.Column("author", sa.String(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["call_id"], ["call.id"]),
        sa.PrimaryKeyConstraint("seq"),
        sa.UniqueConstraint("call_id", "number"),
    )


def _attempt() -> None:
    op.create_table(
        "attempt",
        sa.Column("seq", sa.Integer(), nullable=False),
        sa.Column("call_id", sa.String(), nullable=False),
        sa.Column("revision", sa.Integer(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["call_id"], ["call.id"]),
        sa.PrimaryKeyConstraint("seq"),
    )
    op.create_index("ix_attempt_call_id", "attempt", ["call_id"], unique=False)


def _delivery() -> None:
    op.create_table(
        "delivery",
        sa.Column("seq", sa.Integer(), nullable=False),
        sa.Column("key", sa.String(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("team", sa.String(), nullable=False),
        sa.Column("user", sa.String(), nullable=False),
        sa.Column("channel", sa.String(), nullable=False),
        sa.Column("thread_ts", sa.String(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("received_at", sa.BigInteger(), nullable=False),
        sa.Column("status", sa.String(), nullable=False),
        sa.Column("run_id", sa.String(), nullable=True),
        sa.Column("note", sa.String(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("surface", sa.String(16), nullable=False),
        sa.Column("answer", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("seq"),
        sa.UniqueConstraint("key"),
    )
    op.create_index("ix_delivery_run_id", "delivery", ["run_id"], unique=False)
    op.create_index("ix_delivery_status", "delivery", ["status"], unique=False)
    op.create_index(
        "ix_delivery_thread", "delivery", ["team", "channel", "thread_ts"], unique=False
    )


def _message() -> None:
    op.create_table(
        "message",
        sa.Column("seq", sa.Integer(), nullable=False),
        sa.Column("key", sa.String(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("run_id", sa.String(), nullable=False),
        sa.Column("plan_id", sa.String(), nullable=False),
        sa.Column("channel", sa.String(), nullable=False),
        sa.Column("thread_ts", sa.String(), nullable=False),
        sa.Column("recipient", sa.String(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("status", sa.String(), nullable=False),
        sa.Column("wanted", sa.Integer(), nullable=False),
        sa.Column("shown", sa.Integer(), nullable=False),
        sa.Column("showing", sa.Text(), nullable=False),
        sa.Column("ts", sa.String(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("due_at", sa.BigInteger(), nullable=True),
        sa.Column("error", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("seq"),
        sa.UniqueConstraint("key"),
    )
    op.create_index("ix_message_plan_id", "message", ["plan_id"], unique=False)
    op.create_index("ix_message_run_id", "message", ["run_id"], unique=False)
    op.create_index("ix_message_status", "message", ["status"], unique=False)
    op.create_index("ix_message_ts", "message", ["ts"], unique=False)


def _audit() -> None:
    op.create_table(
        "audit",
        sa.Column("seq", sa.Integer(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("run_id", sa.String(), nullable=False),
        sa.Column("call_id", sa.String(), nullable=False),
        sa.Column("actor", sa.String(), nullable=False),
        sa.Column("event", sa.String(), nullable=False),
        sa.Column("data", sa.Text(), nullable=False),
        sa.Column("payload", sa.Text(), nullable=False),
        sa.Column("key_id", sa.String(), nullable=False),
        sa.Column("previous", sa.String(), nullable=False),
        sa.Column("hash", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("seq"),
        sa.UniqueConstraint("hash"),
    )
    op.create_index("ix_audit_call_id", "audit", ["call_id"], unique=False)
    op.create_index("ix_audit_run_id", "audit", ["run_id"], unique=False)


def _contact() -> None:
    op.create_table(
        "contact",
        sa.Column("team", sa.String(), nullable=False),
        sa.Column("person", sa.String(), nullable=False),
        sa.Column("greeted_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("team", "person"),
    )
