"""Whether a text asks for an approval: by its words, in a few languages. Pure.

A filter and no guarantee: one can ask without any of these words. What makes it safe is that an
answer decides nothing (`storage.questions`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable

_WORDS = (
    # English
    r"(dis)?approv\w*",
    r"authori[sz]\w*",
    r"countersign\w*",
    r"sign(ed|ing)?[ -]off",
    r"permi(t|ts|tted|ssion|ssions)",
    r"consent\w*",
    r"(may|can|could|should|shall) (i|we) (now |please )?"
    r"(go ahead|proceed|continue|run|execute|do (it|this|that)|refund|cancel|delete|send|change)",
    r"go ahead",
    r"ok(ay)? (to|if (i|we)|for me to|with (me|us) \w+ing)",
    r"may (i|we)",
    r"green light",
    # German
    r"genehmig\w*",
    r"freigeb\w*|freigabe\w*",
    r"zustimm\w*",
    r"erlaub\w*",
    r"darf ich|dürfen wir",
    r"bewillig\w*",
    # French
    r"approuv\w*|approbation\w*",
    r"autoris\w*",
    r"puis-je|pouvons-nous",
    # Spanish, Portuguese, Italian
    r"apr(ob|ueb|ov)\w*|approva\w*",
    r"autori[zc]\w*",
    r"permiso|permissão|permesso",
    # Dutch
    r"goedkeur\w*|toestemming",
    r"mag ik|mogen we",
)
_SEEKS = re.compile(rf"(?<!\w)(?:{'|'.join(_WORDS)})(?!\w)", re.IGNORECASE)


def seeks_approval(texts: Iterable[str]) -> str:
    """Return the first words that ask for an approval; "" where none do."""
    for text in texts:
        if found := _SEEKS.search(" ".join(text.split())):
            return found[0]
    return ""
