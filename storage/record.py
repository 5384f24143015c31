"""What most modules need of the record: its rows, a transaction, and the database itself.

The statuses are in `storage.states`, and the queries in modules of their own beside this one.
Modules of `storage` import one another directly.
"""

from storage.models import (
    PURGED,
    Audit,
    Call,
    Delivery,
    Message,
    ModeSwitch,
    Plan,
    Revision,
    Run,
    Vote,
    new_id,
)
from storage.store import ReadOnlyStore, Store, retry_until_stored
from storage.transaction import Transaction

__all__ = [
    "PURGED",
    "Audit",
    "Call",
    "Delivery",
    "Message",
    "ModeSwitch",
    "Plan",
    "ReadOnlyStore",
    "Revision",
    "Run",
    "Store",
    "Transaction",
    "Vote",
    "new_id",
    "retry_until_stored",
]
