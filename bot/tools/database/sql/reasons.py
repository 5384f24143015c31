"""What is said of a statement that is refused, in words for a person and the model. PURE."""

from __future__ import annotations

import re

from sqlglot import exp


def called(node: exp.Expr) -> str:
    """What people call this kind of thing in a statement."""
    names = {
        "Lock": "FOR UPDATE",
        "Into": "SELECT INTO",
        "Dot": "a function or value named by a schema",
        "Insert": "INSERT inside a query",
        "Command": "this command",
    }
    return (
        names.get(type(node).__name__)
        or re.sub(r"(?<=[a-z])(?=[A-Z])", " ", type(node).__name__).upper()
    )


def why_not(rest: str) -> str:
    """Why a statement's text cannot go on with `rest`."""
    for start, why in (
        ("--", "comments are not allowed"),
        ("/*", "comments are not allowed"),
        (";", "only one statement, without ;"),
        ("$", "$ is not allowed: no $$ strings, no parameters"),
        ("?", "parameters are not allowed; write the values"),
        (":", "parameters are not allowed; write the values"),
        ("`", "quote names with double quotes"),
        ("[", "arrays and [names] are not allowed; quote names with double quotes"),
        ("\\", "\\ stands in no string"),
        ("'", "a string does not end"),
        ('"', "a quoted name does not end, or is empty"),
    ):
        if rest.startswith(start):
            return why
    if re.match(r"[A-Za-z_]\w*['\"]", rest):
        return "strings with a letter before the quote (E'…', U&'…', X'…') are not allowed"
    return (
        f"{rest[:12]!r} is not allowed; names other than a-z, 0-9 and _ need double quotes, "
        "operators a blank"
    )
