"""What the values of a call are called: labels from keys, and labels that look alike told apart.

Pure.
"""

from __future__ import annotations

import json
import unicodedata
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache

WITHIN = " › "  # between the label of a part and that of what it is a part of
# letters of other scripts that look like a Latin one, and what they look like
_LIKE = dict(
    zip(
        "авеѕіјкмнорстухԁԛѡһӏьαβεζηικμνορτυχωγσıɑɡℓi01",
        "abesljkmhopctyxdqwhlbabeznlkuvoptuxwyolagllol",
        strict=True,
    )
)


def humanised(name: str) -> str:
    """Return a field's name as a label: "order_id" -> "Order id"."""
    words = " ".join(name.replace("_", " ").split())
    return words[:1].upper() + words[1:] or name


def unnamed(key: str) -> str:
    """Return a label for a key that nothing describes: no two keys have the same one.

    A key of small letters, as programs write one, is in words; any other stands behind its words.
    """
    label = humanised(key)
    words = key.split("_")
    is_plain = all(word.isalnum() and word == _lowered(word) for word in words)
    if is_plain and (key.isascii() or not any(map(_is_disguised, words))):
        return label
    return f"{label} ({raw([key])})".strip()


def _lowered(word: str) -> str:
    return unicodedata.normalize("NFKC", word).lower()


def _is_disguised(word: str) -> bool:
    """Whether a word of another script reads as one of Latin letters."""
    return not word.isascii() and look_of(word).isascii()


def told_apart(labels: Sequence[str], keys: Sequence[tuple[str, ...]]) -> list[str]:
    """Return the labels, each that may be taken for another one with its keys behind it.

    So is one whose letters are of several scripts, or that has none. Keys are written in ASCII, so
    that no two of them look the same.
    """
    looks = [look_of(label) for label in labels]
    alike = {look for look, count in Counter(looks).items() if count > 1}
    return [
        f"{label} ({raw(way)})".strip()
        if look in alike or (_is_mixed(label) and not label.endswith(f"({raw(way[-1:])})"))
        else label
        for label, look, way in zip(labels, looks, keys, strict=True)
    ]


def raw(keys: Sequence[str]) -> str:
    """Return keys as they are in JSON, in ASCII: `"options" › "a.b"`."""
    return WITHIN.join(json.dumps(key) for key in keys)


@lru_cache(4096)
def look_of(label: str) -> str:
    """Return a text that is the same for labels that a reader may take for one another."""
    folded = unicodedata.normalize("NFKD", label).casefold()
    return "".join(_LIKE.get(char, char) for char in folded if char.isalnum()) or label


@lru_cache(4096)
def _is_mixed(label: str) -> bool:
    """Whether one word of it has letters of several scripts, or it has unseen ones, or none."""
    if not any(map(str.isalnum, label)):
        return True
    if label.isascii():
        return False
    return not label.isprintable() or any(
        len({_script(char) for char in word if char.isalpha()}) > 1
        for word in "".join(char if char.isalnum() else " " for char in label).split()
    )


def _script(char: str) -> str:
    name = unicodedata.name(char, "").split(" ")[0]
    # words of Japanese and of Korean are written with several
    return "CJK" if name in ("CJK", "HIRAGANA", "KATAKANA", "HANGUL") else name
