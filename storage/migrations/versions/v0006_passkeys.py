"""When an approved call starts, where its rule names a time; and passkeys, the private links by
which people sign and enrol, and the signatures beside votes.
"""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """Create columns and tables; no waiting call has a time to start, and no vote was signed."""
    op.add_column("call", sa.Column("starts_at", sa.BigInteger(), nullable=True))
    op.drop_index("ix_call_due", "call")
    op.create_index("ix_call_due", "call", ["status", "deadline", "asked_at", "starts_at"])
    op.add_column("vote", sa.Column("passkey_id", sa.String(), nullable=False, server_default=""))
    _passkey()
    _signing_link()
    _signature()


def _passkey() -> None:
    op.create_table(
        "passkey",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("team", sa.String(), nullable=False),
        sa.Column("person", sa.String(), nullable=False),
        sa.Column("credential_id", sa.String(), nullable=False),
        sa.Column("public_key", sa.Text(), nullable=False),
        sa.Column("sign_count", sa.BigInteger(), nullable=False),
        sa.Column("aaguid", sa.String(), nullable=False),
        sa.Column("attested", sa.Boolean(), nullable=False),
        sa.Column("rp_id", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("transports", sa.String(), nullable=False),
        sa.Column("backed_up", sa.Boolean(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("counts_from", sa.BigInteger(), nullable=True),
        sa.Column("call_id", sa.String(), nullable=False),
        sa.Column("last_used_at", sa.BigInteger(), nullable=True),
        sa.Column("revoked_at", sa.BigInteger(), nullable=True),
        sa.Column("revoked_by", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("credential_id"),
    )
    op.create_index("ix_passkey_person", "passkey", ["team", "person"], unique=False)


def _signing_link() -> None:
    op.create_table(
        "signing_link",
        sa.Column("hash", sa.String(), nullable=False),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("team", sa.String(), nullable=False),
        sa.Column("person", sa.String(), nullable=False),
        sa.Column("call_id", sa.String(), nullable=False),
        sa.Column("revision", sa.Integer(), nullable=False),
        sa.Column("verb", sa.String(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("statement", sa.Text(), nullable=False),
        sa.Column("issued_at", sa.BigInteger(), nullable=False),
        sa.Column("expires_at", sa.BigInteger(), nullable=False),
        sa.Column("used_at", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("hash"),
    )
    op.create_index("ix_signing_link_person", "signing_link", ["team", "person"], unique=False)


def _signature() -> None:
    op.create_table(
        "signature",
        sa.Column("seq", sa.Integer(), nullable=False),
        sa.Column("call_id", sa.String(), nullable=False),
        sa.Column("revision", sa.Integer(), nullable=False),
        sa.Column("person", sa.String(), nullable=False),
        sa.Column("verb", sa.String(16), nullable=False),
        sa.Column("passkey_id", sa.String(), nullable=False),
        sa.Column("statement", sa.Text(), nullable=False),
        sa.Column("authenticator_data", sa.Text(), nullable=False),
        sa.Column("client_data", sa.Text(), nullable=False),
        sa.Column("signature", sa.Text(), nullable=False),
        sa.Column("public_key", sa.Text(), nullable=False),
        sa.Column("aaguid", sa.String(), nullable=False),
        sa.Column("rp_id", sa.String(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["call_id"], ["call.id"]),
        sa.ForeignKeyConstraint(["passkey_id"], ["passkey.id"]),
        sa.PrimaryKeyConstraint("seq"),
        sa.UniqueConstraint("call_id", "revision", "person", "verb"),
    )
