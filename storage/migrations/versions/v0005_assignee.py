"""Whom a waiting call was handed over to, and by whom: reminders name them."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Add the columns; nothing that waits has been handed over."""
    for name in ("assignee", "assigned_by"):
        op.add_column("call", sa.Column(name, sa.String(), nullable=False, server_default=""))
