"""Where a run was asked, kept on the run: policy and modes go by it, also once it has moved."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Add the column; older runs get the channel of what they began with, else their own."""
    op.add_column("run", sa.Column("asked_in", sa.String(), nullable=False, server_default=""))
    op.execute(
        "UPDATE run SET asked_in = COALESCE((SELECT d.channel FROM delivery d"
        " WHERE d.run_id = run.id AND d.channel <> '' ORDER BY d.seq LIMIT 1), channel)"
    )
    # what was born of another run has no delivery of its own, or one that says where it is
    op.execute(
        "UPDATE run SET asked_in = COALESCE((SELECT r.asked_in FROM run r"
        " WHERE r.id = run.root_id), asked_in) WHERE parent_call <> ''"
    )
