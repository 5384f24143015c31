"""The items of a purged request may be deleted: the triggers alone change, and they are made anew
after every migration.
"""

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """No row, column or index changes."""
