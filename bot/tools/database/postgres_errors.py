"""What people are told when PostgreSQL refuses, ends or never begins: no address, no DETAIL, and no
secret.
"""

from __future__ import annotations

import re

from bot.tools.database.session import hide

_UNREACHED = (  # what libpq and the server say, which names addresses, and what people are told
    ("password authentication failed|no password supplied", "its password is wrong or missing"),
    ('role ".*" does not exist', "its server has no such role"),
    ('database ".*" does not exist', "its server has no such database"),
    ("no pg_hba.conf entry", "its server lets nobody in from here by that role"),
    ("permission denied for database", "the role may not connect to it"),
    ("connection slots|too many connections", "its server takes no more connections"),
    ("translate host name|resolve|not known", "its host is not known"),
    ("refused|no such file", "nothing answers at its address"),
    ("timeout|timed out", "no answer in time"),
    ("ssl|certificate", "no agreement on encryption, see sslmode"),
)


def reason(error: BaseException | None, seconds: float, *, careful: bool) -> str:
    """The database's own words, the first line: its DETAIL and our connection string stay away from
    people.

    `careful`: without what a function raised, and without the values in it, for they could be
    secret.
    """
    state = getattr(error, "sqlstate", None)
    if state == "57014":
        return f"it took longer than {seconds:g} s and was stopped; nothing was changed"
    if state == "55P03":
        return "rows are locked by somebody else; nothing was changed. Trying again later may work"
    diag = getattr(error, "diag", None)
    if state and diag is not None and diag.message_primary:
        if careful and diag.context:
            return f"a function of the database refused it; its words could tell a secret (SQLSTATE {state})"
        words = (
            hide(diag.message_primary)
            if careful and state.startswith("22")
            else diag.message_primary
        )
        return f"the database says: {words[:300]}"
    why = next(
        (words for found, words in _UNREACHED if re.search(found, str(error), re.IGNORECASE)), ""
    )
    return f"the database cannot be reached, or ended the connection{why and f' ({why})'}; nothing was changed"
