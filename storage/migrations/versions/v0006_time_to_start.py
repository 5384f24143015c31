"""When an approved call starts, where its rule names a time; what waits is counted by it."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """Add the column, and have it in the index of what waits; no waiting call has such a time."""
    op.add_column("call", sa.Column("starts_at", sa.BigInteger(), nullable=True))
    op.drop_index("ix_call_due", "call")
    op.create_index("ix_call_due", "call", ["status", "deadline", "asked_at", "starts_at"])
