"""Breaches that are known and have yet to go, from `known.txt`: a check and a file on each line.

The list may only shrink: a test fails when one of them is no longer there. `circle` stands before
the packages of one circle, `chain` before the length of the longest import chain as it is.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

FILES: defaultdict[str, set[str]] = defaultdict(set)
CIRCLES: list[set[str]] = []
CHAIN = 0

for _line in Path(__file__).with_name("known.txt").read_text("utf-8").splitlines():
    _check, *_rest = _line.split()
    match _check:
        case "circle":
            CIRCLES.append(set(_rest))
        case "chain":
            CHAIN = int(_rest[0])
        case _:
            FILES[_check].update(_rest)
