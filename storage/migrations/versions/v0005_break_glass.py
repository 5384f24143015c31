"""When people are next asked to look at a call that ran without approval."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
_DUE = sa.text("look_due_at IS NOT NULL")


def upgrade() -> None:
    """Add the column and its index; of the older calls nobody has to look at any."""
    op.add_column("call", sa.Column("look_due_at", sa.BigInteger(), nullable=True))
    op.create_index(
        "ix_call_look", "call", ["look_due_at"], sqlite_where=_DUE, postgresql_where=_DUE
    )
