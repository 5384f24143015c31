"""Text from others, made harmless to a terminal and to a model."""

from __future__ import annotations

import unicodedata

_JOINER = "\u200d"  # between the parts of one emoji
_ACTING = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})  # what a terminal may act upon


def escape_control_characters(text: str) -> str:
    """Return text from others with control characters written out, harmless to a terminal.

    Tabs, line ends and emoji stay as they are.
    """
    if text.isprintable():
        return text
    return "".join(f"⟨U+{ord(each):04X}⟩" if _is_control_character(each) else each for each in text)


def _is_control_character(char: str) -> bool:
    return char not in "\n\t" + _JOINER and unicodedata.category(char) in _ACTING
