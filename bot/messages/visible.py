"""Characters that hide or reorder text, made visible.

Pure; it changes nothing else in a text and knows no Slack.
"""

from __future__ import annotations

import unicodedata

# controls, formats, lone surrogates, line and paragraph ends
_HIDING = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
# Letters and marks by their category that nevertheless show as nothing.
_BLANK = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")


def is_hidden(char: str) -> bool:
    """Whether a reader cannot see this one character; newline, tab and spaces count as seen."""
    return char not in "\n\t" and (char in _BLANK or unicodedata.category(char) in _HIDING)


def visible(text: str) -> str:
    """The text with each hidden character written out as ⟨U+202E⟩.

    All other characters stay as they are.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(f"⟨U+{ord(char):04X}⟩" if is_hidden(char) else char for char in text)
