"""An index by which decisions are found, one that is smaller, and the audit without two by which
nothing is found.
"""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
_TOLD = sa.text("next_at IS NOT NULL")
_NAMES = {"uq": "uq_%(table_name)s_%(column_0_name)s"}  # for a key that has no name in a file


def upgrade() -> None:
    """No row changes. A file's audit is copied into a table that has no key but `seq`."""
    op.create_index("ix_call_decided", "call", ["decided_at"], unique=False)
    op.drop_index("ix_call_next", "call")
    op.create_index(
        "ix_call_next",
        "call",
        ["status", "next_at"],
        unique=False,
        sqlite_where=_TOLD,
        postgresql_where=_TOLD,
    )
    op.drop_index("ix_audit_call_id", "audit")
    if op.get_context().dialect.name == "sqlite":
        with op.batch_alter_table("audit", naming_convention=_NAMES) as batch:
            batch.drop_constraint("uq_audit_hash", type_="unique")
    else:
        op.drop_constraint("audit_hash_key", "audit", type_="unique")
