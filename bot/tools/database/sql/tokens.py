"""The tokens of SQL as people can read it: no comments, no escapes, nothing invisible. PURE."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from bot.tools import ToolError
from bot.tools.database.sql.reasons import why_not
from bot.tools.unseen import hidden_in

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
