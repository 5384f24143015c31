"""Which characters a reader cannot see, by Unicode's own table; for all that people read. PURE."""

from __future__ import annotations

import unicodedata

from bot.tools.emoji import EMOJI

# controls, formats, lone surrogates, line and paragraph ends
_HIDING = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
# Default_Ignorable_Code_Point in DerivedCoreProperties.txt of Unicode 17.0, as pairs of first and
# last. All variation selectors are among them, and places kept free for more of the kind.
_IGNORABLE = (
    "\u00ad\u00ad\u034f\u034f\u061c\u061c\u115f\u1160\u17b4\u17b5\u180b\u180f\u200b\u200f\u202a\u202e"
    "\u2060\u206f\u3164\u3164\ufe00\ufe0f\ufeff\ufeff\uffa0\uffa0\ufff0\ufff8\U0001bca0\U0001bca3"
    "\U0001d173\U0001d17a\U000e0000\U000e0fff"
)
_BLANK = "\u2800"  # a pattern of no dots
_UNSEEN = frozenset(_BLANK).union(
    *(
        map(chr, range(ord(first), ord(last) + 1))
        for first, last in zip(_IGNORABLE[::2], _IGNORABLE[1::2], strict=True)
    )
)


def is_plain(text: str) -> bool:
    """Whether nothing in the text is hidden, told quickly; False also where that takes a look."""
    words = text.replace("\n", " ").replace("\t", " ")
    return words.isprintable() and _UNSEEN.isdisjoint(words)  # printable: of no category that hides


def is_hidden(char: str) -> bool:
    """Whether a reader cannot see this one character; newline, tab and spaces count as seen."""
    return char not in "\n\t" and (char in _UNSEEN or unicodedata.category(char) in _HIDING)


def hidden_in(text: str) -> list[str]:
    """List what a reader cannot see in a text, in order; what makes an emoji of others is seen."""
    return [] if is_plain(text) else list(filter(is_hidden, EMOJI.sub("", text)))
