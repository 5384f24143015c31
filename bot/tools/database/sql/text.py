"""A statement as the text that its arguments hold. PURE."""

from __future__ import annotations

from itertools import pairwise

from bot.tools.database.sql.tokens import StatementError, Token, lex

_DEEDS = {"insert": "Insert into", "update": "Update", "delete": "Delete rows of"}


class Sql(str):
    """A statement as text, which can say in a word or two what it does."""

    __slots__ = ()

    @property
    def deed(self) -> str:
        """For people: "Update orders"."""
        try:
            words = [each for each in lex(self) if each.depth == 0]
        except StatementError:
            return "Change rows"
        for at, (each, after) in enumerate(pairwise(words)):
            if (
                each.word in _DEEDS and after.word != "as" and after.text != "("
            ):  # no name in a WITH
                return _named(_DEEDS[each.word], words[at + 1 :])
        return "Change rows"


def _named(deed: str, rest: list[Token]) -> str:
    """The deed with the table that it is about, as it is written."""
    named = [each for each in rest if each.word not in ("into", "from", "only")]
    name = "".join(each.text.strip('"') for each in named[:1])
    if len(named) > 2 and named[1].text == ".":
        name = f"{name}.{named[2].text.strip(chr(34))}"
    return f"{deed} {name}".rstrip()
