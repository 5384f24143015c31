"""An edited value before and after, so that a reader can tell the two texts apart. Pure."""

from __future__ import annotations

import json
import re
import unicodedata
from typing import Any

from bot.cards.slack_text import LOOKALIKES, shorten_text, show_hidden_characters
from storage.masking import mask_secrets


def look_alike(one: str, other: str, *, flat: bool = False) -> bool:
    """Return whether a reader could take two texts for one and the same.

    They can if the texts differ only in spaces, in how letters are encoded, or in letters of other
    scripts. `flat`: they are shown on one line each, so line ends are spaces too.
    """
    return one == other or _fold(one, flat=flat) == _fold(other, flat=flat)


def _fold(text: str, *, flat: bool) -> list[tuple[bool, str]]:
    lines = [" ".join(line.split()) for line in unicodedata.normalize("NFKC", text).split("\n")]
    seen = " ".join(filter(None, lines)) if flat else "\n".join(lines).strip("\n")
    return [(char.isupper(), LOOKALIKES.get(char.lower(), char.lower())) for char in seen]


def quote_apart(one: Any, other: Any, *, flat: bool = False) -> tuple[str, str]:
    """Return two JSON values as quoted text that shows where they differ.

    Letters beyond ASCII are written as codes only if the texts would look alike otherwise.
    """
    texts = _quote(one, flat=flat), _quote(other, flat=flat)
    if look_alike(*texts, flat=flat):
        texts = _quote(one, flat=flat, ascii_=True), _quote(other, flat=flat, ascii_=True)
    return texts


def _quote(value: Any, *, flat: bool, ascii_: bool = False) -> str:
    """Return a value as JSON: a text line by line, repeated spaces written as codes."""
    lines = value.split("\n") if isinstance(value, str) and not flat else [value]
    text = "\n".join(json.dumps(line, ensure_ascii=ascii_) for line in lines)
    return show_hidden_characters(re.sub("(?<= ) ", r"\\u0020", text))


def shorten_change(before: str, after: str, limit: int) -> tuple[str, str]:
    """Return a value before and after an edit, masked, on one line each, with the difference.

    Texts longer than `limit` (>= 40) begin shortly before the first difference. Both are quoted if
    they would look alike otherwise, or contain an arrow, which separates the two.
    """
    texts = mask_secrets(before), mask_secrets(after)
    if look_alike(*texts, flat=True) or "→" in "".join(texts):
        texts = quote_apart(*texts, flat=True)
    old, new = (show_hidden_characters(" ".join(text.split())) for text in texts)
    pairs = enumerate(zip(old, new, strict=False))
    same = next((at for at, (one, other) in pairs if one != other), min(len(old), len(new)))
    start = same - limit // 4
    if start > 0 and max(len(old), len(new)) > limit:
        old, new = f"…{old[start:]}", f"…{new[start:]}"
    return shorten_text(old, limit), shorten_text(new, limit)
