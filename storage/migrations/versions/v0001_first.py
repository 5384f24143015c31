"""The first schema: every table of the record, as the statements stored for SQLite create them."""

import sqlalchemy as sa
from alembic import op

from storage.migrations import SCRIPTS_FOLDER

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Create the tables and indexes on any database; triggers come after every migration."""
    statements = (
        (SCRIPTS_FOLDER / "shapes" / f"{revision}.sqlite.sql").read_text("utf-8").split("\n;\n")
    )
    tables = sa.MetaData()
    with sa.create_engine("sqlite://", hide_parameters=True).connect() as empty:
        for statement in statements:
            empty.exec_driver_sql(statement)
        tables.reflect(empty)
    tables.remove(tables.tables["alembic_version"])  # Alembic's own
    tables.create_all(op.get_bind())
