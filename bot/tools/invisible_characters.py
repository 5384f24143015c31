"""Finds characters that a reader cannot see, by Unicode's own tables. Pure."""

from __future__ import annotations

import re
import unicodedata

# controls, format characters, lone surrogates, line and paragraph ends
_HIDDEN_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
# Default_Ignorable_Code_Point in DerivedCoreProperties.txt of Unicode 17.0, as pairs of first and
# last. This includes all variation selectors, and code points reserved for more of the kind.
_IGNORABLE_RANGES = (
    "\u00ad\u00ad\u034f\u034f\u061c\u061c\u115f\u1160\u17b4\u17b5\u180b\u180f\u200b\u200f\u202a\u202e"
    "\u2060\u206f\u3164\u3164\ufe00\ufe0f\ufeff\ufeff\uffa0\uffa0\ufff0\ufff8\U0001bca0\U0001bca3"
    "\U0001d173\U0001d17a\U000e0000\U000e0fff"
)
_BLANK_BRAILLE = "\u2800"  # a pattern without dots
_UNSEEN = frozenset(_BLANK_BRAILLE).union(
    *(
        map(chr, range(ord(first), ord(last) + 1))
        for first, last in zip(_IGNORABLE_RANGES[::2], _IGNORABLE_RANGES[1::2], strict=True)
    )
)

# Emoji made with invisible characters: joined ones, keycaps, flags. By the rules of
# emoji-zwj-sequences.txt and emoji-sequences.txt of Unicode 17.0, fully qualified only: other
# combinations are drawn as their parts, with invisible joiners left between them.
_TONE = "[\U0001f3fb-\U0001f3ff]"
_ADULT = "[\U0001f468\U0001f469\U0001f9d1]"  # man, woman, person
_JOIN, _AS_EMOJI = "\u200d", "\ufe0f"
_RIGHT = f"{_JOIN}\u27a1{_AS_EMOJI}"  # facing right
_TEXT_EMOJI = (  # characters that are emoji only with a variation selector after them
    "\u00a9\u00ae\u203c\u2049\u2122\u2139\u2194-\u2199\u21a9\u21aa\u2328\u23cf\u23ed-\u23ef\u23f1"
    "\u23f2\u23f8-\u23fa\u24c2\u25aa\u25ab\u25b6\u25c0\u25fb\u25fc\u2600-\u2604\u260e\u2611\u2618"
    "\u261d\u2620\u2622\u2623\u2626\u262a\u262e\u262f\u2638-\u263a\u2640\u2642\u265f\u2660\u2663"
    "\u2665\u2666\u2668\u267b\u267e\u2692\u2694-\u2697\u2699\u269b\u269c\u26a0\u26a7\u26b0\u26b1"
    "\u26c8\u26cf\u26d1\u26d3\u26e9\u26f0\u26f1\u26f4\u26f7-\u26f9\u2702\u2708\u2709\u270c\u270d"
    "\u270f\u2712\u2714\u2716\u271d\u2721\u2733\u2734\u2744\u2747\u2763\u2764\u27a1\u2934\u2935"
    "\u2b05-\u2b07\u3030\u303d\u3297\u3299\U0001f170\U0001f171\U0001f17e\U0001f17f\U0001f202"
    "\U0001f237\U0001f321\U0001f324-\U0001f32c\U0001f336\U0001f37d\U0001f396\U0001f397"
    "\U0001f399-\U0001f39b\U0001f39e\U0001f39f\U0001f3cb-\U0001f3ce\U0001f3d4-\U0001f3df\U0001f3f3"
    "\U0001f3f5\U0001f3f7\U0001f43f\U0001f441\U0001f4fd\U0001f549\U0001f54a\U0001f56f\U0001f570"
    "\U0001f573-\U0001f579\U0001f587\U0001f58a-\U0001f58d\U0001f590\U0001f5a5\U0001f5a8\U0001f5b1"
    "\U0001f5b2\U0001f5bc\U0001f5c2-\U0001f5c4\U0001f5d1-\U0001f5d3\U0001f5dc-\U0001f5de\U0001f5e1"
    "\U0001f5e3\U0001f5e8\U0001f5ef\U0001f5f3\U0001f5fa\U0001f6cb\U0001f6cd-\U0001f6cf"
    "\U0001f6e0-\U0001f6e5\U0001f6e9\U0001f6f0\U0001f6f3"
)
_GENDERED = (  # people with an activity or a role
    "\u26f9\U0001f3c3\U0001f3c4\U0001f3ca-\U0001f3cc\U0001f46e-\U0001f471\U0001f473\U0001f477"
    "\U0001f481\U0001f482\U0001f486\U0001f487\U0001f575\U0001f645-\U0001f647\U0001f64b\U0001f64d"
    "\U0001f64e\U0001f6a3\U0001f6b4-\U0001f6b6\U0001f926\U0001f935\U0001f937-\U0001f939"
    "\U0001f93c-\U0001f93e\U0001f9b8\U0001f9b9\U0001f9cd-\U0001f9cf\U0001f9d4\U0001f9d6-\U0001f9df"
)
_OF_ADULT = (  # objects that stand for a profession, and hair
    "(?:[\U0001f692\U0001f384\U0001f9b0-\U0001f9b3\U0001f3eb\U0001fa70\U0001f3ed\U0001f680"
    "\U0001f3a8\U0001f37c\U0001f393\U0001f3a4\U0001f4bc\U0001f33e\U0001f52c\U0001f373\U0001f4bb"
    f"\U0001f527]|[\u2695\u2696\u2708]{_AS_EMOJI}|[\U0001f9af\U0001f9bc\U0001f9bd](?:{_RIGHT})?)"
)
_CHILD = "[\U0001f466\U0001f467]"
_COUPLE = (  # two adults: heart, kiss, hands, ears, a fight
    f"(?:\u2764{_AS_EMOJI}{_JOIN}(?:\U0001f48b{_JOIN})?|[\U0001f91d\U0001f430\U0001faef]{_JOIN})"
)
_JOINED_PAIRS = (
    "\U0001f426\u2b1b",
    "\U0001f426\U0001f525",
    "\U0001f408\u2b1b",
    "\U0001f415\U0001f9ba",
    f"\U0001f43b\u2744{_AS_EMOJI}",
    f"\u26d3{_AS_EMOJI}\U0001f4a5",
    "\U0001f344\U0001f7eb",
    "\U0001f34b\U0001f7e9",
    f"\U0001f441{_AS_EMOJI}\U0001f5e8{_AS_EMOJI}",
    "\U0001f62e\U0001f4a8",
    "\U0001f635\U0001f4ab",
    f"\U0001f636\U0001f32b{_AS_EMOJI}",
    f"\U0001f642\u2194{_AS_EMOJI}",
    f"\U0001f642\u2195{_AS_EMOJI}",
    f"\u2764{_AS_EMOJI}\U0001f525",
    f"\u2764{_AS_EMOJI}\U0001fa79",
    f"\U0001f3f4\u2620{_AS_EMOJI}",
    f"\U0001f3f3{_AS_EMOJI}\U0001f308",
    f"\U0001f3f3{_AS_EMOJI}\u26a7{_AS_EMOJI}",
)


def _build_joined_emoji_pattern(pair: str) -> str:
    second = 2 if pair[1] == _AS_EMOJI else 1
    return re.escape(f"{pair[:second]}{_JOIN}{pair[second:]}")


_UK_FLAGS = "|".join(  # England, Scotland, Wales
    "\U0001f3f4" + "".join(chr(0xE0000 + ord(each)) for each in name) + "\U000e007f"
    for name in ("gbeng", "gbsct", "gbwls")
)
EMOJI_PATTERN = re.compile(
    "|".join(
        (
            f"{_ADULT}(?:{_TONE}{_JOIN}{_COUPLE}{_ADULT}{_TONE}|{_JOIN}{_COUPLE}{_ADULT})",
            f"{_ADULT}{_TONE}?{_JOIN}{_OF_ADULT}",
            f"[\U0001f468\U0001f469](?:{_JOIN}[\U0001f468\U0001f469])?(?:{_JOIN}{_CHILD}){{1,2}}",
            f"\U0001f9d1(?:{_JOIN}\U0001f9d1)?(?:{_JOIN}\U0001f9d2){{1,2}}",
            f"\U0001faf1{_TONE}{_JOIN}\U0001faf2{_TONE}",
            f"[{_GENDERED}](?:{_TONE}|{_AS_EMOJI})?{_JOIN}[\u2640\u2642]{_AS_EMOJI}(?:{_RIGHT})?",
            f"[\U0001f3c3\U0001f6b6\U0001f9ce]{_TONE}?{_RIGHT}",
            *map(_build_joined_emoji_pattern, _JOINED_PAIRS),
            f"[0-9#*]{_AS_EMOJI}\u20e3",
            _UK_FLAGS,
            f"[{_TEXT_EMOJI}]{_AS_EMOJI}",
        )
    )
)


def certainly_has_no_hidden_characters(text: str) -> bool:
    """Whether the text certainly has no hidden characters; a quick test that may say no wrongly."""
    words = text.replace("\n", " ").replace("\t", " ")
    return words.isprintable() and _UNSEEN.isdisjoint(words)  # printable: in no hidden category


def is_hidden_character(char: str) -> bool:
    """Whether a reader cannot see this character; newline, tab and spaces count as visible."""
    return char not in "\n\t" and (
        char in _UNSEEN or unicodedata.category(char) in _HIDDEN_CATEGORIES
    )


def list_hidden_characters(text: str) -> list[str]:
    """Return the characters of a text that a reader cannot see, in order.

    Characters that form an emoji with others count as visible.
    """
    return (
        []
        if certainly_has_no_hidden_characters(text)
        else list(filter(is_hidden_character, EMOJI_PATTERN.sub("", text)))
    )
