"""What is said of a statement that is refused, in words for a person and the model. PURE."""

from __future__ import annotations

import re

_SCHEMA = "it would change what the database is made of; only rows can be read and changed"
_TRANSACTION = "every call runs in a transaction of its own; leave it out"
_SETTING = "settings of the database cannot be changed"
_BEGINS = {
    **dict.fromkeys(("alter", "create", "drop", "comment", "reindex", "refresh"), _SCHEMA),
    **dict.fromkeys(
        ("begin", "start", "commit", "end", "rollback", "abort", "savepoint", "release"),
        _TRANSACTION,
    ),
    **dict.fromkeys(("set", "reset", "pragma", "discard"), _SETTING),
    **dict.fromkeys(("grant", "revoke", "reassign", "security"), "rights cannot be changed"),
    **dict.fromkeys(("attach", "detach", "use"), "no other database can be opened from here"),
    "truncate": "write DELETE FROM instead",
    "replace": "it deletes rows that it meets; write INSERT … ON CONFLICT (…) DO UPDATE SET …",
    "merge": "write INSERT … ON CONFLICT (…) DO UPDATE SET …, or UPDATE … FROM …",
    "table": "write SELECT * FROM …",
    "show": "the tool tables tells what there is",
    "copy": "no files are read or written",
}


def not_run(word: str, wanted: str) -> str:
    """Why no statement may begin with `word` (in lower case), and what is `wanted`."""
    why = _BEGINS.get(word, "")
    return f"{word.upper()[:30]} is not run" + (f": {why}" if why else f"; only {wanted} is")


def why_not(rest: str) -> str:
    """Why a statement's text cannot go on with `rest`."""
    for start, why in (
        ("--", "comments are not allowed"),
        ("/*", "comments are not allowed"),
        ("$", "$ is not allowed: no $$ strings, no parameters"),
        ("`", "quote names with double quotes"),
        ("\\", "\\ stands in no string"),
        ("'", "a string does not end"),
        ('"', "a quoted name does not end, or is empty"),
    ):
        if rest.startswith(start):
            return why
    if re.match(r"[A-Za-z_]\w*&?['\"]", rest):
        return "strings with a letter before the quote (E'…', U&'…', X'…') are not allowed"
    return f"{rest[:12]!r} is not allowed; names other than a-z, 0-9 and _ need double quotes"
