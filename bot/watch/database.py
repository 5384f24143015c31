"""Whether the database takes what is to be stored, for whoever looks after the process."""

from __future__ import annotations

from sqlalchemy.exc import DBAPIError

from bot.watch.looked import OK
from storage.open_file import LostFileError
from storage.probe import commit_something
from storage.store import Store


def written(store: Store) -> str:
    """Return OK, or what became of its file; raises what the database does where it cannot.

    That the file is lost, or its disk full, is said in words: they hold a path, and no secret.
    """
    try:
        commit_something(store)
    except DBAPIError as error:
        if isinstance(error.orig, LostFileError):
            return str(error.orig)
        raise
    except OSError as error:
        return f"there is no room beside it ({error.strerror})"
    return OK
