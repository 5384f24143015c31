"""A statement as the text that its arguments hold. PURE."""

from __future__ import annotations

from bot.tools.database.sql.tokens import StatementError, lex


class Sql(str):
    """A statement as text, which can say in a word or two what it does."""

    __slots__ = ()

    @property
    def deed(self) -> str:
        """For people: "Update orders"."""
        try:
            words = [each.text.strip('"') for each in lex(self) if each.depth == 0]
        except StatementError:
            return "Change rows"
        deeds = {"insert": "Insert into", "update": "Update", "delete": "Delete rows of"}
        for at, word in enumerate(words):
            if word.lower() in deeds:
                rest = [each for each in words[at + 1 :] if each.lower() not in ("into", "from")]
                return " ".join([deeds[word.lower()], *rest[:1]])
        return "Change rows"
