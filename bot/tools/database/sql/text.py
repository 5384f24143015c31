"""One statement or several, as the text that the arguments of a call hold. PURE."""

from __future__ import annotations

from itertools import pairwise

from bot.tools.database.sql.tokens import StatementError, Token, apart, lex

_DEEDS = {"insert": "Insert into", "update": "Update", "delete": "Delete rows of"}


class Sql(str):
    """Statements as text, which can say in a few words what they do."""

    __slots__ = ()

    @property
    def deed(self) -> str:
        """For people: "Update orders", "Update orders, then delete rows of heap"."""
        try:
            first, *others = map(_deed, apart(lex(self)))
        except StatementError:
            return "Change rows"
        if len(others) > 2:
            others = [others[0], f"{len(others) - 1} more changes"]
        return ", then ".join([first, *(each[0].lower() + each[1:] for each in others)])


def _deed(tokens: tuple[Token, ...]) -> str:
    """What one statement does."""
    words = [each for each in tokens if each.depth == 0]
    for at, (each, after) in enumerate(pairwise(words)):
        # what is not the name of a WITH
        if each.word in _DEEDS and after.word != "as" and after.text != "(":
            return _named(_DEEDS[each.word], words[at + 1 :])
    return "Change rows"


def _named(deed: str, rest: list[Token]) -> str:
    """The deed with the table that it is about, as it is written."""
    named = [each for each in rest if each.word not in ("into", "from", "only")]
    name = "".join(each.text.strip('"') for each in named[:1])
    if len(named) > 2 and named[1].text == ".":
        name = f"{name}.{named[2].text.strip(chr(34))}"
    return f"{deed} {name}".rstrip()
