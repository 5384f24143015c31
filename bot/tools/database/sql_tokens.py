"""The tokens of SQL as people can read it: no comments, no escapes, nothing invisible. PURE."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from bot.tools import ToolError
from bot.tools.invisible_characters import hidden_in

# What is said of a statement that is refused, in words for a person and the model. PURE.

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


MAX_LENGTH = 3_000  # characters, what an input in Slack takes
MAX_TOKENS, MAX_DEPTH = 1_200, 60  # a parser recurses: far below what would exhaust the stack
_TOKEN = re.compile(
    r"""(?P<space>[ \t\r\n]+)
    | (?P<word>[A-Za-z_][A-Za-z0-9_]*)(?!['"$A-Za-z0-9_\u0080-\U0010ffff]|&['"])
    | (?P<number>[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)(?![A-Za-z0-9_.$\u0080-\U0010ffff])
    | (?P<string>'(?:[^']|'')*')
    | (?P<quoted>"(?:[^"]|"")+")
    | (?P<mark>[(),.;]|::?|[\[\]])
    | (?P<operator>[-+*/<>=~!@\#%^&|?]+)""",
    re.VERBOSE,
)


class StatementError(ToolError, ValueError):
    """The statement is refused; nothing of it ran.

    Also a ValueError, so that a type can refuse it.
    """


@dataclass(frozen=True, slots=True)
class Token:
    """One token: its kind, its text, where it begins, how many parentheses it is in."""

    kind: str
    text: str
    start: int
    depth: int

    @property
    def word(self) -> str:
        """An unquoted word in lower case; "" for anything else."""
        return self.text.lower() if self.kind == "word" else ""


def lex(text: str) -> tuple[Token, ...]:
    """The tokens of `text`.

    Raises StatementError at what people could misread, or what is too long to be read.
    """
    if len(text) > MAX_LENGTH:
        raise StatementError(f"the statement has {len(text)} characters, more than {MAX_LENGTH}")
    hidden = next((each for each in hidden_in(text) if each != "\r"), "")
    if hidden:
        raise StatementError(f"it holds the invisible character U+{ord(hidden):04X}; remove it")
    tokens: list[Token] = []
    position = depth = 0
    while position < len(text):
        found = _TOKEN.match(text, position)
        if found is None:
            raise StatementError(why_not(text[position:]))
        kind, piece = str(found.lastgroup), found[0]
        if kind == "operator" and ("--" in piece or "/*" in piece):
            raise StatementError(why_not(piece[min(_at(piece, "--"), _at(piece, "/*")) :]))
        depth -= piece == ")"
        if kind != "space":
            tokens.append(Token(kind, piece, position, depth))
        depth += piece == "("
        position = found.end()
        if not 0 <= depth <= MAX_DEPTH or len(tokens) > MAX_TOKENS:
            raise StatementError(
                "its parentheses do not match, or it is too deeply nested or too long"
            )
    return tuple(tokens)


def apart(tokens: tuple[Token, ...]) -> Iterator[tuple[Token, ...]]:
    """The tokens between the semicolons that stand outside all parentheses."""
    begin = 0
    for at, each in enumerate(tokens):
        if each.text == ";" and each.depth == 0:
            yield tokens[begin:at]
            begin = at + 1
    yield tokens[begin:]


def _at(piece: str, part: str) -> int:
    """Where `part` begins, or the end."""
    found = piece.find(part)
    return found if found >= 0 else len(piece)
