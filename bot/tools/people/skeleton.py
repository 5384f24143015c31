"""A text as a reader takes it: without marks, and in the letters that it looks like. Pure."""

from __future__ import annotations

import re
import unicodedata

from bot.tools.unseen import is_hidden

# letters of other scripts that look like Latin ones, after case folding; NFKC does full-width,
# mathematical, circled and superscript letters
_LOOKS = str.maketrans(
    "авекмнорстухіјѕԁԛԝһӏүгпиѵьαβγεηικνορστυχωϲϳɑɡɩᴀᴄᴅᴇᴊᴋᴍᴏᴘᴛᴜᴠᴡᴢʀɢɪɴʟꜱʏսօցոքհյƿ",
    "abekmhopctyxijsdqwhlyrnuvbabyenikvopotuxwcjagiacdejkmoptuvwzrginlsyuognfhjp",
)
_LONE = r"[^\W\d_]"
_SPACED = re.compile(rf"(?<!\w){_LONE}(?:[\s._*·•|/\\-]{{1,3}}{_LONE}(?!\w)){{3,}}")
_SEPARATORS = re.compile(r"[\s._*·•|/\\-]+")
# a mark that says something, as a sign on a button does; the rest of them is left out
_DECORATION = ("So", "Sk", "Cf", "Cs", "Co", "Mn", "Me", "Cn")


def skeleton(text: str) -> str:
    """Return the text in plain letters: no symbols, emoji, accents or hidden characters, full-width
    and look-alike letters as Latin ones, letters that are spaced out joined, all in lower case.
    """
    wide = unicodedata.normalize("NFKD", text)
    kept = (
        each
        for each in wide
        if each in "\n\t" or not (is_hidden(each) or unicodedata.category(each) in _DECORATION)
    )
    found = "".join(kept).casefold().replace("_", " ")
    found = " ".join(map(_as_read, found.split()))
    return _SPACED.sub(lambda match: _SEPARATORS.sub("", match[0]), found)


def _as_read(word: str) -> str:
    """One word in Latin letters where it has some that look so."""
    return word.translate(_LOOKS) if not word.isascii() else word
