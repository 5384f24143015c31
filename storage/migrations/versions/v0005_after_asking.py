"""Two things that happen to a call after people were asked.

Whom a waiting call was handed over to, and by whom; and when people are next asked to look at a
call that ran without approval.
"""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
_DUE = sa.text("look_due_at IS NOT NULL")


def upgrade() -> None:
    """Add the columns; no waiting call was handed over, and nobody has to look at older ones."""
    for name in ("assignee", "assigned_by"):
        op.add_column("call", sa.Column(name, sa.String(), nullable=False, server_default=""))
    op.add_column("call", sa.Column("look_due_at", sa.BigInteger(), nullable=True))
    op.create_index(
        "ix_call_look", "call", ["look_due_at"], sqlite_where=_DUE, postgresql_where=_DUE
    )
